"""Prints:

    executor for Work Queue: True
    data flow kernel: True

Expected: `False` in both lines.
"""

import subprocess
import sys

POOL = "parsl.executors.high_throughput.process_worker_pool"
CODE = f"""
import sys, time
start = time.process_time()
import {POOL}
print("executor for Work Queue:", "parsl.executors.workqueue.executor" in sys.modules)
print("data flow kernel:", "parsl.dataflow.dflow" in sys.modules)
print(f"{{time.process_time() - start:.1f}} s of CPU")
"""
print(subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True).stdout)
