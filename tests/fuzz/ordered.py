"""Templates of stages whose order counts: recurrences, scatters and scans."""

from __future__ import annotations

from typing import Any, Final

from .case import Extent, Node
from .draft import Draft, axes_of
from .inner import with_total
from .nodes import FLOATS, SIGNED, Info, Scope, cast_all, guarded, together

HOW: Final = ("add", "min", "max", "set")


def recurrence(draft: Draft) -> None:
    """Tensors that read themselves earlier: cumulative sums, time-stepped stencils, Gauss-Seidel, tables of dynamic programming.

    Several over one index space may read each other (alignments with affine gaps, coupled sequences).
    """
    rng, of = draft.rng, draft.number()
    shape = draft.shape(rng.randint(2 if draft.inner else 1, 3), 400)
    axes = axes_of(shape)
    names = list(axes)
    first = rng.randrange(len(names) - draft.inner)
    own = draft.inner and not draft.narrow and rng.random() < 0.5  # the reduction inside is over what it reads of itself
    scope = draft.scope(axes)
    types = [of, *(draft.number() for _ in range(rng.choice((0, 0, 0, 1, 2))))]
    bodies = []
    for to in types:
        distances = [
            [0] * first + [-rng.randint(1, 2)] + [rng.randint(-1, 1) for _ in names[first + 1 :]] for _ in range(rng.randint(1, 3))
        ]
        body = scope.value(to, 1)
        for distance in distances:
            at: list[Node] = [["+", ["ax", axis], by] if by else ["ax", axis] for axis, by in zip(names, distance, strict=True)]
            which = rng.randrange(len(types))
            component = [which] if len(types) > 1 else []
            earlier: Node = ["self", at, *component]
            if first < len(names) - 1 and rng.random() < (0.9 if own else 0.3):  # a whole row of it, in a stage of its own
                row: Node = ["self", [*at[:-1], ["ax", "k9"]], *component]
                earlier = ["red", rng.choice(("max", "min")), [["k9", 0, shape[-1]]], row, None, types[which]]
            earlier = earlier if types[which] == to else ["cast", to, earlier]
            body = [rng.choice(("+", "-", "max", "min")), earlier, body]
        bodies.append(body)
    bodies[0] = bodies[0] if own else with_total(draft, scope, of, bodies[0])
    if rng.random() < 0.3:
        bodies[0] = ["sel", scope.condition(of), bodies[0], scope.leaf(of)]
    off = scope.protected(of, draft.offset()) if draft.maybe(0.15) else None
    bodies[0] = bodies[0] if off is None else [rng.choice(("+", "max")), bodies[0], off]
    made = [["cast", to, body] for to, body in zip(types, bodies, strict=True)]
    if any(to not in FLOATS for to in types) and "rough" in scope.marks:  # what is rounded differently may not become an integer
        return
    draft.add("recurrence", axes, made, types, rough="rough" in scope.marks, form="recurrence", outside=rng.randint(0, 2))


def carried_rows(draft: Draft) -> None:
    """A recurrence over the whole row before, which a stage of its own combines, and another stage that reads it where it is computed."""
    rng, of = draft.rng, draft.number()
    axes = axes_of([draft.fresh(9, least=2), draft.fresh(9, least=2)])
    scope = draft.scope(axes)
    draft.operand(list(axes.values())[rng.randint(0, 1) :], of)
    before: Node = ["self", [["+", ["ax", "i"], -1], ["ax", "k9"]]]
    row: Node = ["red", rng.choice(("max", "min")), [["k9", 0, axes["j"]]], before, None, of]
    body: Node = [rng.choice(("+", "max")), row, scope.value(of, 0)]
    draft.add("recurrence", axes, [["cast", of, body]], [of], rough=False, form="recurrence", outside=rng.randint(0, 2))
    name = draft.case["stages"][-1]["name"]
    read: Node = ["ld", name, [["ax", "i"], ["ax", "j"]]]
    draft.add("pointwise", axes, [["cast", of, [rng.choice(("+", "max")), read, 1]]], [of], rough=False)


