"""Expressions of a lowered nest as C99.

An expression is text with a binding strength, so that it has the parentheses it needs and few others. A part that is used several times in
a statement, and is long, becomes a constant before it: nests share parts, and written out as trees they would grow without bound. What
stands in one side of a `select` is only evaluated there; a `select` whose sides need constants of their own becomes an `if`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from tensorlang import ir
from tensorlang.algebra.bounds import Bounds
from tensorlang.algebra.simplify import simplify
from tensorlang.codegen.cache.signature import c_type
from tensorlang.codegen.export.c_helpers import Helpers, spelled_integer, wide
from tensorlang.errors import BuildError, InternalError
from tensorlang.ir import Axis, Binary, Buffer, Call, Cast, Compare, Const, Dim, Expr, Load, Param, Select, Unary
from tensorlang.ir.dtype import BOOL, FLOAT32, FLOAT64, INT64, DType
from tensorlang.ir.traverse import children, dtype_of, substitute, walk

HALVES: Final = ("float16", "bfloat16")
MAX_LINES: Final = 200_000
_SHORT: Final = 24
"""Characters up to which a part that is used again is written again."""

PRIMARY, PREFIX, PRODUCT, SUM, RELATION, EQUALITY, BITS, AND, OR, CHOICE = 15, 14, 13, 12, 10, 9, 8, 5, 4, 3

_ARITHMETIC: Final = {"add": ("+", SUM), "sub": ("-", SUM), "mul": ("*", PRODUCT), "div": ("/", PRODUCT)}
_COMPARE: Final = {
    "lt": ("<", RELATION),
    "le": ("<=", RELATION),
    "gt": (">", RELATION),
    "ge": (">=", RELATION),
    "eq": ("==", EQUALITY),
    "ne": ("!=", EQUALITY),
}
_LOGIC: Final = {"and": ("&&", AND), "or": ("||", OR), "xor": ("!=", EQUALITY), "min": ("&&", AND), "max": ("||", OR)}
_BITWISE: Final = {"and": "&", "or": "|", "xor": "^"}
_C_NAMES: Final = {"round": "rint"}


@dataclass(frozen=True, slots=True)
class Text:
    """A piece of C and how strongly its outermost operator binds."""

    text: str
    level: int

    def at(self, level: int) -> str:
        """As an operand that has to bind at least so strongly."""
        return self.text if self.level >= level else f"({self.text})"


@dataclass(slots=True)
class CScope:
    """What is known where a statement stands: names of variables and storage, ranges, and the constants made for the statement.

    A place is a name, and whether its elements have one index. `uses` and `memo` go by the identity of nodes, which `kept` keeps alive.
    """

    helpers: Helpers
    names: Mapping[str, str]
    places: Mapping[str, tuple[str, bool]]
    known: Bounds
    fixed: Mapping[str, Expr]
    serial: list[int]
    params: Mapping[str, Text] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    memo: dict[int, tuple[Expr, Text]] = field(default_factory=dict)
    uses: dict[int, int] = field(default_factory=dict)
    kept: list[Expr] = field(default_factory=list)
    outer: CScope | None = None

    def value(self, expr: Expr, *, index: bool = False) -> Text:
        """A whole expression of a statement."""
        whole = substitute(expr, self.fixed) if self.fixed else expr
        if index:
            whole = simplify(whole)
        stack, seen = [whole], {id(whole)}
        while stack:
            for operand in children(stack.pop()):
                self.uses[id(operand)] = self.uses.get(id(operand), 0) + 1
                if id(operand) not in seen:
                    seen.add(id(operand))
                    stack.append(operand)
        self.kept.append(whole)
        return self.part(whole, index)

    def part(self, expr: Expr, index: bool = False) -> Text:
        """A part of an expression: a constant that stands for it, or its text."""
        scope: CScope | None = self
        while scope is not None:
            if id(expr) in scope.memo:
                return scope.memo[id(expr)][1]
            scope = scope.outer
        found = self._text(expr, index)
        if self._used(expr) > 1:
            if len(found.text) > _SHORT:
                found = Text(self.constant(c_type(dtype_of(expr)), found.text), PRIMARY)
            self.memo[id(expr)] = (expr, found)
        return found

    def _used(self, expr: Expr) -> int:
        return self.uses.get(id(expr), 0)

    def constant(self, kind: str, text: str) -> str:
        """A new constant that holds a value: its name."""
        name = self.fresh()
        self.line(f"const {kind} {name} = {text};")
        return name

    def fresh(self) -> str:
        """A name that nothing has."""
        self.serial[0] += 1
        return f"t{self.serial[0]}_"

    def line(self, text: str) -> None:
        """One more line before the statement. Raises `BuildError` where there are too many."""
        self.serial[1] += 1
        if self.serial[1] > MAX_LINES:
            raise BuildError(f"the nest is too large to be written as C: more than {MAX_LINES:,} lines")
        self.lines.append(text)

    def inner(self) -> CScope:
        """A scope for what is evaluated under a condition."""
        return CScope(
            self.helpers, self.names, self.places, self.known, {}, self.serial, self.params, uses=self.uses, outer=self, kept=self.kept
        )

    def element(self, buffer: Buffer, index: tuple[Expr, ...]) -> str:
        """The element of a buffer."""
        name, flat = self.places[buffer.name]
        if not flat:
            return name + "".join(f"[{self.value(part, index=True).text}]" for part in index)
        offset: Expr = ir.const(0)
        for part, extent in zip(index, buffer.in_memory, strict=True):
            offset = Binary("add", Binary("mul", offset, extent), part)
        return f"{name}[{self.value(offset, index=True).text}]"

    def _text(self, expr: Expr, index: bool) -> Text:
        match expr:
            case Const(value, dtype):
                return literal(value, dtype)
            case Axis(name):
                return Text(self.names[name], PRIMARY)
            case Dim(name):
                return Text(self.names[":" + name], PRIMARY)
            case Param(name):
                return self.params[name]
            case Load(buffer, places) if isinstance(buffer, Buffer):
                return Text(self._read(buffer, places), PRIMARY)
            case Cast(value, dtype):
                return self._cast(self.part(value), dtype_of(value), dtype)
            case Unary(op, value):
                exact = (index and _is_plain(expr)) or self.known.interval(expr) is not None
                return self._unary(op, self.part(value, index), dtype_of(value), exact=exact)
            case Binary(op, left, right):
                return self._binary(expr, op, self.part(left, index), self.part(right, index), index)
            case Compare(op, left, right):
                sign, level = _COMPARE[op]
                a, b = (self.widened(self.part(side, index), dtype_of(side)).at(RELATION + 1) for side in (left, right))
                if a == b and not dtype_of(left).is_floating:  # compilers warn of it
                    return literal(op in ("eq", "le", "ge"), BOOL)
                return Text(f"{a} {sign} {b}", level)
            case Select(cond, yes, no):
                return self._select(cond, yes, no, dtype_of(expr))
            case Call(function, args, _):
                return self._call(function, [self.part(arg) for arg in args], dtype_of(args[0]))
            case _:
                raise InternalError(f"{type(expr).__name__} in a lowered nest")

    def _read(self, buffer: Buffer, index: tuple[Expr, ...]) -> str:
        """An element in the midst of an expression: its index is counted with the rest."""
        name, flat = self.places[buffer.name]
        if not flat:
            return name + "".join(f"[{self.part(simplify(part), index=True).text}]" for part in index)
        offset: Expr = ir.const(0)
        for part, extent in zip(index, buffer.in_memory, strict=True):
            offset = Binary("add", Binary("mul", offset, extent), part)
        return f"{name}[{self.part(simplify(offset), index=True).text}]"

    def widened(self, value: Text, dtype: DType) -> Text:
        """The float of a half; other values as they are."""
        if dtype not in HALVES:
            return value
        helper = self.helpers.use("widen_half" if dtype == "float16" else "widen_brain", FLOAT32)
        return Text(f"{helper}({value.text})", PRIMARY)

    def rounded(self, value: Text, dtype: DType) -> Text:
        """A float rounded to a half; other values as they are."""
        if dtype not in HALVES:
            return value
        helper = self.helpers.use("round_half" if dtype == "float16" else "round_brain", FLOAT32)
        return Text(f"{helper}({value.text})", PRIMARY)

    def _cast(self, value: Text, source: DType, to: DType) -> Text:
        if source == to:
            return value
        if source in HALVES:
            return self._cast(self.widened(value, source), FLOAT32, to)
        if to in HALVES:
            return self.rounded(self._exact_or_odd(value, source, to), to)
        if to == "bool":
            return Text(f"{value.at(RELATION)} != 0", EQUALITY)
        if source.is_floating and to.is_integer:
            return Text(f"{self.helpers.use('saturated', source, to)}({value.text})", PRIMARY)
        return Text(f"({c_type(to)}){value.at(PREFIX)}", PREFIX)

    def _exact_or_odd(self, value: Text, source: DType, to: DType) -> Text:
        """As `codegen.emission.convert` has it on the way to a half."""
        if source.is_integer and source.bits >= 32 and to == "bfloat16":
            if source.bits == 64:
                value = Text(f"{self.helpers.use('whole', source)}({value.text})", PRIMARY)
            value, source = self._cast(value, source, FLOAT64), FLOAT64
        if source == FLOAT64:
            return Text(f"{self.helpers.use('odd', source)}({value.text})", PRIMARY)
        return self._cast(value, source, FLOAT32)

    def _unary(self, op: str, value: Text, dtype: DType, *, exact: bool) -> Text:
        kind = c_type(dtype)
        match op:
            case "not" if dtype == "bool":
                return Text(f"!{value.at(PREFIX)}", PREFIX)
            case "not":
                return Text(f"({kind})~{value.at(PREFIX)}", PREFIX)
            case "neg" if dtype in HALVES:
                return Text(f"({kind})({value.at(PREFIX)} ^ 0x8000u)", PREFIX)
            case "abs" if dtype in HALVES:
                return Text(f"({kind})({value.at(PREFIX)} & 0x7fffu)", PREFIX)
            case "neg" if dtype.is_floating or (exact and dtype.kind == "signed" and dtype.bits >= 32):
                return Text(f"-{value.at(PRIMARY)}", PREFIX)
            case "neg":
                return Text(f"({kind})(0 - ({wide(dtype)}){value.at(PREFIX)})", PREFIX)
            case "abs" if dtype.is_floating:
                return Text(f"{self.helpers.external('fabs', dtype)}({value.text})", PRIMARY)
            case "abs" if dtype.kind == "signed":
                return Text(f"{self.helpers.use('abs', dtype)}({value.text})", PRIMARY)
            case _:
                return value

    def _binary(self, expr: Binary, op: str, a: Text, b: Text, index: bool) -> Text:
        dtype = dtype_of(expr)
        if dtype in HALVES:
            return self.rounded(self._floating(op, self.widened(a, dtype), self.widened(b, dtype), FLOAT32), dtype)
        if dtype.is_floating:
            return self._floating(op, a, b, dtype)
        if dtype == "bool":
            sign, level = _LOGIC[op]
            need = RELATION + 1 if op == "xor" else AND + 1
            return Text(f"{a.at(need)} {sign} {b.at(need)}", level)
        if op in _BITWISE:
            return Text(f"({c_type(dtype)})({a.at(PREFIX)} {_BITWISE[op]} {b.at(PREFIX)})", PREFIX)
        if op in ("floordiv", "mod") and self._truncates(expr):
            return Text(f"{a.at(PRODUCT)} {'/' if op == 'floordiv' else '%'} {b.at(PREFIX)}", PRODUCT)
        if op not in _ARITHMETIC:
            helper = {"fmin": "min", "fmax": "max"}.get(op, op)
            return Text(f"{self.helpers.use(helper, dtype)}({a.text}, {b.text})", PRIMARY)
        sign, level = _ARITHMETIC[op]
        span = self.known.interval(expr)
        if span is not None and span[0] == span[1]:
            return literal(span[0], dtype)  # C would compute it in `int`
        if (dtype.kind == "unsigned" and dtype.bits >= 32) or (index and _is_plain(expr)) or (span is not None and dtype.bits >= 32):
            return Text(f"{a.at(level)} {sign} {b.at(level + 1)}", level)
        return Text(f"({c_type(dtype)})(({wide(dtype)}){a.at(PREFIX)} {sign} ({wide(dtype)}){b.at(PREFIX)})", PREFIX)

    def _truncates(self, expr: Binary) -> bool:
        """Whether a floored division is C's: nothing is negative, and the divisor is no zero."""
        if dtype_of(expr).kind == "unsigned":
            return self.known.values(expr.right)[0] > 0
        return self.known.values(expr.left)[0] >= 0 and self.known.values(expr.right)[0] > 0

    def _floating(self, op: str, a: Text, b: Text, dtype: DType) -> Text:
        if op in _ARITHMETIC:
            sign, level = _ARITHMETIC[op]
            return Text(f"{a.at(level)} {sign} {b.at(level + 1)}", level)
        return Text(f"{self.helpers.use(op, dtype)}({a.text}, {b.text})", PRIMARY)

    def _select(self, cond: Expr, yes: Expr, no: Expr, dtype: DType) -> Text:
        test = self.part(cond)
        both = _always(no)
        for part in _in_order(yes, _always(yes)):
            if id(part) in both and self._used(part) > 1 and not _is_plain(part):
                self.part(part)
        sides = self.inner(), self.inner()
        texts = [scope.part(side) for scope, side in zip(sides, (yes, no), strict=True)]
        if not any(scope.lines for scope in sides):
            first, second = texts[0].at(CHOICE + 1), texts[1].at(CHOICE)
            if dtype == INT64 and isinstance(yes, Const) and isinstance(no, Const):
                first = f"(int64_t){first}"
            return Text(f"{test.at(CHOICE + 1)} ? {first} : {second}", CHOICE)
        name = self.fresh()
        self.line(f"{c_type(dtype)} {name};")
        for opening, scope, text in zip((f"if ({test.text}) {{", "} else {"), sides, texts, strict=True):
            self.line(opening)
            self.lines += [f"  {line}" for line in (*scope.lines, f"{name} = {text.text};")]
        self.line("}")
        return Text(name, PRIMARY)

    def _call(self, function: str, args: list[Text], dtype: DType) -> Text:
        of = FLOAT32 if dtype in HALVES else dtype
        operands = ", ".join(self.widened(arg, dtype).text for arg in args)
        if function in ("isnan", "isinf", "isfinite"):
            return Text(f"{self.helpers.use(function, of)}({operands})", PRIMARY)
        if function == "sigmoid":
            found = Text(f"{self.helpers.use(function, of)}({operands})", PRIMARY)
        elif function == "rsqrt":
            found = Text(f"1 / {self.helpers.external('sqrt', of)}({operands})", PRODUCT)
        else:
            found = Text(f"{self.helpers.external(_C_NAMES.get(function, function), of, len(args))}({operands})", PRIMARY)
        return self.rounded(found, dtype)


