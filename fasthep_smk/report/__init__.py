"""What a build folder tells people."""
