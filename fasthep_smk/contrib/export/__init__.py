"""What is written of an analysis for others: a bundle with all that a launch needs."""
