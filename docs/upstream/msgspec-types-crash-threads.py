"""Prints:

    ended by a segmentation fault: True

Expected: `False`.
"""

import signal
import subprocess
import sys

CODE = """
import sys
import threading
from typing import TypedDict

import msgspec

sys.setswitchinterval(1e-6)
KEYS = {f"key{number}": "int" for number in range(40)}
for _ in range(200):
    parts = [TypedDict(f"Part{number}", KEYS) for number in range(3)]
    whole = TypedDict("Whole", {part.__name__: part for part in parts})
    content = msgspec.json.encode({part.__name__: dict.fromkeys(KEYS, 1) for part in parts})
    start = threading.Barrier(4)

    def read():
        start.wait()
        msgspec.json.decode(content, type=whole)

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
"""
ended = subprocess.run([sys.executable, "-c", CODE], stderr=subprocess.DEVNULL)
print("ended by a segmentation fault:", ended.returncode == -signal.SIGSEGV)
