"""What a workflow and a site say about where stages run: validated, merged, frozen.

``schema`` checks shapes, ``units`` reads amounts, ``layers`` merges settings, ``site`` reads a
site's profile, ``pools`` makes the pools of a run, ``routing`` brings stages and pools together.
"""
