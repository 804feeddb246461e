"""Optional parts: each is loaded when it is used, and imported by no other room."""
