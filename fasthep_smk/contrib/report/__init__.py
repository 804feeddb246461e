"""The page on a build folder, its tables in the terminal, and what differs between two folders."""
