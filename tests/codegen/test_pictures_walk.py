"""A walk sees what the interpreter of nests does, access by access, whatever the schedule; many iterations at once do what each does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

import tensorlang as tl
from tensorlang.codegen.pictures import walk as walking, walk_plan
from tensorlang.codegen.pictures.film import encoded
from tensorlang.codegen.pictures.walk import Walked, walk
from tensorlang.codegen.pictures.walk_plan import NotDrawn
from tensorlang.ir.integers import value_of
from tensorlang.semantics import nest_interpreter
from tests.draws import examples
from tests.strategies import Program, programs

Place = tuple[str, int]


@dataclass
class Instance:
    """What one statement did: the places that it read, each with the value there, and those that it wrote."""

    reads: dict[Place, Any] = field(default_factory=dict)
    writes: set[Place] = field(default_factory=set)


def interpreted(
    nest: Any, feeds: dict[str, Any], dims: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> tuple[list[Instance], dict[str, Any]]:
    """The statements of a nest as its interpreter runs them, and the arrays that they wrote last."""
    found, arrays = [Instance()], {}
    checked = nest_interpreter._checked

    def watched(buffers: Any, name: str, at: tuple[int, ...], what: str) -> Any:
        array = checked(buffers, name, at, what)
        place = name, int(np.ravel_multi_index(at, array.shape)) if at else 0
        if what.startswith("a read of"):
            if found[-1].writes:
                found.append(Instance())
            found[-1].reads[place] = array[at].copy()
        else:
            if found[-1].writes:
                found.append(Instance())
            found[-1].writes.add(place)
            arrays[name] = array
        return array

    outputs = {buffer.name: np.zeros([value_of(extent, dims) for extent in buffer.shape], buffer.dtype.numpy) for buffer in nest.outputs}
    with monkeypatch.context() as patch:
        patch.setattr(nest_interpreter, "_checked", watched)
        nest_interpreter.run_nest(nest, {**feeds, **outputs}, dims)
    return found, arrays


def walked_each(
    nest: Any, plain: Any, dims: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> tuple[Walked, list[tuple[Instance, dict[Place, int]]]]:
    """A walk of one iteration at a time: what each statement touched, and which elements it found in the places that it read."""
    seen: list[tuple[Instance, dict[Place, int]]] = []
    touch, visit = walking._Walker._touch, walking._Walker._visit

    def visited(self: Any, *args: Any) -> None:
        seen.append((Instance(), {}))
        visit(self, *args)

    def touched(self: Any, one: Any, slots: Any, elements: Any, *, fresh: bool) -> None:
        name, (instance, ids) = one.buffer.name, seen[-1]
        if one.writes:
            instance.writes |= {(name, int(slot)) for slot in slots}
        else:
            held = self.held.get(name)
            for slot in slots:
                instance.reads[name, int(slot)] = None
                ids[name, int(slot)] = int(slot) if held is None or held.owner is None else int(held.owner[slot])
        touch(self, one, slots, elements, fresh=fresh)

    with monkeypatch.context() as patch:
        patch.setattr(walk_plan, "AT_ONCE", 1)
        patch.setattr(walk_plan, "BUDGET", 1e15)
        patch.setattr(walking._Walker, "_touch", touched)
        patch.setattr(walking._Walker, "_visit", visited)
        return walk(nest, plain, dims), [one for one in seen if one[0].writes]


def feeds_of(schedule: tl.Schedule, dims: dict[str, int]) -> dict[str, Any]:
    """The numbers that a walk makes up where a place depends on them, and different ones elsewhere."""
    shapes = {buffer.name: tuple(value_of(extent, dims) for extent in buffer.shape) for buffer in schedule.nest.inputs}
    rng = np.random.default_rng(3)
    found = {
        buffer.name: (
            rng.permutation(max(prod(shapes[buffer.name]), 1))[: prod(shapes[buffer.name])].reshape(shapes[buffer.name]) + 1
        ).astype(buffer.dtype.numpy)
        for buffer in schedule.nest.inputs
    }
    return {**found, **walking._made(schedule.nest, shapes)}


def image(rows: int = 6, columns: int = 7) -> tuple[Any, Any]:
    X = tl.placeholder((rows, columns), name="X")
    P = tl.compute((rows, columns - 2), lambda y, x: X[y, x] + X[y, x + 1] * 2 + X[y, x + 2] * 3, name="P")
    return P, tl.compute((rows - 2, columns - 2), lambda y, x: P[y, x] - P[y + 1, x] + P[y + 2, x] * 2, name="Q")


def strips(rows: int = 6, strip: int = 2, tail: str = "guard") -> tl.Schedule:
    _, Q = image(rows)
    s = tl.Schedule(Q)
    outer, _ = s.split("Q.y", strip, tail=tail)
    s.compute_at("P", outer)
    return s


def sliding(rows: int = 7) -> tl.Schedule:
    _, Q = image(rows)
    s = tl.Schedule(Q)
    outer, inner = s.split("Q.y", 3)
    s.compute_at("P", inner)
    s.store_at("P", outer)
    return s


def folded() -> tl.Schedule:
    s = sliding()
    s.fold_storage("P", 0, 3) if s.can("fold_storage", "P", 0, 3) else s.fold_storage("P", 0, 4)
    return s


def product(packed: bool = False) -> tl.Schedule:
    A, B = tl.placeholder((4, 3), name="A"), tl.placeholder((3, 5), name="B")
    k = tl.reduce_axis(3, name="k")
    s = tl.Schedule(tl.compute((4, 5), lambda i, j: tl.sum(A[i, k] * B[k, j], axis=k), name="C"))
    jo, ji = s.split("j", 2)
    s.reorder(jo, "i", "k", ji)
    s.accumulate("C", at="i")
    s.vectorize(ji)
    if packed:
        s.pack("B", at=jo)
    return s


def skewed() -> tl.Schedule:
    A = tl.placeholder((7,), name="A")
    S = tl.recurrence(
        (5, 7), lambda t, i, self: tl.select(t >= 1, tl.select(i >= 1, self[t - 1, i - 1], 0.0) + self[t - 1, i], A[i]), name="S"
    )
    s = tl.Schedule(S)
    s.skew("i", by="t", factor=1)
    s.split("i_s", 4)
    return s


def histogram() -> tl.Schedule:
    X = tl.placeholder((4, 5), "uint8", name="X")
    start = tl.compute((256,), lambda b: tl.cast(0, "int32"), name="start")
    axes = tl.reduce_axis(4, name="y"), tl.reduce_axis(5, name="x")
    counted = tl.scatter(start, axes, lambda y, x: tl.cast(X[y, x], "int64"), lambda y, x: tl.cast(1, "int32"), reduce="add")
    return tl.Schedule(counted)


def triangle() -> tl.Schedule:
    A = tl.placeholder((6, 6), name="A")
    return tl.Schedule(tl.compute((6, 6), lambda i, j: tl.select(j <= i, A[i, tl.clamp(j * 2, 0, 5)], A[j, i]), name="L"))


def fused() -> tl.Schedule:
    _, Q = image()
    s = tl.Schedule(Q)
    s.parallel(s.fuse("Q.y", "Q.x"))
    return s


SCHEDULES: dict[str, Callable[[], tl.Schedule]] = {
    "plain": lambda: tl.Schedule(image()[1]),
    "strips": strips,
    "strips that do not fit": lambda: strips(7, 3),
    "strips that move back": lambda: strips(7, 3, "shift"),
    "peeled strips": lambda: strips(7, 3, "peel"),
    "a window that slides": sliding,
    "folded storage": folded,
    "a tile in registers": product,
    "a packed operand": lambda: product(packed=True),
    "a skewed recurrence": skewed,
    "a scatter": histogram,
    "a triangle": triangle,
    "fused and shared loops": fused,
    "a softmax": lambda: tl.Schedule(tl.ops.softmax(tl.placeholder((4, 6), name="X"))),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_each_statement_touches_the_places_that_the_interpreter_touches(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    schedule = SCHEDULES[name]()
    feeds = feeds_of(schedule, {})
    expected, _ = interpreted(schedule.nest, feeds, {}, monkeypatch)
    _, seen = walked_each(schedule.nest, schedule.nests[0], {}, monkeypatch)
    assert [(set(one.reads), one.writes) for one in expected] == [(set(one.reads), one.writes) for one, _ in seen]


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_read_finds_the_element_whose_value_the_interpreter_finds(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The unscheduled program tells the value of each element; a strip, a window or a ring in storage holds the right ones."""
    schedule = SCHEDULES[name]()
    feeds = feeds_of(schedule, {})
    _, whole = interpreted(schedule.nests[0], feeds, {}, monkeypatch)
    expected, _ = interpreted(schedule.nest, feeds, {}, monkeypatch)
    walked, seen = walked_each(schedule.nest, schedule.nests[0], {}, monkeypatch)
    moved = [held.buffer.name for held in walked.held.values() if held.owner is not None]
    assert bool(moved) == (
        name in ("strips", "strips that do not fit", "strips that move back", "peeled strips", "a window that slides", "folded storage")
    )
    compared = 0
    for one, (_, ids) in zip(expected, seen, strict=True):
        for (buffer, slot), value in one.reads.items():
            if buffer in moved:
                assert whole[buffer].flat[ids[buffer, slot]] == value
                compared += 1
    assert compared or not moved


