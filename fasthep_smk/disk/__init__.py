"""What a build folder costs on disk, what of it can go, and making room.

``usage`` looks at the files, ``policy`` decides what may be deleted (pure functions), ``free``
deletes it.
"""
