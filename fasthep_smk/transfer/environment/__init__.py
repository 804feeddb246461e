"""The environment that jobs need, packed into one file that unpacks itself on a node."""
