"""Benchmarks against ``fasthep run``: ``make bench``. Nothing here is collected by pytest."""