@settings(examples(12), suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture])
@given(programs())
def test_many_iterations_at_once_touch_what_each_of_them_does(monkeypatch: pytest.MonkeyPatch, program: Program) -> None:
    for schedule in (tl.Schedule(program.outputs), default(program.outputs)):
        try:
            together = walk(schedule.nest, schedule.nests[0], {})
        except NotDrawn:
            continue
        alone, seen = walked_each(schedule.nest, schedule.nests[0], {}, monkeypatch)
        for name, held in alone.held.items():
            np.testing.assert_array_equal(held.times > 0, together.held[name].times > 0)
            np.testing.assert_array_equal(held.kept, together.held[name].kept)
        for place, buffer in enumerate(together.shown):
            if together.film.panels[buffer.name].grid.height == together.film.panels[buffer.name].grid.width == 1:
                read = {slot for _, ids in seen for (name, _), slot in ids.items() if name == buffer.name and slot >= 0}
                assert marked(together, place, 1) == read


def default(outputs: Any) -> tl.Schedule:
    from tensorlang.codegen.compilation import default_schedule

    return default_schedule(outputs, tl.target("x86-64-v3"), threads=1)


def marked(walked: Walked, panel: int, what: int) -> set[int]:
    """The cells that are computed (0) or read (1) in any picture."""
    grid = list(walked.film.panels.values())[panel].grid
    found: set[int] = set()
    for picture in walked.film.pictures:
        found |= set(np.flatnonzero(decoded(picture["cells"][panel][what], grid.cells)).tolist())
    return found


