"""Helpers of the tests: events, workflows, comparisons."""
