"""This script needs a GPU and CuPy. For a `dict` of columns, it prints `cuda`. For records, it prints
with CuPy 14.2.0 `cannot operate on arrays with incompatible backends. Use #ak.to_backend to coerce
the arrays to the same backend`.

Expected: `cuda` twice.
"""

from types import SimpleNamespace

import awkward as ak
from fasthep_carpenter.runtime.modifiers.gpu_preload import GPUPreloadModifier

columns = {"x": ak.Array([1.0, 2.0]), "y": ak.Array([3.0, 4.0])}
for stream in (columns, ak.zip(columns)):
    inputs = {"stream": stream}
    try:
        GPUPreloadModifier(fields=["x"]).before_node(
            node=SimpleNamespace(id="stage.Twice"), inputs=inputs, ctx={}
        )
        print(ak.backend(inputs["stream"]["x"]))
    except ValueError as error:
        print(error)
