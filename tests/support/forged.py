"""Pickles that run code when they are read: each leaves a file, the canary."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hist
import numpy as np

#: Whoever reads them so runs them; what is imported here, pandas finds with its caller.
READER = "import os, pickle, sys; pickle.loads(open(sys.argv[1], 'rb').read())"


class Calls:
    """A pickle of it calls ``function(*arguments)`` when it is read."""

    def __init__(self, function: Callable[..., object], *arguments: object) -> None:
        self.parts = (function, arguments)

    def __reduce__(self) -> Any:
        return self.parts


def forged(canary: Path) -> dict[str, bytes]:
    """Return pickles by what runs ``touch canary`` in them."""
    from pandas.core.computation.expr import Expr
    from scipy.stats import rv_continuous

    command = f"touch '{canary}'"
    runs = Calls(os.system, command)
    histogram = hist.Hist.new.Reg(3, 0, 1, name="met").Weight()
    content = pickle.dumps(histogram, protocol=5)
    labelled = hist.Hist(hist.axis.Regular(3, 0, 1), label=runs)
    in_axis = hist.Hist(hist.axis.Regular(3, 0, 1, metadata=runs))
    distribution = rv_continuous.__new__(rv_continuous)
    distribution.__dict__["_parse_arg_template"] = f"import os; os.system({command!r})"
    values: dict[str, object] = {
        "system": runs,
        "scipy": distribution,
        "pandas": Calls(Expr, f"@os.system({command!r})", "python", "pandas", None, 0),
        "numpy": np.array([runs], dtype=object),
        "label": labelled,
        "axis": in_axis,
    }
    found = {name: pickle.dumps(value, protocol=5) for name, value in values.items()}
    call = pickle.dumps(runs, protocol=5)[11:-1].replace(b"\x94", b"")  # without frame and memo
    found["before"] = b"\x80\x05" + call + b"0" + content[2:]
    found["old"] = pickle.dumps(runs, protocol=0)
    return found


def is_real(content: bytes, canary: Path, folder: Path) -> bool:
    """Whether reading a pickle as usual leaves the canary; it is taken away again."""
    path = folder / "real.pkl"
    path.write_bytes(content)
    subprocess.run([sys.executable, "-c", READER, str(path)], capture_output=True)
    path.unlink()
    there = canary.exists()
    canary.unlink(missing_ok=True)
    return there
