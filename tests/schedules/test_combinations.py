"""Contractions of any combination of operands: distances, max-plus products, a tensor in two roles, several operands of the lanes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest

import tensorlang as tl
from tensorlang.codegen.target import target
from tensorlang.schedules.model.estimate import estimate, estimated
from tensorlang.schedules.model.program import program
from tensorlang.schedules.strategies import choose
from tensorlang.schedules.strategies.contractions.contraction import Contraction
from tensorlang.schedules.strategies.contractions.sketch import TilingSketches
from tensorlang.schedules.strategies.program import ProgramStrategy
from tests.schedules.programs import check, code_and_reason
from tests.thinned import crossed

Element = Callable[[Any, Any], Any]

COMBINATIONS: Final[dict[str, tuple[Callable[..., Any], Element]]] = {
    "squared distance": (tl.sum, lambda x, y: (x - y) * (x - y)),
    "distance": (tl.sum, lambda x, y: tl.abs(x - y)),
    "largest distance": (tl.max, lambda x, y: tl.abs(x - y)),
    "max-plus": (tl.max, lambda x, y: x + y),
    "product": (tl.prod, lambda x, y: 1 + x * y / 64),
}


def between(m: int, n: int, k: int, combination: str, *, turned: bool = False) -> tl.Tensor:
    """Every row of X with every row of Y (column, if turned)."""
    reduce, element = COMBINATIONS[combination]
    x, y = tl.placeholder((m, k), name="X"), tl.placeholder((k, n) if turned else (n, k), name="Y")
    r = tl.reduce_axis(k, name="r")
    result: tl.Tensor = tl.compute((m, n), lambda i, j: reduce(element(x[i, r], y[r, j] if turned else y[j, r]), axis=r), name="D")
    return result


def own(m: int, k: int, combination: str, *, turned: bool = False) -> tl.Tensor:
    """Every row of X with every row of X."""
    reduce, element = COMBINATIONS[combination]
    x, r = tl.placeholder((k, m) if turned else (m, k), name="X"), tl.reduce_axis(k, name="r")
    at: Callable[[Any], Any] = (lambda i: x[r, i]) if turned else (lambda i: x[i, r])
    result: tl.Tensor = tl.compute((m, m), lambda i, j: reduce(element(at(i), at(j)), axis=r), name="D")
    return result


def weighted(m: int, n: int, k: int) -> tl.Tensor:
    """Distances of which each row of Y has weights of its own."""
    x, y, v = (tl.placeholder((rows, k), name=name) for rows, name in ((m, "X"), (n, "Y"), (n, "V")))
    r = tl.reduce_axis(k, name="r")
    result: tl.Tensor = tl.compute((m, n), lambda i, j: tl.sum((x[i, r] - y[j, r]) * (x[i, r] - y[j, r]) * v[j, r], axis=r), name="D")
    return result


def contraction(result: tl.Tensor, cpu: str = "znver3") -> tuple[ProgramStrategy, Contraction]:
    strategy = choose(result, target(cpu), 1)
    assert isinstance(strategy, ProgramStrategy)
    tile = strategy._tiles["D"]
    assert isinstance(tile, Contraction)
    return strategy, tile


OPERANDS: Final[dict[str, Callable[[str], tl.Tensor]]] = {
    "two": lambda combination: between(50, 70, 40, combination),
    "own": lambda combination: own(60, 40, combination),
    "own turned": lambda combination: own(60, 40, combination, turned=True),
}
PROGRAMS: Final[dict[str, Callable[[], tl.Tensor]]] = {
    **{
        f"{operands} {name}": lambda make=make, name=name: make(name)  # type: ignore[misc]
        for operands, make in OPERANDS.items()
        for name in COMBINATIONS
    },
    "weighted": lambda: weighted(50, 70, 40),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_combination_has_register_tiles_and_a_space_of_thousands(name: str) -> None:
    strategy, _ = contraction(PROGRAMS[name]())
    assert strategy.name == "contraction"
    assert strategy.space.count.feasible > 1000
    assert strategy.default in strategy.space


@crossed({"combination": COMBINATIONS, "operands": OPERANDS, "seed": range(4)})
def test_points_compute_what_the_definition_means(combination: str, operands: str, seed: int) -> None:
    points_are_right(OPERANDS[operands](combination), seed)


def test_points_of_weighted_distances_compute_what_the_definition_means() -> None:
    points_are_right(weighted(50, 70, 40), 0)


def points_are_right(result: tl.Tensor, seed: int) -> None:
    strategy, _ = contraction(result)
    (config,) = strategy.space.sample(np.random.default_rng(seed), 1)
    for point in (config, strategy.default):
        s = strategy.schedule(point)
        assert s.faults == ()
        check(s, interpret=False, rtol=1e-4)


@crossed({"name": PROGRAMS, "seed": range(4)})
def test_a_sketch_costs_what_the_schedule_of_its_point_does(name: str, seed: int) -> None:
    strategy, tile = contraction(PROGRAMS[name]())
    (config,) = strategy.space.sample(np.random.default_rng(seed), 1)
    config = {**config, "depth": tile._depths().values[-1]}
    if config not in strategy.space:
        return
    sketches, core = TilingSketches(tile.kernel, tile.order, program(strategy._plain.nest)), target("znver3").core
    assert estimated(sketches.parts(config), core).seconds == pytest.approx(
        estimate(strategy.schedule(config).nest, core).seconds, rel=0.25, abs=2e-7
    )


def test_a_tensor_in_two_roles_is_packed_in_each() -> None:
    strategy, _ = contraction(own(300, 200, "squared distance"))
    points = (dict(config) for config in strategy.space.sample(np.random.default_rng(0), 400))
    config = next(point for point in points if point["pack_row"])
    s = strategy.schedule(config)
    assert {"X_pack", "X_pack_1"} <= set(s.stages())
    check(s, interpret=False, rtol=1e-4)


def test_tiles_leave_registers_for_differences() -> None:
    _, product = contraction(between(50, 70, 40, "squared distance"))
    assert product.kernel.roles.temporaries == 1
    a, b, r = tl.placeholder((50, 40), name="A"), tl.placeholder((40, 70), name="B"), tl.reduce_axis(40, name="r")
    _, plain = contraction(tl.compute((50, 70), lambda i, j: tl.sum(a[i, r] * b[r, j], axis=r), name="D"))
    assert plain.kernel.roles.temporaries == 0


def test_pack_takes_the_uses_that_a_loop_moves() -> None:
    s = tl.Schedule(own(17, 9, "squared distance"))
    s.split("j", 8)
    s.reorder("j_o", "D.i", "r", "j_i")
    code, reason = code_and_reason(s, "pack", "X", at="j_o")
    assert code == "TL-S303"
    assert "along=" in reason
    s.pack("X", at="j_o", along="j_i")
    check(s)
    s.pack("X", at="j_o", along="D.i")
    check(s)


def test_a_loop_that_moves_no_use_is_refused() -> None:
    s = tl.Schedule(own(17, 9, "squared distance"))
    s.split("j", 8)
    s.reorder("j_o", "D.i", "r", "j_i")
    s.pack("X", at="j_o", along="j_i")
    found = code_and_reason(s, "pack", "X", at="j_o", along="j_i")
    assert found == ("TL-S302", "no use of 'X' inside 'j_o' moves along 'j_i'")


def experts(tokens: int = 40, number: int = 8, depth: int = 64, width: int = 96) -> tl.Tensor:
    """Each token by the matrix that data pick for it."""
    x, w = tl.placeholder((tokens, depth), name="X"), tl.placeholder((number, depth, width), name="W")
    e, r = tl.placeholder((tokens,), "int32", name="E"), tl.reduce_axis(depth, name="r")
    result: tl.Tensor = tl.compute((tokens, width), lambda i, j: tl.sum(x[i, r] * w[tl.clamp(e[i], 0, number - 1), r, j], axis=r), name="D")
    return result


def test_tokens_pass_by_a_part_of_all_matrices_where_these_are_fewer() -> None:
    strategy, tile = contraction(experts())
    assert tile.kernel.roles.picked
    assert [loop.loop for loop in tile.kernel.roles.inside_panels] == ["D.i"]
    _, alone = contraction(experts(number=40))
    assert not alone.kernel.roles.picked
    assert [loop.loop for loop in alone.kernel.roles.outside_panels] == ["D.i"]
    for config in (strategy.default, *strategy.space.sample(np.random.default_rng(0), 3)):
        check(strategy.schedule(config), interpret=False, rtol=1e-4)
