"""Templates of stages, from pointwise to reducers of the user's; `ordered` has those whose order counts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from .banded import banded, shrinking
from .case import Extent, Node
from .draft import LETTERS, WORK, Draft, axes_of
from .inner import LANES, TERMS, reduced, with_total
from .nodes import FLOATS, SIGNED, SMOOTH, cast, cast_all, guarded, together
from .ordered import recurrence, scan, scatter
from .ragged import ragged

REDUCERS: Final = ("sum",) * 5 + ("max", "max", "min", "prod", "mean", "argmax", "argmin", "any", "all", "reduce_fmax", "reduce_fmin")


def pointwise(draft: Draft) -> None:
    """Any expression over any shape."""
    axes, of = axes_of(draft.shape(draft.rng.choice((0, 1, 1, 2, 2, 2, 3, 3, 4, 5)))), draft.type()
    if not draft.tensors or draft.rng.random() < 0.2:
        draft.operand(list(axes.values()), draft.type())
    scope = draft.scope(axes)
    body = scope.value(of, draft.rng.randint(1, 3))
    off = scope.protected(of, draft.offset()) if draft.maybe(0.15) else None
    body = body if off is None else [draft.rng.choice("|^") if of == "bool" else draft.rng.choice(("+", "max")), off, body]
    draft.add("pointwise", axes, [cast_all(body, of)], [of], rough="rough" in scope.marks)


def pair(draft: Draft) -> None:
    """Two results in one stage."""
    axes, of, other = axes_of(draft.shape(draft.rng.randint(1, 3))), draft.type(), draft.type()
    scope = draft.scope(axes)
    body = [cast_all(scope.value(of, 2), of), cast_all(scope.value(other, 1), other)]
    draft.add("tuple", axes, body, [of, other], rough="rough" in scope.marks)


def stencil(draft: Draft) -> None:
    """A weighted sum of neighbours: guarded at the border, clamped, or over the part where all exist."""
    name = draft.of_rank(1, 3)
    info, rng = draft.tensors[name], draft.rng
    of = "int32" if info.dtype == "bool" else info.dtype
    style = rng.choice(("guard", "clamp", "valid"))
    reach = rng.randint(1, 2)
    known = [draft.scope({}).known(extent) for extent in info.shape]
    if style == "valid" and not all(size is not None and size >= reach for size in known):
        style = "guard"
    if style == "clamp" and not all(known):
        style = "guard"
    shape: list[Extent] = [["-", extent, reach] if style == "valid" else extent for extent in info.shape]
    axes = axes_of(shape)
    taps = [[rng.randint(0, reach) if style == "valid" else rng.randint(-reach, reach) for _ in shape] for _ in range(rng.randint(2, 4))]
    total: Node = None
    for tap in taps:
        index: list[Node] = [["+", ["ax", axis], offset] if offset else ["ax", axis] for axis, offset in zip(axes, tap, strict=True)]
        tests: list[Node] = []
        for place, (extent, offset) in enumerate(zip(info.shape, tap, strict=True)):
            if style == "clamp" and offset:
                index[place] = ["clamp", index[place], 0, ["ext", ["-", extent, 1]]]
            elif style == "guard" and offset:
                tests.append([">=", index[place], 0] if offset < 0 else ["<", index[place], ["ext", extent]])
        term = guarded(cast(["ld", name, index], info.dtype, of), tests, of)
        term = ["*", term, ["cast", of, rng.randint(1, 3)]] if rng.random() < 0.5 else term
        total = term if total is None else [rng.choice(("+", "+", "max", "-")), total, term]
    draft.add("stencil", axes, [total], [of], rough=info.rough)


def padded(draft: Draft) -> None:
    """`tl.pad` in one of its modes; more often than not of what a stage computes, whose consumer is then larger than it."""
    given = {operand["name"] for operand in draft.case["inputs"]}
    made = [name for name, info in draft.tensors.items() if name not in given and 1 <= len(info.shape) <= 3]
    name = made[-1] if made and draft.rng.random() < 0.7 else draft.of_rank(1, 3)
    info = draft.tensors[name]
    known = [draft.scope({}).known(extent) for extent in info.shape]
    mode = draft.rng.choice(("constant", "edge", "wrap", "reflect")) if all(size is not None and size > 2 for size in known) else "constant"
    widths = [[draft.rng.randint(0, 2), draft.rng.randint(0, 2)] for _ in info.shape]
    shape: list[Extent] = [["+", extent, sum(width)] if sum(width) else extent for extent, width in zip(info.shape, widths, strict=True)]
    draft.add("pad", axes_of(shape), [], [info.dtype], rough=info.rough, form="pad", reads=[name], widths=widths, mode=mode)


def jumps(reducer: str) -> bool:
    """Does the result change abruptly where an operand changes a little?"""
    return reducer in ("argmax", "argmin", "any", "all")


def reduction(draft: Draft) -> None:
    """A reduction over some axes of a tensor, in any order of axes, at times under a condition or inside an expression."""
    rng, reducer = draft.rng, draft.rng.choice(REDUCERS)
    if not draft.tensors:
        draft.operand(draft.shape(rng.randint(1, 4)), draft.number())
    fits = [
        name
        for name, info in draft.tensors.items()
        if info.shape and not (info.rough and jumps(reducer)) and draft.points(list(info.shape)) <= WORK
    ]
    name = rng.choice(fits) if fits and rng.random() < 0.8 else draft.operand(draft.shape(rng.randint(1, 4)), draft.number())
    info = draft.tensors[name]
    axes = [f"r{place}" if rng.random() < 0.5 else LETTERS[place] for place in range(len(info.shape))]
    if all(axis in LETTERS for axis in axes):
        axes[rng.randrange(len(axes))] = "r"
    inner = [[axis, 0, extent] for axis, extent in zip(axes, info.shape, strict=True) if axis.startswith("r")]
    outer = [(axis, extent) for axis, extent in zip(axes, info.shape, strict=True) if not axis.startswith("r")]
    rng.shuffle(outer)
    rng.shuffle(inner)
    of = "int32" if info.dtype == "bool" and reducer not in ("any", "all") else info.dtype
    reducer = "sum" if reducer == "mean" and of not in FLOATS else reducer
    scope = draft.scope(dict(outer)).inside(**{axis: extent for axis, _, extent in inner})
    element: Node = cast(["ld", name, [["ax", axis] for axis in axes]], info.dtype, of)
    if reducer in ("any", "all"):
        element = element if of == "bool" else [rng.choice((">", "<=", "!=")), element, ["cast", of, 1]]
    elif rng.random() < 0.4:
        element = [rng.choice(("*", "+", "max")), element, scope.exact(of)]
    where = scope.condition(of) if rng.random() < 0.25 else None
    unsafe = scope.unsafe(of, draft.offset()) if draft.maybe(0.15) and reducer not in ("any", "all") else None
    if unsafe is not None:
        element, where = [rng.choice(("+", "max")), element, unsafe[0]], together([*unsafe[1], *([] if where is None else [where])])
    finish(draft, "reduce", dict(outer), [reducer, inner, element, where, of], rough=info.rough)


def grouped(draft: Draft) -> None:
    """A reduction of what belongs to each group, by an operand that says which; at times of two, or under a condition besides."""
    rng, of = draft.rng, draft.number()
    data, kind = draft.extent(9), rng.choice(("int64", "int32"))
    axes: dict[str, Extent] = {axis: draft.extent(6) for axis in LETTERS[: rng.choice((1, 1, 2))]}
    scope = draft.scope(axes).inside(k=data)
    told: list[Node] = [
        ["==", cast(["ld", draft.operand([data], kind), [["ax", "k"]]], kind, "int64"), ["ax", axis]] for axis in axes if rng.random() < 0.8
    ]
    values = draft.operand([data], of)
    element: Node = cast(["ld", values, [["ax", "k"]]], draft.tensors[values].dtype, of)
    where = [*told, *([scope.condition(of)] if rng.random() < 0.3 else [])]
    reducer = rng.choice(("sum", "sum", "max", "min"))
    finish(draft, "grouped", axes, [reducer, [["k", 0, data]], element, together(where) if where else None, of], rough=False)


def finish(draft: Draft, kind: str, axes: dict[str, Extent], reduce: list[Any], *, rough: bool) -> None:
    """A stage whose body is a reduction, at times with something done to its result (which makes an implicit stage of it)."""
    reducer, inner, element, where, of = reduce
    gives, scope = reduced(reducer, of), draft.scope(axes)
    rough |= reducer in ("sum", "prod", "mean") and of in FLOATS
    body: Node = ["red", reducer, inner, element, where, of]
    if draft.rng.random() < 0.25 and gives != "bool":
        body = [draft.rng.choice(("+", "*", "max")), body, scope.value(gives, 1)]
    draft.add(kind, axes, [body], [gives], rough=rough or "rough" in scope.marks)


def product(draft: Draft) -> None:
    """A matrix product, at times batched or transposed, between tensors at hand or new ones."""
    rng, of = draft.rng, draft.number()
    batch = [draft.extent(3)] if rng.random() < 0.2 else []
    m, n = draft.extent(17), draft.extent(17)
    k = draft.extent(max(2, WORK // draft.points([m, n, *batch])))
    left = draft.operand([*batch, *rng.choice(([m, k], [k, m]))], of)
    right = draft.operand([*batch, *rng.choice(([k, n], [n, k]))], rng.choice((of, of, of, draft.number())))
    axes = {**({"b": batch[0]} if batch else {}), "i": m, "j": n}

    def read(name: str, first: str, second: str) -> Node:
        info = draft.tensors[name]
        shape = list(info.shape)[len(batch) :]
        order = [first, second] if shape == [{"i": m, "j": n, "k": k}[first], {"i": m, "j": n, "k": k}[second]] else [second, first]
        return cast(["ld", name, [["ax", axis] for axis in [*("b" for _ in batch), *order]]], info.dtype, of)

    rough = (draft.tensors[left].rough or draft.tensors[right].rough) and of in FLOATS
    if of not in FLOATS and (draft.tensors[left].rough or draft.tensors[right].rough):
        return
    finish(draft, "matmul", axes, ["sum", [["k", 0, k]], ["*", read(left, "i", "k"), read(right, "k", "j")], None, of], rough=rough)


def narrow(draft: Draft) -> None:
    """A product of bytes in wide sums, in tiles that an instruction computes, at times with a read under a condition added to it."""
    rng = draft.rng
    columns = draft.fixed(rng.choice((LANES, LANES, 2 * LANES, LANES + 1)))
    rows, terms = draft.extent(5), draft.fixed(rng.choice((TERMS, TERMS, 2 * TERMS, TERMS + 1)))
    left, right = draft.operand([rows, terms], "uint8"), draft.operand([columns, terms], "int8")
    element = ["*", *[["cast", "int32", ["ld", name, [["ax", axis], ["ax", "k"]]]] for name, axis in ((left, "i"), (right, "j"))]]
    body: Node = ["red", "sum", [["k", 0, terms]], element, None, "int32"]
    axes = {"i": rows, "j": columns}
    off = draft.scope(axes).protected("int32", draft.offset()) if draft.maybe(0.1) else None
    draft.add("narrow", axes, [body if off is None else ["+", body, off]], ["int32"], rough=False)


def convolution(draft: Draft) -> None:
    """A convolution in one or two dimensions, with channels and a stride."""
    rng, of = draft.rng, draft.number()
    dims = rng.randint(1, 2)
    size, stride = rng.choice((1, 2, 3)), rng.choice((1, 1, 2))
    out: list[Extent] = [draft.extent(9) for _ in range(dims)]
    channels, filters = draft.extent(4), draft.extent(5)
    data: list[Extent] = [["+", ["*", extent, stride], size - 1] for extent in out]
    left, right = draft.operand([channels, *data], of), draft.operand([filters, channels, *[size] * dims], of)
    axes = {"o": filters, **dict(zip("yx", out, strict=False))}
    window = [["+", ["*", ["ax", axis], stride] if stride > 1 else ["ax", axis], ["ax", f"r{axis}"]] for axis in "yx"[:dims]]
    element = [
        "*",
        ["ld", left, [["ax", "c"], *window]],
        ["ld", right, [["ax", "o"], ["ax", "c"], *[["ax", f"r{axis}"] for axis in "yx"[:dims]]]],
    ]
    inner = [["c", 0, channels], *[[f"r{axis}", 0, size] for axis in "yx"[:dims]]]
    rng.shuffle(inner)
    finish(draft, "conv", axes, ["sum", inner, element, None, of], rough=draft.tensors[left].rough or draft.tensors[right].rough)


def window(draft: Draft) -> None:
    """A reduction over windows that overlap, at times of a function, clamped to what is read, enlarged, weighted, or cut."""
    rng, of, dims = draft.rng, draft.number(), draft.rng.randint(1, 2)
    sizes, stride = [rng.choice((1, 2, 3, 4, 4, 6)) for _ in range(dims)], rng.choice((1, 1, 2))
    out: list[Extent] = [draft.extent(9) for _ in range(dims)]
    shape: list[Extent] = [["+", ["*", extent, stride], size - 1] for extent, size in zip(out, sizes, strict=True)]
    source = draft.operand(shape, of)
    axes: dict[str, Extent] = dict(zip("yx", out, strict=False))
    places: list[Node] = [["*", ["ax", axis], stride] if stride > 1 else ["ax", axis] for axis in axes]
    if rng.random() < 0.25:  # of an image that is enlarged
        places = [["//", ["+", ["ax", axis], rng.randint(0, 1)], rng.choice((2, 2, 3))] for axis in axes]
    places = [["+", place, ["ax", f"r{axis}"]] for place, axis in zip(places, axes, strict=True)]
    known = [draft.scope({}).known(extent) for extent in shape]
    if all(known) and rng.random() < 0.4:
        places = [["clamp", ["+", place, -1], 0, extent - 1] for place, extent in zip(places, map(int, filter(None, known)), strict=True)]
    element: Node = ["ld", source, places]
    element = ["call", rng.choice(SMOOTH[:4]), element] if of in FLOATS and rng.random() < 0.3 else element
    for axis, size in zip(axes, sizes, strict=True):
        if rng.random() < 0.3:
            element = ["*", ["ld", draft.operand([size], of), [["ax", f"r{axis}"]]], element]
    inner = [[f"r{axis}", 0, size] for axis, size in zip(axes, sizes, strict=True)]
    scope = draft.scope(axes).inside(**{name: size for name, _, size in inner})
    where = scope.condition(of) if rng.random() < 0.25 else None
    finish(draft, "window", axes, [rng.choice(("sum", "sum", "max", "min")), inner, element, where, of], rough=draft.tensors[source].rough)


def gather(draft: Draft) -> None:
    """A read whose place data decides."""
    rng = draft.rng
    name = draft.of_rank(1, 3)
    of = draft.tensors[name].dtype
    told = [name for name, info in draft.tensors.items() if info.dtype in SIGNED and 1 <= len(info.shape) <= 2]
    made = rng.choice(told) if told and rng.random() < 0.3 else None
    indices = made or draft.operand(draft.shape(rng.randint(1, 2), 200), rng.choice(SIGNED))
    axes = axes_of([*draft.tensors[indices].shape, *draft.shape(rng.randint(0, 1), 8)])
    scope = draft.scope(axes)
    body: Node = scope.gather(name, of, indices)
    size = scope.known(draft.tensors[name].shape[0])
    if draft.maybe(0.3):
        far, tests = scope.off(draft.tensors[indices].shape, draft.offset())
        at: Node = ["cast", "int64", ["ld", indices, far]]
        others = [scope.index(extent) for extent in draft.tensors[name].shape[1:]]
        tests += [test for _, test in others if test is not None]
        first = ["clamp", at, 0, size - 1] if size else guarded(at, tests, "int64")
        tests += [] if size else [[">=", first, 0], ["<", first, ["ext", draft.tensors[name].shape[0]]]]
        body = guarded(["ld", name, [first, *[part for part, _ in others]]], tests, of)
    if rng.random() < 0.4 and of != "bool":
        body = [rng.choice(("+", "max")), body, scope.value(of, 1)]
    body = with_total(draft, scope, of, body)
    draft.add("gather", axes, [body], [of], rough="rough" in scope.marks)


def transposed(draft: Draft) -> None:
    """Axes permuted, or two joined into one."""
    name = draft.of_rank(2, 5)
    info, rng = draft.tensors[name], draft.rng
    shape, known = list(info.shape), [draft.scope({}).known(extent) for extent in info.shape]
    if rng.random() < 0.4 and known[-1] and known[-2]:
        axes = axes_of([*shape[:-2], ["*", shape[-2], shape[-1]]])
        last = ["ax", list(axes)[-1]]
        index = [["ax", axis] for axis in list(axes)[:-1]] + [["//", last, ["ext", shape[-1]]], ["%", last, ["ext", shape[-1]]]]
        draft.add("reshape", axes, [["ld", name, index]], [info.dtype], rough=info.rough)
        return
    order = list(range(len(shape)))
    rng.shuffle(order)
    axes = axes_of([shape[place] for place in order])
    index = [["ax", LETTERS[order.index(place)]] for place in range(len(shape))]
    draft.add("transpose", axes, [["ld", name, index]], [info.dtype], rough=info.rough)


def normalised(draft: Draft) -> None:
    """A row with reductions inside its expression, as in softmax: implicit stages."""
    rng = draft.rng
    of = draft.rng.choice(FLOATS)
    name = draft.operand(draft.shape(2, 300), of)
    info = draft.tensors[name]
    row, column = info.shape
    axes = {"i": row, "j": column}
    top = ["red", "max", [["k", 0, column]], ["ld", name, [["ax", "i"], ["ax", "k"]]], None, of]
    total = ["red", "sum", [["l", 0, column]], ["ld", name, [["ax", "i"], ["ax", "l"]]], None, of]
    here: Node = ["ld", name, [["ax", "i"], ["ax", "j"]]]
    body: Node = ["-", here, top] if rng.random() < 0.5 else ["+", ["*", here, total], top]
    body = ["call", rng.choice(SMOOTH[:4]), body] if rng.random() < 0.3 else body
    draft.add("normalise", axes, [body], [of], rough=True)


def custom(draft: Draft) -> None:
    """A reducer of the user's with two components."""
    rng, of = draft.rng, draft.number()
    name = draft.operand(draft.shape(2), of)
    row, column = draft.tensors[name].shape
    element: Node = ["ld", name, [["ax", "i"], ["ax", "k"]]]
    reducer = rng.choice(("sum_max", "sum_count"))
    body = [element, element if reducer == "sum_max" else ["cast", of, 1]]
    scope = draft.scope({"i": row}).inside(k=column)
    where = scope.condition(of) if rng.random() < 0.25 else None
    extra = {"form": "custom", "reducer": reducer, "inner": [["k", 0, column]], "where": where, "reads": [name], "results": 2}
    draft.add("custom", {"i": row}, body, [of, of], rough=True, always=True, **extra)


KINDS: Final[dict[str, tuple[Callable[[Draft], None], int]]] = {
    "pointwise": (pointwise, 5),
    "tuple": (pair, 1),
    "stencil": (stencil, 4),
    "pad": (padded, 2),
    "reduce": (reduction, 6),
    "grouped": (grouped, 2),
    "matmul": (product, 4),
    "narrow": (narrow, 1),
    "conv": (convolution, 3),
    "window": (window, 2),
    "banded": (banded, 2),
    "shrinking": (shrinking, 1),
    "gather": (gather, 2),
    "transpose": (transposed, 2),
    "normalise": (normalised, 1),
    "recurrence": (recurrence, 3),
    "scatter": (scatter, 2),
    "scan": (scan, 2),
    "custom": (custom, 1),
    "ragged": (ragged, 2),
}
