"""Which directive was judged on which kind of statement: the table in which an empty cell is a fault.

A cell is a directive, a kind of statement and a mode. A case covers the cell of each accepted step for each statement that the step
concerns (the stage that it names, and the statements inside the loop that it names), once every oracle has judged the case.

`IMPOSSIBLE` lists the cells that no program has, each with its reason.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tensorlang.ir import For, Nest, Store
from tensorlang.ir.traverse import loads_of, statements
from tensorlang.schedules import catalogue
from tensorlang.schedules.rewriting.edit import stage_of

from .case import Case, Extent, Node, bounds_of, extents_in, trees_of, value_of, walk
from .view import Step

KINDS: Final = (
    "store", "gather", "reduction", "recurrence", "scan all", "scan last", "scatter add", "scatter min", "scatter max", "scatter set",
)  # fmt: skip
MODES: Final = ("plain", "where", "symbolic", "empty")
DIRECTIVES: Final = tuple(catalogue.DIRECTIVES)

EMPTY_FIRST: Final = 0.75

Cell = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Impossible:
    """Cells that no program has: of these directives, kinds and modes (none given: all of them)."""

    directives: tuple[str, ...]
    reason: str
    kinds: tuple[str, ...] = KINDS
    modes: tuple[str, ...] = MODES

    def covers(self, cell: Cell) -> bool:
        """Is a cell one of these?"""
        return cell[0] in self.directives and cell[1] in self.kinds and cell[2] in self.modes

    def named(self) -> str:
        """The cells as text."""
        kinds = "" if self.kinds == KINDS else f" of {', '.join(self.kinds)}"
        modes = "" if self.modes == MODES else f", {', '.join(self.modes)}"
        return ", ".join(f"`{directive}`" for directive in self.directives) + kinds + modes


IMPOSSIBLE: Final[tuple[Impossible, ...]] = (
    Impossible(("tensorize",), "it takes the loops of a reduction alone, and a store with one inside is a reduction", ("store",)),
    Impossible(("join_reductions", "scatter", "separate"), "it names reductions, and a store with one inside is a reduction", ("store",)),
)


def impossible(cell: Cell) -> str | None:
    """Why there is no program for a cell; None where there is."""
    return next((entry.reason for entry in IMPOSSIBLE if entry.covers(cell)), None)


def cells() -> Iterator[Cell]:
    """Every cell that a campaign has to fill."""
    every = ((directive, kind, mode) for directive in DIRECTIVES for kind in KINDS for mode in MODES)
    return (cell for cell in every if impossible(cell) is None)


def empty(counts: Mapping[str, int]) -> list[Cell]:
    """The cells that no case has covered and that some program has."""
    return [cell for cell in cells() if not counts.get(spelled(cell))]


def refuted(counts: Mapping[str, int]) -> list[Cell]:
    """The cells that no program has, they say, and that a case has covered."""
    every = ((directive, kind, mode) for directive in DIRECTIVES for kind in KINDS for mode in MODES)
    return [cell for cell in every if impossible(cell) is not None and counts.get(spelled(cell))]


def rarest(counts: Mapping[str, int], rng: random.Random) -> Cell:
    """A cell to aim at: three times in four an empty one, else any, the fewer cases have covered it, the likelier."""
    every = list(cells())
    left = empty(counts)
    if left and rng.random() < EMPTY_FIRST:
        return rng.choice(left)
    return rng.choices(every, [1 / (1 + counts.get(spelled(cell), 0)) ** 2 for cell in every])[0]


def spelled(cell: Cell) -> str:
    """The name under which a cell is counted."""
    return f"cover {' | '.join(cell)}"


def table(counts: Mapping[str, int]) -> str:
    """The table: a row for each directive, a column for each kind, in each cell the counts of the four modes."""
    open_cells = empty(counts)
    rows = [f"| `{directive}` | {' | '.join(_cell(counts, directive, kind) for kind in KINDS)} |" for directive in DIRECTIVES]
    named = [f"`{directive}` on a {kind} ({mode})" for directive, kind, mode in open_cells]
    return "\n".join(
        [
            f"Cases judged for each directive on each kind of statement: {', '.join(MODES)}. A dash is a cell that no program has (below).",
            "",
            f"| directive | {' | '.join(KINDS)} |",
            f"| --- |{' --- |' * len(KINDS)}",
            *rows,
            "",
            f"Empty cells: {', '.join(named[:40])}{f' and {len(named) - 40} more' if len(named) > 40 else ''}."
            if named
            else "No cell is empty.",
            "",
            "| no program has | because |",
            "| --- | --- |",
            *(f"| {entry.named()} | {entry.reason} |" for entry in IMPOSSIBLE),
        ]
    )


def _cell(counts: Mapping[str, int], directive: str, kind: str) -> str:
    every = [(directive, kind, mode) for mode in MODES]
    found = ["-" if impossible(cell) and not counts.get(spelled(cell)) else f"{counts.get(spelled(cell), 0):,}" for cell in every]
    return "-" if set(found) == {"-"} else " ".join(found)


# What a stage is ------------------------------------------------------------------------------------------------------------------


def kind_of(stage: dict[str, Any]) -> str:
    """The kind of statement that a stage of a case is."""
    match stage.get("form"):
        case "scatter":
            return f"scatter {stage['reduce']}"
        case "scan":
            return f"scan {stage['keep']}"
        case "recurrence":
            return "recurrence"
        case "custom":
            return "reduction"
        case _:
            if stage["kind"] == "gather":
                return "gather"
            return (
                "reduction" if any(node[0] == "red" for tree in stage["body"] for node in walk(tree) if isinstance(node, list)) else "store"
            )


def modes_of(case: Case, stage: dict[str, Any]) -> tuple[str, ...]:
    """The modes in which a stage stands: under conditions, with extents of run time, over nothing; else plain."""
    extents = extents_in([stage["shape"], stage.get("over", []), stage.get("length", 0), ranges(stage)])
    where = stage.get("where") is not None or any(protects(node) for tree in trees_of(stage) for node in walk(tree))
    shape = [*stage["shape"], *(extent for _, extent in stage.get("over", ())), stage.get("length", 1), *ranges(stage)]
    found = (
        *(["where"] if where else []),
        *(["symbolic"] if extents & set(case["symbolic"]) else []),
        *(["empty"] if any(value_of(extent, case["extents"]) == 0 for extent in shape) else []),
    )
    return found or ("plain",)


def reductions(stage: dict[str, Any]) -> list[Node]:
    """The reductions in the expressions of a stage."""
    return [node for tree in trees_of(stage) for node in walk(tree) if isinstance(node, list) and node[0] == "red"]


def ranges(stage: dict[str, Any]) -> list[Extent]:
    """How far the reductions of a stage run at most."""
    own = stage["inner"] if stage.get("form") == "custom" else []
    return [axis[-1] for axis in [*own, *(axis for node in reductions(stage) for axis in node[2])]]


def protects(node: Node) -> bool:
    """Does a node allow a read only under a condition: a select around an index that is more than an axis, a `where=`, a ragged range?"""
    match node:
        case ["sel", _, yes, _]:
            return any(isinstance(part, list) and part[0] == "ld" and any(off(index) for index in part[2]) for part in walk(yes))
        case ["red", _, axes, _, where, _]:
            return where is not None or any(bounds_of(axis) for axis in axes)
        case _:
            return False


def off(index: Node) -> bool:
    """Is an index more than an axis or a number?"""
    return isinstance(index, list) and index[0] != "ax"


# What a step concerns -------------------------------------------------------------------------------------------------------------


def concerned(case: Case, nest: Nest, step: Step) -> set[tuple[str, str, str]]:
    """The cells that a step covers where it is accepted."""
    directive = str(step.get("call") or step.get("apply"))
    stages = stages_of(case)
    words = {word for word in flat([step.get("args", []), step.get("named", {}), step.get("fields", {})]) if isinstance(word, str)}
    names: set[str] = set()
    for part in statements(nest.body):
        if isinstance(part, For) and part.loop in words:
            names |= {store.stage for store in statements(part) if isinstance(store, Store)}
        if isinstance(part, Store) and (
            part.stage in words or words & {buffer.name for buffer in part.buffers} or directive == "specialize"
        ):
            names.add(part.stage)
        if isinstance(part, Store) and directive == "compute_inline" and words & set(read_by(part)):
            names.add(part.stage)
    found = [stages[root] for root in {root_of(name, stages) for name in names} if root in stages]
    named = ["split", "reorder"] if directive == "tile" else [directive]
    return {(name, kind_of(stage), mode) for name in named for stage in found for mode in modes_of(case, stage)}


def read_by(store: Store) -> list[str]:
    """The names of the buffers that a store reads."""
    return [str(getattr(load.buffer, "name", "")) for value in (*store.values, *store.index) for load in loads_of(value)]


def stages_of(case: Case) -> dict[str, dict[str, Any]]:
    """The stages of a case by the names that they have in the nest; those inside a scan are the scan."""
    inner = {part["name"]: stage for stage in case["stages"] if stage.get("form") == "scan" for part in stage["inner"]}
    return {**inner, **{stage["name"]: stage for stage in case["stages"]}}


def root_of(name: str, stages: dict[str, Any]) -> str:
    """The stage of the case that a stage of the nest comes from: `S.init`, `S_rf`, `S_from.start` come from `S`."""
    root = stage_of(f"{name}.x").split(".")[0]
    return root if root in stages else root.split("_")[0]


def flat(part: Any) -> list[Any]:
    """The leaves of nested lists and dictionaries."""
    if isinstance(part, dict):
        part = list(part.values())
    return [leaf for entry in part for leaf in flat(entry)] if isinstance(part, (list, tuple)) else [part]
