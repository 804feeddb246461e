"""Errors, files, names, units: knows nothing of the project."""
