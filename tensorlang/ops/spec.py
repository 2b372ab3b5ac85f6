"""`Spec`: an operator as a value, before anything is defined: its name, shapes, types, attributes and layout.

Whoever plans a graph asks about hundreds of operators and gets a few dozen kernels. A spec is made in microseconds, hashes and compares by
what it says, and is turned into a definition, with all checks of the operator, where that is needed (`define`).
"""

from __future__ import annotations

import math
import numbers
import operator
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from tensorlang import ir
from tensorlang.definition.extent import Dim, Extent, limits
from tensorlang.definition.tensor import Tensor
from tensorlang.errors import DefinitionError, did_you_mean
from tensorlang.ir.traverse import walk
from tensorlang.language.definitions import placeholder
from tensorlang.ops.table import LAYOUTS, OPERATORS, Extents, Operator
from tensorlang.serialization.spelling import MAX_RANK
from tensorlang.system.lazy import cached_property

Shape: TypeAlias = "tuple[Extent, ...] | None"

_DEEPEST: Final = 4
_SPELLED: Final = 200


@dataclass(frozen=True, eq=False, repr=False)
class Spec:
    """An operator of `tl.ops` at shapes, of types, with attributes and a layout.

    `shapes` has an entry for each operand in the order of the function's parameters; None, or nothing at the end, for one that is left out.
    `dtypes` is the type of all (indices are int64), or one for each; `attributes` are the function's other parameters; `layout` is "NCHW"
    or "NHWC", and None is the operator's own. `Spec("conv2d", ((1, 8, 9, 9), (16, 8, 3, 3)), attributes={"stride": 2})`.

    What it says is checked by `define`, and by `tensorlang.kernels.supports`. Raises `DefinitionError` only for what is no plain value.
    """

    operator: str
    shapes: Sequence[Sequence[Extent] | None]
    dtypes: str | Sequence[str] = "float32"
    attributes: Mapping[str, Any] = field(default_factory=dict)
    layout: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.attributes, Mapping):
            raise DefinitionError(f"attributes= of a Spec is a dict from names to values, not {self.attributes!r:.60}")
        for name in ("operator", "shapes", "dtypes", "layout"):
            object.__setattr__(self, name, _plain(getattr(self, name), f"{name}= of a Spec"))
        given = {str(name): _plain(value, f"attribute {name!r:.60} of a Spec") for name, value in self.attributes.items()}
        object.__setattr__(self, "attributes", dict(sorted(given.items())))

    @classmethod
    def at(cls, row: Operator, extents: Extents, dtype: str = "float32") -> Spec:
        """The operator of a row of the table at extents by name, as the tuner has them."""
        shapes, told = row.arguments(extents)
        while shapes and shapes[-1] is None:
            shapes = shapes[:-1]
        return cls(row.name, shapes, [operand.dtype or dtype for operand in row.operands[: len(shapes)]], told)

    @cached_property
    def text(self) -> str:
        """What it says, spelled: 1, 1.0 and True are told apart, as operators do, and so are dims of other bounds."""
        text = f"{self.operator!r}, {self.shapes!r}, {self.dtypes!r}, {self.attributes!r}, {self.layout!r}"
        found = list(_dims((self.shapes, tuple(self.attributes.values()))))
        return f"{text}, {[(dim.name, dim.least, dim.most) for dim in found]!r}" if limits(found) else text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Spec) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        told = [repr(self.operator), f"shapes={self.shapes!r}", f"dtypes={self.dtypes!r}"]
        told += [f"attributes={self.attributes!r}"] * bool(self.attributes) + [f"layout={self.layout!r}"] * (self.layout is not None)
        return f"Spec({', '.join(told)})"

    # What it means ----------------------------------------------------------------------------------------------------------

    def row(self) -> Operator:
        """Its operator in the table. Raises `DefinitionError` for what no operator is, has or can be asked for."""
        row = OPERATORS.get(self.operator) if isinstance(self.operator, str) else None
        if row is None:
            known = did_you_mean(str(self.operator), OPERATORS) or f"; known are {', '.join(sorted(OPERATORS))}"
            raise DefinitionError(f"there is no operator {self.operator!r:.60}{known}")
        for name in self.attributes:
            if name not in row.attributes:
                known = did_you_mean(name, row.attributes) or f"; it has {', '.join(row.attributes) or 'none'}"
                raise DefinitionError(f"{row.name} has no attribute {name!r:.60}{known}")
        missing = [name for name in row.required if name not in self.attributes]
        if missing:
            raise DefinitionError(f"{row.name} needs the attribute {missing[0]!r}")
        if self.layout is not None and self.layout not in (row.layouts or LAYOUTS[:1]):
            raise DefinitionError(f"{row.name} has no layout {self.layout!r:.60}; it has {' and '.join(row.layouts or LAYOUTS[:1])}")
        return row

    def operands(self) -> tuple[Tensor | None, ...]:
        """New placeholders for the operands, by the names of the table; None for one that is left out. Raises `DefinitionError`."""
        row = self.row()
        shapes = self.shapes if isinstance(self.shapes, tuple) else ()
        least = sum(not operand.optional for operand in row.operands)
        if not least <= len(shapes) <= len(row.operands) or not all(isinstance(shape, (tuple, type(None))) for shape in shapes):
            count = f"{least}" if least == len(row.operands) else f"{least} to {len(row.operands)}"
            names = ", ".join(operand.name + "?" * operand.optional for operand in row.operands)
            raise DefinitionError(f"{row.name} takes {count} shapes ({names}), each a tuple of extents, not {self.shapes!r:.{_SPELLED}}")
        types = self.dtypes if isinstance(self.dtypes, tuple) else [operand.dtype or self.dtypes for operand in row.operands[: len(shapes)]]
        if len(types) != len(shapes):
            raise DefinitionError(f"{row.name}: dtypes= is one type, or one for each of {len(shapes)} operands, not {self.dtypes!r:.60}")
        given: list[Tensor | None] = []
        for operand, shape, dtype in zip(row.operands, shapes, types, strict=False):
            if shape is None and not operand.optional:
                raise DefinitionError(f"{row.name}: the operand {operand.name} cannot be left out")
            if shape is not None and len(shape) > MAX_RANK:
                raise DefinitionError(f"{row.name}: the operand {operand.name} has {len(shape)} axes; an operand has at most {MAX_RANK}")
            given.append(None if shape is None else placeholder(shape, dtype, name=operand.name))
        return tuple(given)

    def result(self, operands: Sequence[Tensor | None]) -> Tensor:
        """The operator of these operands, which may be computed. Raises `DefinitionError` where it does not take them."""
        row = self.row()
        options = {} if self.layout is None or not row.layouts else {"layout": self.layout}
        return row.function(**dict(zip(row.tensors, operands, strict=False)), **self.attributes, **options, name=row.name)

    def define(self) -> Tensor:
        """The definition, of new placeholders. Raises `DefinitionError` where there is none."""
        return self.result(self.operands())


def _dims(value: object) -> Iterator[ir.Dim]:
    """The dims of extents, each as often as it is there: whether all of one name have the same bounds is not asked here."""
    if isinstance(value, tuple):
        for part in value:
            yield from _dims(part)
    elif isinstance(value, Dim):
        yield from (node for node in walk(value.node) if isinstance(node, ir.Dim))


def _plain(value: object, what: str, depth: int = _DEEPEST) -> Any:
    """A value that is spelled by what it holds: numbers, words, dims, and tuples of these. Raises `DefinitionError`."""
    if value is None or isinstance(value, (bool, str, Dim)):
        return str(value) if isinstance(value, str) else value
    if isinstance(value, (list, tuple)) and depth:
        return tuple(_plain(part, what, depth - 1) for part in value)
    try:
        return operator.index(value)  # type: ignore[arg-type]  # asked: NumPy's integers are ints
    except TypeError:
        pass
    if isinstance(value, numbers.Real) and not math.isnan(number := float(value)):
        return number
    raise DefinitionError(f"{what} is made of numbers, words and tuples of them, not {value!r:.60}")
