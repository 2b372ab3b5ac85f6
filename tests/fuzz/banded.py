"""Templates of stages that read a part of what another one computes: a triangle, a band, rows up to some place, what a step leaves."""

from __future__ import annotations

from typing import Any

from .case import Node
from .draft import Draft, axes_of
from .nodes import FLOATS, cast_all, guarded, together


def banded(draft: Draft) -> None:
    """A matrix of a function or of sums, and one or two stages that read it where orders of its indices hold."""
    rng, of = draft.rng, draft.number()
    if any(stage["kind"] == "banded" for stage in draft.case["stages"]):
        return
    axes = {"i": draft.extent(17), "j": draft.extent(17)}
    scope = draft.scope(axes)
    if rng.random() < 0.6:
        body, rough = scope.value(of, 2), "rough" in scope.marks
    else:
        depth = draft.extent(9)
        sides = [draft.operand([axes[axis], depth], of) for axis in axes]
        factors = [["ld", side, [["ax", axis], ["ax", "d"]]] for side, axis in zip(sides, axes, strict=True)]
        body, rough = ["red", "sum", [["d", 0, depth]], ["*", *factors], None, of], of in FLOATS
        body = ["*", body, ["cast", of, 2]] if rng.random() < 0.5 else body
    whole = draft.following
    draft.add("banded", axes, [cast_all(body, of)], [of], rough=rough)
    for _ in range(rng.randint(1, 2)):
        draft.add("banded", *_reader(draft, axes, whole, of), [of], rough=True)


def _reader(draft: Draft, axes: dict[str, Any], whole: str, of: str) -> tuple[dict[str, Any], list[Node]]:
    """The axes and the body of a stage that reads a part of a matrix."""
    rng = draft.rng
    tests = [_order(draft) for _ in range(rng.randint(1, 2))]
    read: Node = ["ld", whole, [["ax", "i"], ["ax", "j"]]]
    way = rng.choice(("where", "where", "choice", "element"))
    if way == "element":
        return axes, [guarded(read, tests, of)]
    summed = rng.choice("ij")
    inner, kept = [[summed, 0, axes[summed]]], {axis: extent for axis, extent in axes.items() if axis != summed}
    reducer = rng.choice(("sum", "sum", "max", "min"))
    if way == "choice":
        return kept, [["cast", of, ["red", reducer, inner, guarded(read, tests, of), None, of]]]
    return kept, [["cast", of, ["red", reducer, inner, read, together(tests), of]]]


def _order(draft: Draft) -> Node:
    rng = draft.rng
    factor, moved = rng.choice((1, 1, 1, 2)), rng.randint(-3, 9)
    left: Node = ["ax", "i"] if factor == 1 else ["*", factor, ["ax", "i"]]
    right: Node = ["+", ["ax", "j"], moved] if rng.random() < 0.8 else moved
    return [rng.choice(("<", "<=", ">", ">=", "<=", ">=", "==")), left, right]


def shrinking(draft: Draft) -> None:
    """A scan whose steps compute what an order of places and steps leaves of a state, and a stage that reads some of what comes out."""
    rng, of = draft.rng, draft.number()
    shape = draft.shape(rng.randint(1, 2), 40)
    state = draft.operand(shape, of)
    if draft.tensors[state].rough:
        return
    length, axes, name = draft.extent(7), axes_of(shape), draft.following
    along, here = list(axes)[-1], [["ax", axis] for axis in axes]
    place: Node = ["+", ["ax", along], rng.choice((-2, -1, 1, 1, 2))]
    there = guarded(["ld", "STATE0", [*here[:-1], place]], [[">=", place, 0], ["<", place, ["ext", shape[-1]]]], of)
    step: Node = ["ax", "t"] if rng.random() < 0.8 else ["*", 2, ["ax", "t"]]
    bounds = [["+", rng.randint(0, 6), step], ["-", rng.randint(2, 12), step], rng.randint(0, 6)]
    tests = [[rng.choice(("<", "<=", ">=", ">")), ["ax", along], rng.choice(bounds)] for _ in range(rng.choice((1, 1, 2)))]
    body = guarded([rng.choice(("+", "max", "min")), ["ld", "STATE0", here], there], tests, of)
    inner = [{"name": "N0", "type": of, "axes": list(axes), "shape": shape, "body": [cast_all(body, of)]}]
    keep = draft.form or rng.choice(("all", "last", "last"))
    extra = {"form": "scan", "reads": [state], "length": length, "keep": keep, "inner": inner, "results": 1}
    draft.add("scan", {"t": length, **axes} if keep == "all" else axes, [], [of], rough=False, always=True, **extra)
    if keep == "last":
        some = rng.randint(0, 2)
        read = guarded(["ld", f"{name}_0", [*here[:-1], some]], [["<", some, ["ext", shape[-1]]]], of)
        draft.add("pointwise", {axis: axes[axis] for axis in list(axes)[:-1]}, [cast_all(read, of)], [of], rough=False)
