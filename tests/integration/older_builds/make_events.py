import os

import numpy as np
import uproot

for number in (0, 1):
    with uproot.recreate(f"events_{number}.root") as out:
        out.mktree("events", {"x": np.arange(10.0) + number, "good": np.arange(10) % 2})
    os.utime(f"events_{number}.root", (1_700_000_000, 1_700_000_000))
