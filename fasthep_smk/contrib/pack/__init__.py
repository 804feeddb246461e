"""The environment that jobs need, packed into one file that unpacks itself on a node.

The doors: ``command.do_pack`` is the command; ``build.contents_of``, ``pack`` and
``describe_environment`` are for jobs that travel, and for ``doctor``.
"""
