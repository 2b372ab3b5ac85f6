"""The operators as data: what each takes, which attributes it has, and the extents by which the tuner and its logs know it.

One table for everybody who speaks of operators by name: `Spec` (a graph compiler's), the tuner, the command line. A row names operands as
`x: N C H W`, with the extents that they have by name; `b?` may be left out, and is where it has no extents here. Attributes are the other
parameters of the function; `told` are those that extents tell.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from tensorlang import ops
from tensorlang.definition.extent import Extent
from tensorlang.definition.tensor import Tensor
from tensorlang.system.lazy import cached_property

Extents: TypeAlias = Mapping[str, Extent]

LAYOUTS: Final = ("NCHW", "NHWC")

_OPERAND: Final = re.compile(r"(?P<name>\w+)(?P<optional>\?)?(?:=(?P<dtype>\w+))?(?:: (?P<extents>[\w ]+))?")


@dataclass(frozen=True, slots=True)
class Operand:
    """A tensor that an operator takes: its name, its extents by name, and its type where that is not the operator's."""

    name: str
    extents: tuple[str, ...]
    optional: bool
    dtype: str | None

    @classmethod
    def of(cls, text: str) -> Operand:
        """The operand that a row spells."""
        match = _OPERAND.fullmatch(text)
        assert match is not None, text
        return cls(match["name"], tuple((match["extents"] or "").split()), bool(match["optional"]), match["dtype"])


@dataclass(frozen=True)
class Operator:
    """A row: the function, its operands in the order in which it takes them, and the extents by which it is tuned, with defaults."""

    name: str
    function: Callable[..., Tensor]
    operands: tuple[Operand, ...]
    defaults: Mapping[str, int]
    told: Mapping[str, str | tuple[str, ...]] = field(default_factory=dict)
    """Attributes that extents tell: the name of one, or of several."""

    @cached_property
    def parameters(self) -> Mapping[str, inspect.Parameter]:
        """Those of the function."""
        return inspect.signature(self.function).parameters

    @cached_property
    def tensors(self) -> tuple[str, ...]:
        """The parameters that take the operands."""
        return tuple(name for name, parameter in self.parameters.items() if str(parameter.annotation).startswith("Tensor"))

    @cached_property
    def attributes(self) -> tuple[str, ...]:
        """What can be said of it beside its operands: the parameters that are neither tensors, nor its name, nor its layout."""
        return tuple(name for name in self.parameters if name not in (*self.tensors, "name", "layout"))

    @cached_property
    def required(self) -> tuple[str, ...]:
        """The attributes without a default."""
        return tuple(name for name in self.attributes if self.parameters[name].default is inspect.Parameter.empty)

    @property
    def layouts(self) -> tuple[str, ...]:
        """The layouts that it can be asked for; none where it has no image."""
        return LAYOUTS if "layout" in self.parameters else ()

    def arguments(self, extents: Extents) -> tuple[tuple[tuple[Extent, ...] | None, ...], dict[str, Any]]:
        """The shapes of its operands (None for one that is left out) and its attributes at these extents."""

        def at(name: str) -> Extent:
            return int(name) if name.isdigit() else extents[name]

        shapes = tuple(tuple(map(at, operand.extents)) if operand.extents else None for operand in self.operands)
        told = {name: at(of) if isinstance(of, str) else tuple(map(at, of)) for name, of in self.told.items()}
        return shapes, told


def _row(name: str, *operands: str, extents: Mapping[str, int], **told: str | tuple[str, ...]) -> Operator:
    return Operator(name, getattr(ops, name), tuple(map(Operand.of, operands)), extents, told)


_GEMM: Final = {"M": 512, "N": 512, "K": 512}
_BATCH: Final = {"B": 8, "M": 128, "N": 128, "K": 128}
_ROWS: Final = {"M": 1024, "N": 1024}
_LINE: Final = {"N": 1 << 20}
_IMAGE: Final = {"N": 1, "C": 64, "H": 56, "W": 56}
_TAPS: Final = {"R": 3, "S": 3, "stride": 1, "padding": 1}
_WINDOW: Final[dict[str, str | tuple[str, ...]]] = {"stride": "stride", "padding": "padding"}
_POOL: Final[dict[str, str | tuple[str, ...]]] = {"kernel_size": ("R", "S"), **_WINDOW}
_EACH: Final = ("relu", "leaky_relu", "sigmoid", "tanh", "silu", "gelu")

OPERATORS: Final[Mapping[str, Operator]] = {
    row.name: row
    for row in (
        _row("matmul", "A: M K", "B: K N", extents=_GEMM),
        _row("dense", "x: M K", "w: N K", "b?: N", extents=_GEMM),
        _row("linear", "x: M K", "w: N K", "b?: N", extents=_GEMM),
        _row("batch_matmul", "A: B M K", "C: B K N", extents=_BATCH),
        _row(
            "attention", "q: B H S D", "k: B H T D", "v: B H T D", "mask?",
            extents={"B": 1, "H": 8, "S": 128, "T": 128, "D": 64},
        ),
        _row(
            "conv1d", "x: N C L", "w: O C R", "b?",
            extents={"N": 1, "C": 64, "L": 1024, "O": 64, "R": 3, "stride": 1, "padding": 1}, **_WINDOW,
        ),
        _row("conv2d", "x: N C H W", "w: O C R S", "b?", extents={**_IMAGE, "O": 64, **_TAPS}, **_WINDOW),
        _row(
            "conv2d_transpose", "x: N C H W", "w: C O R S", "b?",
            extents={**_IMAGE, "H": 28, "W": 28, "O": 64, **_TAPS, "stride": 2}, **_WINDOW,
        ),
        _row("depthwise_conv2d", "x: N C H W", "w: C 1 R S", "b?", extents={**_IMAGE, **_TAPS}, **_WINDOW),
        _row("max_pool2d", "x: N C H W", extents={**_IMAGE, **_TAPS, "stride": 2}, **_POOL),
        _row("avg_pool2d", "x: N C H W", extents={**_IMAGE, **_TAPS, "stride": 2}, **_POOL),
        _row("resize2d", "x: N C H W", extents={**_IMAGE, "OH": 112, "OW": 112}, size=("OH", "OW")),
        _row("softmax", "x: M N", extents=_ROWS),
        _row("log_softmax", "x: M N", extents=_ROWS),
        _row("layer_norm", "x: M N", "w?: N", "b?: N", extents=_ROWS, normalized_shape="N"),
        _row("rms_norm", "x: M N", "w?: N", extents=_ROWS, normalized_shape="N"),
        _row("batch_norm", "x: N C H W", "mean: C", "var: C", "w?: C", "b?: C", extents=_IMAGE),
        _row("group_norm", "x: N C H W", "w?: C", "b?: C", extents={**_IMAGE, "G": 8}, num_groups="G"),
        _row("embedding", "i=int64: N", "w: V D", extents={"N": 1024, "V": 32000, "D": 512}),
        *(_row(name, "x: N", extents=_LINE) for name in _EACH),
    )
}  # fmt: skip
"""Every operator of `tl.ops`."""
