"""What jobs took, and what such jobs should ask for."""
