"""Reductions inside the expression of any stage: implicit stages, which directives of reductions find in every kind of statement."""

from __future__ import annotations

from .case import Extent, Node
from .draft import Draft
from .nodes import FLOATS, Scope, cast, guarded

LANES, TERMS = 16, 4
"""The tile of the instructions that sum products of bytes: so many sums of so many products."""


def reduced(reducer: str, of: str) -> str:
    """The type that a reduction of values of type `of` gives."""
    if reducer in ("any", "all"):
        return "bool"
    if reducer in ("argmax", "argmin"):
        return "int64"
    small = of == "bool" or of in ("int8", "int16", "uint8", "uint16")
    return "int32" if reducer in ("sum", "prod") and small else of


def with_total(draft: Draft, scope: Scope, of: str, body: Node) -> Node:
    """The body of a stage, with a reduction over an operand added to it where the draft shall have one inside, or two of one length."""
    if not draft.inner or not scope.axes:
        return body
    length = draft.extent(7) if draft.joint else None
    for _ in range(2 if draft.joint else 1):
        if of == "bool":
            body = ["^", [">", total(draft, scope, "int32", length), 2], body]
        else:
            alone = draft.narrow or draft.joint  # a choice around a reduction keeps it from what it is drawn for
            chosen = not alone and draft.maybe(0.2) and draft.rng.random() < 0.5
            part = chosen_total(draft, scope, of) if chosen else total(draft, scope, of, length)
            body = [draft.rng.choice(("+", "max")), part, body]
    return body


def chosen_total(draft: Draft, scope: Scope, of: str) -> Node:
    """A reduction over a row that is there only where it is chosen."""
    axis, extent, by = draft.rng.choice(list(scope.axes)), draft.extent(7), draft.offset()
    name = draft.operand([scope.axes[axis], extent], of)
    scope.mark(draft.tensors[name])
    row: Node = [draft.rng.choice("-+"), ["ax", axis], ["ext", by] if isinstance(by, str) else by]
    found: Node = ["red", draft.rng.choice(("max", "min")), [["k8", 0, extent]], ["ld", name, [row, ["ax", "k8"]]], None, of]
    return guarded(found, [[">=", row, 0], ["<", row, ["ext", scope.axes[axis]]]], of)


def total(draft: Draft, scope: Scope, of: str, length: Extent | None = None) -> Node:
    """A reduction over a row of an operand, for each place along one of the axes: of bytes in wide sums where these are asked for."""
    if draft.narrow:
        lanes = [axis for axis, extent in scope.axes.items() if scope.known(extent) == LANES]
        if lanes:
            return cast(products(draft, lanes[-1], scope.axes), "int32", of)
    axis, extent = draft.rng.choice(list(scope.axes)), draft.extent(7) if length is None else length
    name = draft.operand([scope.axes[axis], extent], of)
    scope.mark(draft.tensors[name])
    reducer = draft.rng.choice(("sum", "sum", "max", "min"))
    if reducer == "sum" and of in FLOATS:
        scope.marks.add("rough")
    found: Node = ["red", reducer, [["k7", 0, extent]], ["ld", name, [["ax", axis], ["ax", "k7"]]], None, of]
    return cast(found, reduced(reducer, of), of)


def products(draft: Draft, lane: str, axes: dict[str, Extent]) -> Node:
    """A sum of products of bytes along `k7`, one for each place along an axis, and along one outside it at times."""
    terms = draft.fixed(TERMS)
    before = list(axes)[: list(axes).index(lane)]
    row = [draft.rng.choice(before)] if before and draft.rng.random() < 0.5 else []
    left = draft.operand([*(axes[axis] for axis in row), terms], "uint8")
    right = draft.operand([axes[lane], terms], "int8")
    factors = ((left, row), (right, [lane]))
    wide = [["cast", "int32", ["ld", name, [["ax", axis] for axis in [*where, "k7"]]]] for name, where in factors]
    return ["red", "sum", [["k7", 0, terms]], ["*", *wide], None, "int32"]
