"""Templates of reductions over ranges that data or other axes decide: compressed rows, lengths, prefixes and triangles."""

from __future__ import annotations

from .case import Extent, Node
from .draft import Draft
from .inner import reduced
from .nodes import FLOATS, SIGNED, Scope

REDUCERS = ("sum", "sum", "sum", "max", "min", "prod", "argmax", "any", "mean")


def ragged(draft: Draft) -> None:
    """A reduction whose range is not the same everywhere; the ends that data give may lie anywhere and in any order."""
    rng, of = draft.rng, draft.number()
    rows, terms = draft.extent(17), draft.extent(17)
    columns = {"c": draft.extent(5)} if rng.random() < 0.4 else {}
    inside = rng.random() < 0.25  # the rows are reduced over, too
    outer: dict[str, Extent] = {**({} if inside else {"i": rows}), **columns}
    scope = draft.scope(outer).inside(i=rows)
    lo, hi = ends(draft, rows)
    ranges = [*([["i", 0, rows]] if inside else []), ["j", lo, hi, terms]]
    scope = scope.inside(j=terms)
    value = element(draft, scope, of, terms)
    reducer = rng.choice([name for name in REDUCERS if (name != "mean" or of in FLOATS) and (name != "argmax" or not inside)])
    if reducer == "any":
        value = [">", value, ["cast", of, 1]]
    if "rough" in scope.marks and reducer in ("any", "argmax"):
        return
    where = scope.condition(of) if rng.random() < 0.2 else None
    gives = reduced(reducer, of)
    body: Node = ["red", reducer, ranges, value, where, of]
    plain = draft.scope(outer)
    if rng.random() < 0.25 and gives != "bool":
        body = [rng.choice(("+", "max")), body, plain.value(gives, 1)]
    rough = (reducer in ("sum", "prod", "mean") and of in FLOATS) or "rough" in {*scope.marks, *plain.marks}
    draft.add("ragged", outer, [body], [gives], rough=rough)


def ends(draft: Draft, rows: Extent) -> tuple[Node, Node]:
    """The ends of the range of a row: from one pointer to the next, from 0 to a length, or around the diagonal."""
    rng, here = draft.rng, ["ax", "i"]
    match rng.choice(("pointers", "pointers", "length", "prefix", "band")):
        case "pointers":
            name = draft.operand([["+", rows, 1]], rng.choice(SIGNED))
            return ["ld", name, [here]], ["ld", name, [["+", here, 1]]]
        case "length":
            name = draft.operand([rows], rng.choice(SIGNED))
            return 0, ["ld", name, [here]]
        case "prefix":
            return 0, ["+", here, rng.randint(0, 2)]
        case _:
            return ["-", here, rng.randint(0, 2)], ["+", here, rng.randint(1, 3)]


def element(draft: Draft, scope: Scope, of: str, terms: Extent) -> Node:
    """What a term of a row is: a value, at times by an element that another operand names."""
    rng = draft.rng
    name = draft.operand([terms] if rng.random() < 0.6 else [terms, draft.extent(5)], of)
    rest = [part for part, test in map(scope.index, draft.tensors[name].shape[1:]) if test is None]
    if len(rest) < len(draft.tensors[name].shape) - 1:
        name, rest = draft.operand([terms], of), []
    scope.mark(draft.tensors[name])
    value: Node = ["ld", name, [["ax", "j"], *rest]]
    if rng.random() < 0.5:
        indices, table = draft.operand([terms], rng.choice(SIGNED)), draft.operand([draft.extent(9, least=1)], of)
        if draft.scope({}).known(draft.tensors[table].shape[0]):
            at = ["clamp", ["cast", "int64", ["ld", indices, [["ax", "j"]]]], 0, ["ext", ["-", draft.tensors[table].shape[0], 1]]]
            scope.mark(draft.tensors[table])
            value = ["*", value, ["ld", table, [at]]]
    return value
