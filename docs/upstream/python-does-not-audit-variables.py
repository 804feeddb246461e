"""Prints:

    events when it is set: ['os.putenv']
    events when it is read: []

Expected: an event also in the second line.
"""

import os
import sys

events = []
sys.addaudithook(lambda event, arguments: events.append(event))
os.environ["SOME_VARIABLE"] = "1"
print("events when it is set:", [event for event in events if event.startswith("os.")])
events.clear()
os.environ["SOME_VARIABLE"]
print("events when it is read:", [event for event in events if event.startswith("os.")])