def scatter(draft: Draft) -> None:
    """Values combined at places that data or axes decide: clamped, inside by themselves, or inside only under `where=`.

    An index need not move with every axis: what a loop does not move is combined, or overwritten, again and again.
    """
    rng, of = draft.rng, draft.number()
    bare = draft.narrow or draft.joint  # a condition of the whole would stand around each of the reductions inside
    over = draft.shape(rng.choice((1, 2, 2)), 200)
    names = ["p", "q"][: len(over)]
    scope = draft.scope(dict(zip(names, over, strict=True)))
    target = [draft.fresh(rng.choice((3, 9, 17)), least=1, literal=True), *([draft.extent(5)] if rng.random() < 0.2 and not bare else [])]
    places = [inside(draft, scope, extent) if bare else place_of(draft, scope, extent) for extent in target]
    tests = [test for _, found in places for test in found]
    if draft.maybe(0.2) and not tests and not bare:
        places[0], tests = (found := raw(draft, scope, target[0])), found[1]
    how = draft.form or rng.choice(HOW)
    value = scope.value(of, 1) if rng.random() < 0.85 else ["cast", of, rng.randint(1, 3)]
    value = with_total(draft, scope, of, value)
    unsafe = scope.unsafe(of, draft.offset()) if draft.maybe(0.1) else None
    if unsafe is not None and bare:
        value = [rng.choice(("+", "max")), value, guarded(*unsafe, of)]
    elif unsafe is not None:
        value, tests = [rng.choice(("+", "max")), value, unsafe[0]], [*tests, *unsafe[1]]
    if rng.random() < 0.2 and not bare:
        tests = [*tests, scope.condition(of)]
    rough = "rough" in scope.marks or (how == "add" and of in FLOATS)
    if of not in FLOATS and rough:
        return
    axes = axes_of(target)
    start = ["*", ["cast", of, ["ax", "i"]], ["cast", of, rng.choice((3, 100))]] if rng.random() < 0.5 else None
    more: dict[str, Any] = {
        "form": "scatter",
        "over": [list(pair) for pair in zip(names, over, strict=True)],
        "index": [at for at, _ in places],
        "reduce": how,
        "outside": rng.randint(0, 3),
        "where": together(tests) if tests else None,
        "start": start,
    }
    draft.add("scatter", axes, [cast_all(value, of)], [of], rough=rough, always=False, **more)


def place_of(draft: Draft, scope: Scope, extent: Extent) -> tuple[Node, list[Node]]:
    """An index into a dimension, and the conditions under which it is inside."""
    rng, size = draft.rng, scope.known(extent)
    if rng.random() < 0.3 or not size:
        return raw(draft, scope, extent)
    return inside(draft, scope, extent)


def inside(draft: Draft, scope: Scope, extent: Extent) -> tuple[Node, list[Node]]:
    """An index that is inside by itself, into a dimension whose extent is known and not 0: told by data, or by axes alone.

    Axes lead to a place of its own for each iteration, or many of them to one: every so many, blocks, diagonals, all beyond the ends.
    """
    rng, size = draft.rng, scope.known(extent)
    assert size
    if rng.random() < 0.45:
        return ["clamp", told(draft, scope), 0, size - 1], []
    axis, other = rng.choice(list(scope.axes)), rng.choice(list(scope.axes))
    here, own = ["ax", axis], scope.known(scope.axes[axis])
    ways: list[Node] = [["%", here, size], ["%", ["+", here, ["ax", other]], size], ["%", ["//", here, rng.randint(2, 4)], size]]
    ways += [["clamp", ["-", here, rng.randint(0, 2)], 0, size - 1]]
    ways += [here, ["-", size - 1, here]] if own is not None and own <= size else []
    return rng.choice(ways), []


def raw(draft: Draft, scope: Scope, extent: Extent) -> tuple[Node, list[Node]]:
    """An index that may lie anywhere, and the conditions under which it is inside."""
    axis = ["ax", draft.rng.choice(list(scope.axes))]
    at = told(draft, scope) if draft.rng.random() < 0.6 else [draft.rng.choice("--+"), axis, draft.rng.randint(0, 3)]
    return at, [[">=", at, 0], ["<", at, ["ext", extent]]]


