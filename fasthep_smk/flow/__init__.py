"""The door to FAST-HEP: compile a workflow, look at its plan, run parts of it.

``upstream`` is the only module that imports ``hepflow``; the others of this room use it through
``upstream`` and give the rest of the project plain functions.
"""