def decoded(code: Any, cells: int) -> Any:
    if isinstance(code, str):
        return np.unpackbits(np.frombuffer(bytes.fromhex(code), np.uint8))[:cells].astype(bool)
    flags, at = np.zeros(cells, bool), 0
    for place, length in enumerate(code):
        flags[at : at + length] = place % 2
        at += length
    return flags


@pytest.mark.parametrize("seed", range(8))
def test_marked_cells_are_told_in_few_letters_and_found_again(seed: int) -> None:
    rng = np.random.default_rng(seed)
    cells = int(rng.integers(1, 2304))
    for flags in (rng.random(cells) < 0.5, np.arange(cells) % 48 < 3, np.zeros(cells, bool), np.ones(cells, bool)):
        np.testing.assert_array_equal(decoded(encoded(flags), cells), flags)
        assert len(str(encoded(flags))) <= 2 * cells + 64


def test_a_window_that_slides_is_kept_in_part_and_a_strip_computed_in_part_again() -> None:
    slides, again = (walk(s.nest, s.nests[0], {}) for s in (sliding(), strips()))
    assert slides.held["P"].times.max() == 2, "only where a strip begins"
    assert again.held["P"].times.reshape(6, 5)[:, 0].tolist() == [1, 1, 2, 2, 1, 1]
    assert not slides.held["P"].kept.any() and slides.held["Q"].kept.all(), "storage ends with its loop, an output stays"


def test_a_long_program_is_walked_in_part_and_says_so() -> None:
    X = tl.placeholder((2000, 2000), name="X")
    k = tl.reduce_axis(2000, name="k")
    s = tl.Schedule(tl.compute((2000, 2000), lambda i, j: tl.sum(X[i, k] * X[k, j], axis=k), name="C"))
    found = walk(s.nest, s.nests[0], {})
    assert found.partly == ("i",) and len(found.film.pictures) > 40
    assert marked(found, 1, 0) == set(range(48 * 48)), "no part of the picture is left out"


def test_of_loops_without_iterations_there_is_no_picture() -> None:
    X = tl.placeholder((12,), name="X")
    s = tl.Schedule(tl.compute((12,), lambda i: X[i] * 2, name="B"))
    s.split("i", 16)
    s.peel("i_o", 1, 1)
    found = walk(s.nest, s.nests[0], {})
    assert found.held["B"].kept.all() and all(sum(picture["stages"].values()) for picture in found.film.pictures)


def test_a_dim_has_the_extent_that_is_given() -> None:
    n = tl.dim("n")
    A = tl.placeholder((n,), name="A")
    s = tl.Schedule(tl.compute((n - 2,), lambda i: A[i] + A[i + 2], name="B"))
    found = walk(s.nest, s.nests[0], {"n": 32})
    assert found.shapes["B"] == (30,) and found.held["B"].kept.all()
    with pytest.raises(NotDrawn, match="A has no extent|negative"):
        walk(s.nest, s.nests[0], {"n": 1})


def test_a_read_whose_place_is_computed_is_not_made_up() -> None:
    A = tl.placeholder((16,), name="A")
    at = tl.compute((16,), lambda i: tl.clamp(tl.cast(A[i] * 3, "int64"), 0, 15), name="at")
    s = tl.Schedule(tl.compute((16,), lambda i: A[tl.clamp(at[i], 0, 15)], name="B"))
    found = walk(s.nest, s.nests[0], {})
    assert found.unknown == ("A",)


def test_tensors_beyond_measure_are_not_walked() -> None:
    A = tl.placeholder((1 << 20, 1 << 10), name="A")
    s = tl.Schedule(tl.compute((1 << 20, 1 << 10), lambda i, j: A[i, j] + 1, name="B"))
    with pytest.raises(NotDrawn, match="elements; up to"):
        walk(s.nest, s.nests[0], {})
