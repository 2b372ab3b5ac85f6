"""Records of matrix products as a tuner on this machine writes them, for logs that are written by hand."""

from typing import Any

import numpy as np

import tensorlang as tl
from tensorlang.autotune.measurement import host
from tensorlang.codegen.target import target
from tensorlang.schedules.strategies import choose
from tensorlang.serialization import canonical
from tests.autotune.test_log import fields


def matmul(n: int, name: str = "C") -> tl.Tensor:
    return tl.ops.matmul(tl.placeholder((n, n), name="A"), tl.placeholder((n, n), name="B"), name=name)


def record(n: int, outputs: tl.Tensor, **changes: Any) -> dict[str, Any]:
    strategy = choose(outputs, target(), 1)
    task = {
        "op": "matmul",
        "fingerprint": canonical.fingerprint(outputs),
        "family": canonical.family(outputs),
        "extents": list(canonical.extents(outputs)),
        "dtype": "float32",
        "definition": canonical.describe(outputs),
    }
    made = {"task": task, "target": host.target_fields(target()), "strategy": {"name": strategy.name}, "config": strategy.default}
    return fields(n, **{**made, "schedule": strategy.schedule(strategy.default).to_json(), **changes})


def another(outputs: tl.Tensor) -> dict[str, Any]:
    """A record of another schedule than the default."""
    strategy = choose(outputs, target(), 1)
    config = next(config for config in strategy.space.sample(np.random.default_rng(0), 20) if config != strategy.default)
    return {"config": config, "schedule": strategy.schedule(config).to_json()}
