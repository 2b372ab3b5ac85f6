"""Value numbering: equal expressions have one number, each node looked at once (Cocke and Schwartz 1970).

Equality of two trees costs their size each time that it is asked; an expression that was written into several readers is many equal trees.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from tensorlang.ir import Axis, Binary, Call, Cast, Compare, Const, Dim, Expr, Load, Param, Reduce, Select, Unary

_EXPRESSIONS: Final = (Const, Axis, Dim, Param, Load, Cast, Unary, Binary, Compare, Select, Call, Reduce)


@dataclass(slots=True)
class Numbering:
    """Numbers of expressions, by value."""

    _numbers: dict[tuple[Any, ...], int] = field(default_factory=dict)
    _known: dict[int, tuple[Expr, int]] = field(default_factory=dict)

    def number(self, expr: Expr) -> int:
        """The number of an expression: that of any other one that is equal to it."""
        known = self._known.get(id(expr))
        if known is None:
            key = (type(expr), *(self._part(getattr(expr, name)) for name in expr.__match_args__))
            known = self._known[id(expr)] = expr, self._numbers.setdefault(key, len(self._numbers))
        return known[1]

    def _part(self, value: Any) -> Any:
        if isinstance(value, _EXPRESSIONS):
            return self.number(value)
        if isinstance(value, tuple):
            return tuple(map(self._part, value))
        return value