def told(draft: Draft, scope: Scope) -> Node:
    """What data says at some of the axes."""
    count = 1 if draft.rng.random() < 0.6 else len(scope.axes)
    axes = draft.rng.sample(list(scope.axes), count)
    indices = draft.operand([scope.axes[axis] for axis in axes], draft.rng.choice(SIGNED))
    return ["cast", "int64", ["ld", indices, [["ax", axis] for axis in axes]]]


def scan(draft: Draft) -> None:
    """Steps over one or two states, each with a stage of its own, at times with a reduction over the state."""
    rng, of = draft.rng, draft.number()
    shape = draft.shape(rng.randint(1, 2), 40)
    states = [draft.operand(shape, of) for _ in range(rng.choice((1, 1, 2)))]
    if any(draft.tensors[name].rough for name in states):
        return
    length = draft.extent(7)
    axes = axes_of(shape)
    here: Node = [["ax", axis] for axis in axes]
    inner = []
    scope = draft.scope({**axes, "t": length})
    old = {f"STATE{n}": Info(tuple(shape), of, rough=True) for n in range(len(states))}
    for n in range(rng.randint(0, 1)):
        before = f"STATE{rng.randrange(len(states))}"
        earlier: Node = ["ld", before, here]
        if rng.random() < 0.3:  # any other element of it, or all that stand in a line
            wide = Scope(
                rng, {before: Info(tuple(shape), of, rough=True)}, draft.case["extents"], draft.case["symbolic"], axes, scope.marks
            )
            line: Node = ["red", "max", [["k8", 0, shape[0]]], ["ld", before, [["ax", "k8"], *here[1:]]], None, of]
            earlier = wide.load(before, of) if draft.joint or rng.random() < 0.5 else line
        body: Node = [rng.choice(("+", "max")), earlier, scope.value(of, 1)]
        inner.append({"name": f"H{n}", "type": of, "axes": list(axes), "shape": shape, "body": [body]})
        old[f"H{n}"] = Info(tuple(shape), of, rough=True)
    for n in range(len(states)):
        wide = Scope(rng, {**draft.tensors, **old}, draft.case["extents"], draft.case["symbolic"], {**axes, "t": length}, scope.marks)
        mine = "H0" if "H0" in old and rng.random() < 0.5 else f"STATE{n}"
        names = ["H0"] if mine == "H0" and rng.random() < 0.5 else list(old)  # at times the old states are read by another stage only
        body = ["+" if rng.random() < 0.7 else "min", ["ld", mine, here], wide.load(rng.choice(names), of)]
        if rng.random() < 0.2:  # the states before do not count
            body = scope.value(of, 1) if rng.random() < 0.7 else ["cast", of, ["ax", "t"]]
        off = scope.protected(of, draft.offset()) if draft.maybe(0.15) else None
        body = cast_all(body if off is None else [rng.choice(("+", "max")), body, off], of)
        own = draft.inner and not draft.narrow and not draft.joint and rng.random() < 0.6
        if n == 0 and not own:
            body = with_total(draft, Scope(rng, wide.tensors, wide.extents, wide.symbolic, axes, scope.marks), of, body)
        if rng.random() < (0.9 if own else 0.2 if draft.inner else 0.3):
            at: Node = [["ax", "k"], *here[1:]]
            body = ["max", body, ["red", "max", [["k", 0, shape[0]]], ["ld", rng.choice(names), at], None, of]]
        inner.append({"name": f"N{n}", "type": of, "axes": list(axes), "shape": shape, "body": [body]})
    keep = draft.form or rng.choice(("all", "last"))
    out: dict[str, Extent] = {"t": length, **axes} if keep == "all" else axes
    extra = {"form": "scan", "reads": states, "length": length, "keep": keep, "inner": inner, "results": len(states)}
    draft.add("scan", out, [], [of] * len(states), rough="rough" in scope.marks, always=True, **extra)
