"""Prints:

    left alone: True

Expected: `False`, or another method that replaces the resources of the rule.
"""

import inspect

from snakemake.jobs import Job

print(
    "left alone:",
    "do not add aux_resources that are already in resources" in inspect.getsource(Job),
)
