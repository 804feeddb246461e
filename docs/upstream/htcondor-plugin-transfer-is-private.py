"""Prints:

    4 methods for what is transferred, public ones: []

Expected: one public method, or an argument.
"""

from snakemake_executor_plugin_htcondor import Executor

found = [name for name in vars(Executor) if "transfer" in name]
public = [name for name in found if not name.startswith("_")]
print(f"{len(found)} methods for what is transferred, public ones: {public}")
