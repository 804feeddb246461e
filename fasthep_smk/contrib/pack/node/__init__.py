"""What runs on a node before the packed environment is there: ``sh``, then Python alone."""
