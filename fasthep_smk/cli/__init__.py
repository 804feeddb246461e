"""Commands and their arguments, and what they print."""
