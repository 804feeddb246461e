"""Errors, files, names, units, processes: what any room may need."""
