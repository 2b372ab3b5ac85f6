"""Strategies on machines that are not here: the defaults of six processors are points of their spaces and compute what NumPy does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tensorlang.codegen.cache import program_key
from tensorlang.codegen.target import description as targets, target
from tensorlang.codegen.target.caches import Caches
from tensorlang.definition.tensor import Tensor
from tensorlang.schedules.strategies import choose
from tests.machines import MACHINES, runnable
from tests.thinned import crossed


def product() -> tuple[Tensor, Callable[..., Any], list[tuple[int, ...]]]:
    a, b = tl.placeholder((70, 1200), name="A"), tl.placeholder((1200, 530), name="B")
    return tl.ops.matmul(a, b), lambda x, y: x @ y, [(70, 1200), (1200, 530)]


def rows() -> tuple[Tensor, Callable[..., Any], list[tuple[int, ...]]]:
    def softmax(x: Any) -> Any:
        e = np.exp(x - x.max(axis=1, keepdims=True))
        return e / e.sum(axis=1, keepdims=True)

    return tl.ops.softmax(tl.placeholder((33, 5000), name="A")), softmax, [(33, 5000)]


def columns() -> tuple[Tensor, Callable[..., Any], list[tuple[int, ...]]]:
    a, k = tl.placeholder((3000, 100), name="A"), tl.reduce_axis(3000, name="k")
    return tl.compute((100,), lambda j: tl.sum(a[k, j], axis=k), name="S"), lambda x: x.sum(axis=0), [(3000, 100)]


def turned() -> tuple[Tensor, Callable[..., Any], list[tuple[int, ...]]]:
    a = tl.placeholder((300, 500), name="A")
    return tl.compute((500, 300), lambda i, j: a[j, i], name="T"), lambda x: x.T, [(300, 500)]


def window() -> tuple[Tensor, Callable[..., Any], list[tuple[int, ...]]]:
    x = tl.placeholder((1, 8, 30, 30), name="X")

    def pooled(x: Any) -> Any:
        return x.reshape(1, 8, 15, 2, 15, 2).mean(axis=(3, 5))

    return tl.ops.avg_pool2d(x, 2), pooled, [(1, 8, 30, 30)]


PROGRAMS = (product, rows, columns, turned, window)


@crossed({"program": PROGRAMS, "name": MACHINES})
def test_the_default_of_every_machine_is_a_point_of_its_space_and_is_right(name: str, program: Any) -> None:
    outputs, reference, shapes = program()
    for threads in (1, 2):
        strategy = choose(outputs, target(name), threads)
        assert strategy.space.contains(strategy.default)
        assert strategy.schedule(strategy.default).directives
    machine = runnable(name)
    strategy = choose(outputs, machine, 1)
    arrays = [np.random.default_rng(place).random(shape, dtype="float32") for place, shape in enumerate(shapes)]
    kernel = tl.build(strategy.schedule(strategy.default), machine)
    np.testing.assert_allclose(kernel(*arrays), reference(*(array.astype("float64") for array in arrays)), rtol=1e-4)


@pytest.mark.parametrize("name", MACHINES)
def test_what_is_built_for_a_named_machine_does_not_depend_on_the_host(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    outputs, _, _ = product()
    found = []
    for l2, l3 in ((512, 4), (1024, 36), (2048, 256)):
        caches = Caches(32 << 10, l2 << 10, l3 << 20, cores=l3)
        monkeypatch.setattr(targets, "host_caches", lambda caches=caches: caches)
        targets._parse.cache_clear()
        machine = target(name)
        strategy = choose(outputs, machine, 2)
        found.append((repr(strategy.schedule(strategy.default)), program_key.digest(machine, "program")))
        assert target("native").caches == caches
    targets._parse.cache_clear()
    assert found[0] == found[1] == found[2]
