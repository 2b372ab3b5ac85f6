"""What a compiled graph takes, its meaning takes: tensors of torch, of every type."""

from __future__ import annotations

import numpy as np
import pytest

from tensorlang import graph

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.extras("torch")


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32", "float64", "int32"])
def test_a_graph_runs_on_tensors_of_torch(dtype: str) -> None:
    """Those of bfloat16 were refused by `run` and `inspect`, since NumPy cannot import them."""
    b = graph.Builder()
    x = b.input((2, 3), dtype, name="x")
    g = b.finish(b("abs", x))
    given = (torch.arange(6) - 3).reshape(3, 2).t().to(getattr(torch, dtype))
    wanted = given.abs().double().numpy()
    for found in (g.run(given)[0], g.compile()(given)[0], g.inspect(given)[g.outputs[0].name]):
        np.testing.assert_array_equal(found.astype("float64"), wanted)
