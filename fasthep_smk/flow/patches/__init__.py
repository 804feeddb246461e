"""What is changed in FAST-HEP, each with its reason."""