def literal(value: float, dtype: DType) -> Text:
    """A literal of C."""
    if dtype == "bool":
        return Text("true" if value else "false", PRIMARY)
    if dtype.is_integer:
        text = spelled_integer(int(value), dtype)
        return Text(text, PREFIX if text.startswith("-") else PRIMARY)
    if dtype in HALVES:
        return Text(f"0x{int(dtype.rounded(value).view(np.uint16)):04x} /* {value!r} */", PRIMARY)
    mark = "f" if dtype == "float32" else ""
    number = dtype.numpy.type(value)
    if number != number:  # noqa: PLR0124 - NaN
        return Text(f"(0.0{mark} / 0.0{mark})", PRIMARY)
    if np.isinf(number):
        return Text(f"({'-' if number < 0 else ''}1.0{mark} / 0.0{mark})", PRIMARY)
    text = str(number)
    text = text if any(char in text for char in ".e") else f"{text}.0"
    return Text(text + mark, PREFIX if text.startswith("-") else PRIMARY)


def _is_plain(expr: Expr) -> bool:
    """Arithmetic on loops and extents alone, whose value is an index in bounds."""
    return all(isinstance(part, (Const, Axis, Dim, Binary, Unary)) for part in walk(expr))


def _always(expr: Expr) -> set[int]:
    """The parts of an expression that are evaluated whatever its conditions are."""
    found: set[int] = set()
    stack = [expr]
    while stack:
        part = stack.pop()
        if id(part) in found:
            continue
        found.add(id(part))
        if isinstance(part, Select):
            stack.append(part.cond)
            found |= _always(part.yes) & _always(part.no)
        else:
            stack.extend(children(part))
    return found


def _in_order(expr: Expr, wanted: set[int]) -> list[Expr]:
    """Those parts, each once, operands before what they are operands of."""
    order: list[Expr] = []
    seen: set[int] = set()
    stack = [(expr, False)]
    while stack:
        part, done = stack.pop()
        if done:
            order.append(part)
        elif id(part) in wanted and id(part) not in seen:
            seen.add(id(part))
            stack.append((part, True))
            stack.extend((operand, False) for operand in reversed(children(part)))
    return order
