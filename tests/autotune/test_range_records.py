"""Records of static programs serve programs of bounded dims whose range holds their size, where that does not hurt anywhere."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import kernels
from tensorlang.autotune import Database
from tensorlang.autotune.log import ranges
from tensorlang.autotune.log.log import Log
from tensorlang.autotune.log.match import Match, Query
from tensorlang.autotune.log.ranges import Range
from tensorlang.codegen.target import target
from tensorlang.schedules.strategies import choose
from tensorlang.schedules.strategies.ranged import Ranged
from tensorlang.serialization import canonical
from tests.autotune.made_logs import Made

K, N = 256, 384
DEFINITIONS = {
    "matmul": lambda n: tl.ops.matmul(tl.placeholder((n, K), name="A"), tl.placeholder((K, N), name="B")),
    "dense": lambda n: tl.ops.dense(tl.placeholder((n, K), name="x"), tl.placeholder((N, K), name="w")),
    "conv2d": lambda n: tl.ops.conv2d(tl.placeholder((n, 8, 14, 14), name="x"), tl.placeholder((16, 8, 3, 3), name="w"), padding=1),
    "softmax": lambda n: tl.ops.softmax(tl.placeholder((n, 100), name="x")),
    "attention": lambda n: tl.ops.attention(*(tl.placeholder((n, 2, 16, 32), name=name) for name in "qkv")),
}


def dim(least: int = 1, most: int = 64) -> Any:
    return tl.dim("n", least, most)


def asked(outputs: Any) -> Query:
    return Query.of((outputs,), target(), 1, "warm", ())


NARROW = 4, 16
"""A range all of whose sizes are near to 8."""
LEAST = 0.8
"""How much slower what is lent may be here by the model: on each CPU there is a point that is not slower than that."""


@pytest.fixture(autouse=True)
def lent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranges, "LEAST", LEAST)


def config_for(size: int) -> dict[str, Any]:
    """A point of the static program beside its default, that the program of a narrow range may have, not much slower by the model."""
    strategy = choose((DEFINITIONS["matmul"](dim(*NARROW)),), target(), 1)
    assert isinstance(strategy, Ranged)
    static = choose((DEFINITIONS["matmul"](size),), target(), 1)
    default = strategy.schedule(strategy.default)
    near = [static.space.project({**static.default, "depth": depth}) for depth in (32, 64, 128, 192)]
    for config in (*near, *static.space.sample(np.random.default_rng(0), 40)):
        point = None if config is None else strategy.as_planned({"n": size}, config)
        if config is None or point is None:
            continue
        made = strategy.schedule(point)
        ratios = [strategy.seconds(default, at) / strategy.seconds(made, at) for at in (*strategy.sizes, {"n": size})]
        if made.directives != default.directives and min(ratios) >= LEAST:
            return config
    raise AssertionError("no point beside the default is as good by the model")


def log_of(path: Path, size: int, config: dict[str, Any], gain: float = 2.0) -> Database:
    """A log of the static product in which this point won."""
    made = Made(DEFINITIONS["matmul"](size))
    base = made.trial(0, made.plan.default, 2e-4, "default")
    best = made.trial(1, config, 2e-4 / gain)
    best["schedule"], base["schedule"] = (made.plan.schedule(trial["config"]).to_json() for trial in (best, base))
    log = Log(path)
    for record in (made.start(), base, best, made.final(best, base), made.end()):
        log.append(record)
    return Database(log)


@pytest.mark.parametrize("name", DEFINITIONS)
@pytest.mark.parametrize("size", [1, 8, 64])
def test_a_program_at_a_size_is_the_static_program(name: str, size: int) -> None:
    static = DEFINITIONS[name](size)
    found = Range(asked(DEFINITIONS[name](dim()))).at({"n": size})
    assert found is not None
    assert (found.program, found.family, found.extents) == (
        canonical.fingerprint(static), canonical.family(static), tuple(canonical.extents(static)),
    )  # fmt: skip


@pytest.mark.parametrize("name", DEFINITIONS)
def test_the_extents_of_a_static_program_tell_its_size(name: str) -> None:
    span = Range(asked(DEFINITIONS[name](dim())))
    probed = span.probe()
    assert probed is not None
    for size in (1, 7, 64):
        assert span.sizes_of(tuple(canonical.extents(DEFINITIONS[name](size))), probed[1]) == {"n": size}
    assert span.sizes_of(tuple(canonical.extents(DEFINITIONS[name](65))), probed[1]) is None


def test_a_program_without_bounds_has_no_range() -> None:
    assert not Range(asked(DEFINITIONS["matmul"](tl.dim("n")))) and not Range(asked(DEFINITIONS["matmul"](8)))


def served(database: Database, outputs: Any) -> Match:
    return next(database.matches((outputs,), target(), 1))


def test_a_record_of_its_range_serves_where_it_is_nowhere_slower(tmp_path: Path) -> None:
    outputs = DEFINITIONS["matmul"](dim(*NARROW))
    database = log_of(tmp_path / "log.jsonl", 8, config_for(8))
    match = served(database, outputs)
    assert match.kind == "nearest" and match.dims == {"n": 8} and match.reason.startswith("of this program at n = 8: the winner")
    schedule, why = match.replayed()
    assert schedule is not None, why
    strategy = choose((outputs,), target(), 1)
    assert isinstance(strategy, Ranged)
    default = strategy.schedule(strategy.default)
    assert all(strategy.seconds(schedule, at) * LEAST <= strategy.seconds(default, at) for at in (*strategy.sizes, {"n": 8}))
    kernel = kernels.compile(outputs, database=database, threads=1)
    assert kernel.provenance == "nearest" and "of this program at n = 8" in kernel.provenance_reason
    b = np.random.default_rng(0).standard_normal((K, N), np.float32)
    for size in (4, 8, 9, 16):
        a = np.random.default_rng(size).standard_normal((size, K), np.float32)
        np.testing.assert_allclose(kernel(a, b), a @ b, rtol=1e-3, atol=1e-3)


def test_a_size_out_of_the_range_serves_nothing(tmp_path: Path) -> None:
    database = log_of(tmp_path / "log.jsonl", 8, config_for(8))
    assert served(database, DEFINITIONS["matmul"](dim(16, 64))).kind is None
    assert served(database, DEFINITIONS["softmax"](dim())).kind is None


def test_a_record_that_hurts_at_some_size_is_not_served(tmp_path: Path) -> None:
    """Of points that were drawn, the slowest by the model at the other end of the range, however fast it was where it was tuned."""
    outputs = DEFINITIONS["matmul"](dim())
    strategy, static = choose((outputs,), target(), 1), choose((DEFINITIONS["matmul"](64),), target(), 1)
    assert isinstance(strategy, Ranged)
    points = [(point, one) for one in static.space.sample(np.random.default_rng(1), 12) if (point := strategy.as_planned({"n": 64}, one))]
    worst = max(points, key=lambda pair: strategy.seconds(strategy.schedule(pair[0]), {"n": 1}))
    default = strategy.schedule(strategy.default)
    assert strategy.seconds(strategy.schedule(worst[0]), {"n": 1}) * LEAST > strategy.seconds(default, {"n": 1})
    assert served(log_of(tmp_path / "log.jsonl", 64, worst[1], gain=5.0), outputs).kind is None


def test_where_the_default_won_the_default_is_served(tmp_path: Path) -> None:
    made = Made(DEFINITIONS["matmul"](8))
    base = made.trial(0, made.plan.default, 2e-4, "default")
    base["schedule"] = made.plan.schedule(made.plan.default).to_json()
    log = Log(tmp_path / "log.jsonl")
    for record in (made.start(), base, made.final(base, base), made.end()):
        log.append(record)
    assert served(Database(log), DEFINITIONS["matmul"](dim())).kind is None
