"""One case as plain data: a definition, the values of its extents, a schedule and the seed of its operands.

    case   = {"seed", "extents": {name: value}, "symbolic": [name*], "inputs": [operand*], "stages": [stage*], "outputs": [name*],
              "steps": [step*], "fill", "more": [{name: value}*], "bounds"?: {name: [least, most]}, "cell"?: [directive, kind, mode]}
    operand = {"name", "shape": [extent*], "dtype"}
    stage  = {"name", "kind", "type", "axes": [name*], "shape": [extent*], "body": [node*], "where"?: node, "start"?: node, ...}
    extent = int | name | [op, extent, extent]
    step   = {"call": method, "args": [...], "named": {...}, "illegal"?: true}

A node is a literal or a list that starts with its kind; `program` is the table of kinds. Everything that shrinking changes is here, and
nothing refers to an object, so a case is its own reproduction. `more` are further values of the symbolic extents: the same kernel is
called with each; `bounds` are what some of them are promised to keep. `cell` is what a case was aimed at, where the command said so.

The axes of a reduction are `[name, lo, hi]` over extents, or `[name, lo, hi, within]` where `lo` and `hi` are nodes.
"""

from __future__ import annotations

import json
from typing import Any, TypeAlias

Case: TypeAlias = dict[str, Any]
Node: TypeAlias = Any
Extent: TypeAlias = Any

ARITHMETIC = {"+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b, "//": lambda a, b: a // b}


def value_of(extent: Extent, extents: dict[str, Any]) -> Any:
    """An extent with names replaced: an int, or a `tl.dim` where `extents` holds one."""
    if isinstance(extent, str):
        return extents[extent]
    if isinstance(extent, list):
        op, left, right = extent
        return ARITHMETIC[op](value_of(left, extents), value_of(right, extents))
    return extent


def sizes(case: Case) -> list[dict[str, int]]:
    """The assignments of all extents with which the case is run; the first is the main one."""
    found: list[dict[str, int]] = []
    for change in ({}, *case.get("more", ())):
        values = {**case["extents"], **{name: value for name, value in change.items() if name in case["symbolic"]}}
        if values not in found:
            found.append(values)
    return found


def fives(case: Case) -> list[dict[str, int]]:
    """One more assignment, in which every symbolic extent is 5, or as near to it as its bounds allow; none where nothing is symbolic."""
    bounds = case.get("bounds", {})
    near = {name: min(max(5, bounds[name][0]), bounds[name][1]) if name in bounds else 5 for name in case["symbolic"]}
    return [{**case["extents"], **near}] if near else []


def to_json(case: Case) -> str:
    """The case on one line."""
    return json.dumps(case, separators=(",", ":"))


def from_json(text: str) -> Case:
    """The case of a line."""
    found: Case = json.loads(text)
    return found


def children(node: Node) -> list[Node]:
    """The nodes directly inside a node (indices included, names and operators not)."""
    match node:
        case ["ld", _, index] | ["self", index] | ["self", index, int()]:
            return list(index)
        case ["cast", _, value]:
            return [value]
        case ["call", _, *args]:
            return args
        case ["red", _, axes, value, where, _]:
            return [value, *([] if where is None else [where]), *(bound for axis in axes for bound in bounds_of(axis))]
        case [_, *args]:
            return [arg for arg in args if isinstance(arg, list)]
        case _:
            return []


def bounds_of(axis: list[Any]) -> list[Node]:
    """The bounds of an axis of a reduction that are expressions."""
    return axis[1:3] if len(axis) > 3 else []


def walk(node: Node) -> list[Node]:
    """Every node of a tree, parents first."""
    return [node, *(inner for child in children(node) for inner in walk(child))]


def trees_of(stage: dict[str, Any]) -> list[Node]:
    """All trees of a stage, those of the stages inside a scan included."""
    inner = [tree for part in stage.get("inner", ()) if isinstance(part, dict) for tree in trees_of(part)]
    more = [stage[name] for name in ("where", "start") if stage.get(name) is not None]
    return [*stage["body"], *stage.get("index", ()), *more, *inner]


def tensors_of(stage: dict[str, Any]) -> set[str]:
    """The names of the tensors that a stage reads."""
    loads = {node[1] for tree in trees_of(stage) for node in walk(tree) if isinstance(node, list) and node and node[0] == "ld"}
    return loads | set(stage.get("reads", ()))


def labels_of(stage: dict[str, Any]) -> set[str]:
    """The names that results of a stage may have."""
    return {stage["name"], *(f"{stage['name']}_{component}" for component in range(max(len(stage["body"]), stage.get("results", 1))))}


def extents_in(part: Any) -> set[str]:
    """The names of the extents that a piece of a case speaks of."""
    if isinstance(part, str):
        return {part} if part[:1] in ("e", "m") and part[1:].isdigit() else set()
    if isinstance(part, dict):
        part = list(part.values())
    return set().union(*(extents_in(entry) for entry in part)) if isinstance(part, list) else set()
