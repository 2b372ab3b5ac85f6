"""What may be fused: how each stage of a program reads what it is made from.

    pointwise    an element is made from those at the same place (some operands may lack axes: a bias, a scale)
    injective    from one element of each operand, at another place: transposed, reshaped, padded, sliced
    reduction    from several elements of an operand: a sum, a window, a stencil
    opaque       data tells which elements, or the order of elements matters: gathers, scatters, scans, recurrences

A pointwise stage can be the epilogue of what it reads, a pointwise or injective one a prologue of what reads it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from tensorlang import ir
from tensorlang.definition.first_use import by_first_use
from tensorlang.definition.naming import of_component, tensor_names
from tensorlang.definition.tensor import Placeholder, Stage, Tensor, as_outputs, definitions, operands
from tensorlang.ir.traverse import axes_of, loads_of, reads_data, walk
from tensorlang.kernels.wanted import wanted
from tensorlang.ops.spec import Spec

Kind: TypeAlias = Literal["pointwise", "injective", "reduction", "opaque"]
Relation: TypeAlias = Literal["same", "broadcast", "moved", "several", "data"]

KINDS: Final[tuple[Kind, ...]] = ("pointwise", "injective", "reduction", "opaque")


@dataclass(frozen=True, slots=True)
class Read:
    """How a stage reads a tensor.

    "same": at the element's own place; "broadcast": there, without some axes; "moved": at one other place; "several": at more than one;
    "data": where data tells.
    """

    tensor: str
    relation: Relation


@dataclass(frozen=True, slots=True)
class StageAccess:
    """A stage by name, its kind, and what it reads, in order of first reading."""

    name: str
    kind: Kind
    reads: tuple[Read, ...]


@dataclass(frozen=True, slots=True)
class Access:
    """The operands of a program in order of first use, and its stages, each after what it reads."""

    operands: tuple[str, ...]
    stages: tuple[StageAccess, ...]

    @property
    def kind(self) -> Kind:
        """The kind of the program: that of its least pointwise stage."""
        return max((stage.kind for stage in self.stages), key=KINDS.index, default="pointwise")


def access(asked: object) -> Access:
    """The operands of a spec, or of tensors, and how their stages read.

    Raises `BuildError` for a spec that `supports` refuses, `DefinitionError` for what is no program.
    """
    outputs = wanted(asked).outputs if isinstance(asked, Spec) else as_outputs(asked)
    names = tensor_names(definitions(outputs))
    order = by_first_use(outputs)

    def name(tensor: Tensor) -> str:
        return of_component(names[tensor.definition], tensor.definition, tensor.component)

    stages = []
    for definition in order:
        if isinstance(definition, Placeholder):
            continue
        if not isinstance(definition, Stage) or definition.itself:
            reads = tuple(Read(name(tensor), "data") for tensor in operands(definition))
            stages.append(StageAccess(names[definition], "opaque", reads))
            continue
        found = {name(tensor): relation for tensor, relation in _relations(definition)}
        stages.append(StageAccess(names[definition], _kind(definition, found), tuple(Read(*pair) for pair in found.items())))
    return Access(tuple(names[definition] for definition in order if isinstance(definition, Placeholder)), tuple(stages))


def _kind(stage: Stage, relations: dict[str, Relation]) -> Kind:
    found = set(relations.values())
    if "data" in found:
        return "opaque"
    if "several" in found or any(isinstance(node, ir.Reduce) for value in stage.values for node in walk(value)):
        return "reduction"
    return "injective" if "moved" in found else "pointwise"


def _relations(stage: Stage) -> list[tuple[Tensor, Relation]]:
    """Each tensor that a stage reads, and where."""
    tensors: dict[tuple[int, int], Tensor] = {}
    places: dict[tuple[int, int], set[tuple[ir.Expr, ...]]] = {}
    for value in stage.values:
        for load in loads_of(value):
            if isinstance(load.buffer, Tensor):
                place = id(load.buffer.definition), load.buffer.component
                tensors.setdefault(place, load.buffer)
                places.setdefault(place, set()).add(load.index)
    return [(tensor, _relation(stage, places[place])) for place, tensor in tensors.items()]


def _relation(stage: Stage, indices: set[tuple[ir.Expr, ...]]) -> Relation:
    parts = [part for index in indices for part in index]
    if any(map(reads_data, parts)):
        return "data"
    if len(indices) > 1 or any(axes_of(part) - set(stage.axes) for part in parts):
        return "several"
    (index,) = indices
    axes = [part.name for part in index if isinstance(part, ir.Axis)]
    if len(axes) < len(index) or axes != [axis for axis in stage.axes if axis in axes]:
        return "moved"
    return "same" if len(axes) == len(stage.axes) else "broadcast"
