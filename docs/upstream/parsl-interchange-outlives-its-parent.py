"""Prints:

    five seconds later the interchange is there: True

Expected: `False`.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time

os.environ["PATH"] = f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}"  # interchange.py
folder = tempfile.mkdtemp()
user = f"""
import parsl, time
from parsl.config import Config
from parsl.executors import HighThroughputExecutor
from parsl.providers import LocalProvider
provider = LocalProvider(init_blocks=0, max_blocks=0)
executor = HighThroughputExecutor(address="127.0.0.1", provider=provider)
parsl.load(Config(executors=[executor], run_dir={folder!r}, usage_tracking=0))
print(executor.interchange_proc.pid, flush=True)
time.sleep(600)
"""
process = subprocess.Popen([sys.executable, "-c", user], stdout=subprocess.PIPE, text=True)
interchange = int(process.stdout.readline())
process.kill()
process.wait()
time.sleep(5)
try:
    os.kill(interchange, signal.SIGTERM)
    print("five seconds later the interchange is there: True")
except ProcessLookupError:
    print("five seconds later the interchange is there: False")
