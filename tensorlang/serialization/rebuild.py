"""The inverse of `canonical.describe`: definitions from plain JSON that nobody vouches for.

A log may be damaged, and a job may be sent by anybody. So every value is checked before it is used, sizes and depths are bounded, types
are derived again by the rules of the surface, and a rebuilt definition goes through the same checks as one that was just written. All
that can go wrong is a `DefinitionError` that says where. Expressions are read by `spelling`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from tensorlang import ir
from tensorlang.checks.reads import checked_scatter, checked_stage
from tensorlang.definition.extent import checked_name
from tensorlang.definition.tensor import (
    ENCLOSING,
    Definition,
    Itself,
    Placeholder,
    Scan,
    Scatter,
    Stage,
    State,
    Tensor,
    components,
    enclosing,
    fresh_axis,
    serial,
)
from tensorlang.errors import DefinitionError
from tensorlang.ir.dtype import BOOL
from tensorlang.ir.integers import known_value
from tensorlang.ir.traverse import dtype_of
from tensorlang.language.scan import make
from tensorlang.language.scatter import scatter_reducer
from tensorlang.serialization.canonical import SCHEMA
from tensorlang.serialization.spelling import (
    MAX_DEFINITIONS,
    MAX_RANK,
    Body,
    SymbolTable,
    fail,
    read_const,
    read_dtype,
    read_list,
    read_number,
    read_record,
    read_text,
)

SCATTER = ("kind", "name", "axes", "ranges", "init", "index", "value", "where", "reduce")
SCAN = ("kind", "name", "time", "length", "init", "step", "next", "keep")
MAX_SCANS = 16
NO_ARRAYS: Final[Mapping[int, np.ndarray[Any, Any]]] = MappingProxyType({})


def rebuild(document: object, arrays: Mapping[int, np.ndarray[Any, Any]] = NO_ARRAYS) -> tuple[Tensor, ...]:
    """The outputs that `describe` was given, as new definitions; `arrays` are bound to placeholders, by their place among these.

    Raises `DefinitionError` for anything that `describe` does not write, and for definitions that have no meaning.
    """
    return _DocumentReader(arrays).document(document)


@dataclass(slots=True)
class _DocumentReader:
    """Reads one document; what a later part refers to by number is kept."""

    arrays: Mapping[int, np.ndarray[Any, Any]]
    placeholders: int = 0
    known: SymbolTable = field(default_factory=SymbolTable)

    def document(self, document: object) -> tuple[Tensor, ...]:
        """The outputs."""
        top = read_record(document, "a description", ("schema", "definitions", "reducers", "outputs"))
        if top["schema"] != SCHEMA or isinstance(top["schema"], bool):
            fail("schema", str(SCHEMA), top["schema"])
        for number, entry in enumerate(read_list(top["reducers"], "reducers", MAX_DEFINITIONS)):
            self.known.reducers.append(self.reducer(entry, f"reducer {number}"))
        for number, entry in enumerate(read_list(top["definitions"], "definitions", MAX_DEFINITIONS)):
            self.definition(entry, f"definition {number}")
        numbers = read_list(top["outputs"], "outputs", MAX_DEFINITIONS)
        if not numbers:
            fail("outputs", "at least one", numbers)
        return tuple(self.tensor(entry, "outputs") for entry in numbers)

    def tensor(self, number: object, where: str) -> Tensor:
        """A tensor by its number."""
        return self.known.tensors[read_number(number, where, len(self.known.tensors))]

    def definition(self, entry: object, where: str) -> None:
        """One definition, with its tensors."""
        kind = entry.get("kind") if isinstance(entry, dict) else None
        made: Definition
        larger = [key for key in ("allocated", "over") if isinstance(entry, dict) and key in entry]
        match kind:
            case "placeholder":
                made = self.placeholder(read_record(entry, where, ("kind", "name", "shape", "dtype", *larger)), where)
            case "stage" | "recurrence":
                keys = ("kind", "name", "rank", "axes", "shape", "values", *(("dtype",) if kind == "recurrence" else ()), *larger)
                record = read_record(entry, where, keys)
                made = self.stage(record, where) if kind == "stage" else self.recurrence(record, where)
            case "scatter":
                made = self.scatter(read_record(entry, where, SCATTER), where)
            case "scan":
                made = self.scan(read_record(entry, where, SCAN), where)
            case _:
                fail(where, "a placeholder, a stage, a recurrence, a scatter or a scan", kind)
        self.known.tensors += [Tensor(made, component) for component in range(components(made))]

    def placeholder(self, record: dict[str, Any], where: str) -> Placeholder:
        """An argument, with the array that is bound to it, which has to fit."""
        array = self.arrays.get(self.placeholders)
        self.placeholders += 1
        shape, kind = self.known.shape(record["shape"], where), read_dtype(record["dtype"], where)
        if array is not None and (array.dtype != kind.numpy or [known_value(extent, {}) for extent in shape] != list(array.shape)):
            raise DefinitionError(f"{where}: an array of {array.dtype}, shape {array.shape}, is no operand of {kind} that it could be")
        return Placeholder(_name(record["name"], where), shape, kind, serial(), array, self.allocated(record, where, shape))

    def allocated(self, record: dict[str, Any], where: str, shape: tuple[ir.Expr, ...]) -> tuple[ir.Expr, ...]:
        """The extents of the array that an argument is a part of, none of them shorter."""
        if "allocated" not in record:
            return ()
        found = self.known.shape(record["allocated"], where, len(shape))
        for extent, held in zip(shape, found, strict=True):
            if held != extent and not (isinstance(held, ir.Const) and isinstance(extent, ir.Const) and held.value >= extent.value):
                fail(f"{where}, allocated", "extents that are no shorter than those of the shape", record["allocated"])
        return found

    def over(self, record: dict[str, Any], where: str, shape: tuple[ir.Expr, ...]) -> Tensor | None:
        """The operand of the same shape where which a result may lie."""
        found = self.tensor(record["over"], f"{where}, over") if "over" in record else None
        if found is not None and (not isinstance(found.definition, Placeholder) or found.extents != shape):
            fail(f"{where}, over", "an operand of the same shape", record["over"])
        return found

    def axes(self, record: dict[str, Any], where: str, rank: int) -> list[str]:
        """New axes with the names of a definition's."""
        labels = [read_text(label, f"{where}, axes") for label in read_list(record["axes"], f"{where}, axes", MAX_DEFINITIONS)]
        if len(labels) < rank:
            fail(f"{where}, axes", f"at least {rank} names", labels)
        return [fresh_axis(checked_name(label, "an axis") if label else "") for label in labels]

    def stage(self, record: dict[str, Any], where: str, itself: tuple[Itself, ...] = ()) -> Stage:
        """A stage that has passed the checks of the surface."""
        rank = read_number(record["rank"], f"{where}, rank", MAX_RANK + 1)
        axes = self.axes(record, where, rank)
        shape = self.known.shape(record["shape"], where, rank)
        values = read_list(record["values"], f"{where}, values", MAX_DEFINITIONS)
        if not values or (itself and len(values) != len(itself)):
            fail(f"{where}, values", f"a list of {len(itself)}" if itself else "at least one", values)
        bodies = [Body(self.known, f"{where}, value {number}", axes, rank, itself=itself) for number in range(len(values))]
        nodes = tuple(body.expr(value).node for body, value in zip(bodies, values, strict=True))
        label, larger, over = _name(record["name"], where), self.allocated(record, where, shape), self.over(record, where, shape)
        stage = Stage(label, tuple(axes[:rank]), shape, nodes, serial(), itself, enclosing(*nodes), larger, over)
        if all(dtype_of(node) == past.dtype for node, past in zip(nodes, itself, strict=False)):
            return checked_stage(stage)
        return stage

    def recurrence(self, record: dict[str, Any], where: str) -> Stage:
        """A recurrence, whose types are those with which its body has those types."""
        given = record["dtype"]
        types = [read_dtype(of, where) for of in (read_list(given, f"{where}, dtype", MAX_RANK) if isinstance(given, list) else [given])]
        if isinstance(given, list) and len(types) < 2:
            fail(f"{where}, dtype", "a type, or a list of several", given)
        stage = self.stage(record, where, tuple(Itself(of, component) for component, of in enumerate(types)))
        for value, of in zip(stage.values, types, strict=True):
            if dtype_of(value) != of:
                fail(f"{where}, values", f"a body of {of}", str(dtype_of(value)))
        return stage

    def scatter(self, record: dict[str, Any], where: str) -> Scatter:
        """A scatter that has passed the checks of the surface."""
        init = self.tensor(record["init"], f"{where}, init")
        ranges = [read_list(entry, f"{where}, ranges", 2, 2) for entry in read_list(record["ranges"], f"{where}, ranges", MAX_RANK)]
        axes = self.axes(record, where, len(ranges))
        if not ranges:
            fail(f"{where}, ranges", "at least one", ranges)
        body = Body(self.known, where, axes, len(ranges))
        over = tuple(
            ir.ReduceAxis(axis, body.bounding(body.expr(lo)), body.bounding(body.expr(hi)))
            for axis, (lo, hi) in zip(axes, ranges, strict=False)
        )
        cond = None if record["where"] is None else body.expr(record["where"])
        index = [body.expr(part) for part in read_list(record["index"], f"{where}, index", MAX_RANK, init.ndim)]
        value = body.expr(record["value"])
        if value.dtype != init.dtype or any(part.dtype != "int64" for part in index) or (cond is not None and cond.dtype != BOOL):
            raise DefinitionError(f"{where}: the value, the indices or the condition have the wrong type")
        nodes = tuple(part.node for part in index)
        test = None if cond is None else cond.node
        reducer = scatter_reducer(record["reduce"], init.dtype)
        around = enclosing(*nodes, value.node, test, *(bound for axis in over for bound in (axis.lo, axis.hi)))
        made = Scatter(_name(record["name"], where), init, over, nodes, value.node, test, reducer, serial(), around)
        return checked_scatter(made)

    def scan(self, record: dict[str, Any], where: str) -> Scan:
        """A scan with its step."""
        init = tuple(self.tensor(number, f"{where}, init") for number in read_list(record["init"], f"{where}, init", MAX_RANK))
        given = record["keep"]
        keep = read_list(given, f"{where}, keep", MAX_RANK, len(init)) if isinstance(given, list) else [given] * len(init)
        if not init or any(each not in ("all", "last") for each in keep) or len(self.known.times) >= MAX_SCANS:
            fail(where, 'states, and "all" or "last"', given)
        label = read_text(record["time"], f"{where}, time")
        axis = ir.ReduceAxis(
            fresh_axis(checked_name(label, "an axis") if label else ""), ir.const(0), self.known.extent(record["length"], where)
        )
        states = tuple(State(tensor.extents, tensor.dtype, serial()) for tensor in init)
        self.known.times.append(axis)
        self.known.tensors += [Tensor(state) for state in states]
        token = ENCLOSING.set((*ENCLOSING.get(), axis))
        try:
            for number, entry in enumerate(read_list(record["step"], f"{where}, step", MAX_DEFINITIONS)):
                self.definition(entry, f"{where}, step {number}")
        finally:
            ENCLOSING.reset(token)
            self.known.times.pop()
        following = tuple(
            self.tensor(number, f"{where}, next") for number in read_list(record["next"], f"{where}, next", MAX_RANK, len(init))
        )
        for old, new in zip(init, following, strict=True):
            if old.shape != new.shape or old.dtype != new.dtype:
                fail(f"{where}, next", repr(old), repr(new))
        return make(_name(record["name"], where), axis, init, states, following, tuple(keep))

    def reducer(self, entry: object, where: str) -> ir.Reducer:
        """A reducer whose results have the types of its identities."""
        record = read_record(entry, where, ("name", "identities", "results"))
        identities = []
        for value in read_list(record["identities"], where, MAX_RANK):
            _, of, literal = read_list(value, f"{where}, identity", MAX_RANK, 3)
            identities.append(read_const(literal, read_dtype(of, where), where))
        results = read_list(record["results"], where, MAX_RANK, len(identities))
        types = {f"{side}{n}": identity.dtype for side in "ab" for n, identity in enumerate(identities)}
        nodes = [Body(self.known, where, params=types).expr(value) for value in results]
        if not identities or any(node.dtype != identity.dtype for node, identity in zip(nodes, identities, strict=True)):
            fail(where, "results of the identities' types", results)
        return ir.Reducer(checked_name(record["name"], "a reducer"), tuple(identities), tuple(node.node for node in nodes))


def _name(value: object, where: str) -> str | None:
    return None if value is None else checked_name(read_text(value, where), "a tensor")
