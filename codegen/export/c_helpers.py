"""The small functions that C source of a kernel needs where C's operators say something else, or nothing: written as they are used.

Integers wrap, divisions floor and are total, shifts take any count, casts from floating point saturate, NaN propagates through minima. A
helper is named by its operation and type (`floordiv_i64`); what it calls is asked for first.
"""

from __future__ import annotations

import re
from typing import Final

from tensorlang.codegen.cache.signature import c_type
from tensorlang.errors import InternalError
from tensorlang.ir.dtype import DType
from tensorlang.ir.halves import SPARE_BITS

_WORD: Final = re.compile(r"\w+")
_SHORT: Final = {"signed": "i", "unsigned": "u", "floating": "f"}


def suffix(dtype: DType) -> str:
    """A type in the name of a helper: i8, u64, f32, bf16, bool."""
    return "bf16" if dtype == "bfloat16" else "bool" if dtype == "bool" else f"{_SHORT[dtype.kind]}{dtype.bits}"


def wide(dtype: DType) -> str:
    """The unsigned type in which arithmetic of an integer type wraps without being promoted to a signed one."""
    return "uint64_t" if dtype.bits == 64 else "uint32_t"


class Helpers:
    """The helpers and the functions of C that a source uses, in the order in which they can stand."""

    def __init__(self) -> None:
        self.functions: dict[str, str] = {}
        self.externals: dict[str, str] = {}

    def external(self, name: str, dtype: DType, arity: int = 1) -> str:
        """A function of C's mathematics, declared: its name for the type."""
        kind = c_type(dtype)
        full = name + ("f" if dtype == "float32" else "")
        self.externals[full] = f"extern {kind} {full}({', '.join([kind] * arity)});"
        return full

    def use(self, op: str, dtype: DType, to: DType | None = None) -> str:
        """A helper by its operation and type: its name."""
        name = f"{op}_{suffix(dtype)}" + (f"_{suffix(to)}" if to is not None else "")
        if name not in self.functions:
            self.functions[name] = self._text(op, name, dtype, to)
        return name

    def needed_by(self, text: str) -> tuple[list[str], list[str]]:
        """The declarations and the helpers that a text needs, which others may need in their turn."""
        words, functions = set(_WORD.findall(text)), []
        for name, helper in reversed(self.functions.items()):
            if name in words:
                functions.append(helper)
                words.update(_WORD.findall(helper))
        return [declared for name, declared in self.externals.items() if name in words], functions[::-1]

    def _define(self, name: str, result: str, parameters: str, body: str) -> str:
        return f"static {result} {name}({parameters}) {{\n  {body}\n}}"

    def _text(self, op: str, name: str, dtype: DType, to: DType | None) -> str:
        kind, inner = c_type(dtype), wide(dtype)
        two = f"{kind} a, {kind} b"
        if op == "saturated" and to is not None:
            return self._define(name, c_type(to), f"{kind} x", _saturated(dtype, to))
        if op in _CONVERSIONS:
            return self._conversion(op, name)
        if dtype.is_floating:
            return self._define(name, *self._floating(op, kind, dtype))
        match op:
            case "min" | "max":
                return self._define(name, kind, two, f"return a {'<' if op == 'min' else '>'} b ? a : b;")
            case "abs":
                return self._define(name, kind, f"{kind} a", f"return a < 0 ? ({kind})(0 - ({inner})a) : a;")
            case "floordiv" | "mod":
                return self._define(name, kind, two, _division(op, dtype, kind, inner))
            case "whole":
                small = f"a < {1 << 53}" + (f" && a > -{1 << 53}" if dtype.kind == "signed" else "u")
                lost = (1 << SPARE_BITS) - 1
                odd = f"({kind})((({inner})a & ~({inner}){lost}) | {lost + 1})"
                return self._define(name, kind, f"{kind} a", f"return ({small}) || (a & {lost}) == 0 ? a : {odd};")
            case "shl":
                low = "b < 0 || " if dtype.kind == "signed" else ""
                return self._define(name, kind, two, f"return {low}b >= {dtype.bits} ? 0 : ({kind})(({inner})a << b);")
            case "shr" if dtype.kind == "signed":
                count = f"int n = b < 0 || b >= {dtype.bits} ? {dtype.bits - 1} : (int)b;"
                return self._define(name, kind, two, f"{count}\n  return ({kind})(a < 0 ? ~(~a >> n) : a >> n);")
            case "shr":
                return self._define(name, kind, two, f"return b >= {dtype.bits} ? 0 : ({kind})(a >> b);")
            case _:
                raise InternalError(f"no helper {name}")

    def _floating(self, op: str, kind: str, dtype: DType) -> tuple[str, str, str]:
        one, two = f"{kind} x", f"{kind} a, {kind} b"
        literal = "f" if dtype == "float32" else ""
        match op:
            case "min" | "max":
                return kind, two, f"return a != a ? a : b != b ? b : a {'<' if op == 'min' else '>'} b ? a : b;"
            case "fmin" | "fmax":
                return kind, two, f"return a != a ? b : b != b ? a : a {'<' if op == 'fmin' else '>'} b ? a : b;"
            case "sigmoid":
                decay = f"{kind} e = {self.external('exp', dtype)}(-{self.external('fabs', dtype)}(x));"
                return kind, one, f"{decay}\n  return x >= 0 ? 1 / (1 + e) : e / (1 + e);"
            case "isnan":
                return "bool", one, "return x != x;"
            case "isinf":
                return "bool", one, f"return {self.external('fabs', dtype)}(x) == 1.0{literal} / 0.0{literal};"
            case "isfinite":
                return "bool", one, "return x - x == 0;"
            case _:
                raise InternalError(f"no helper {op} of {dtype}")

    def _conversion(self, op: str, name: str) -> str:
        for needed in ("bits_of", "real_of"):
            if f"{needed}(" in _CONVERSIONS[op]:  # compilers warn of a function that nothing uses
                self.functions.setdefault(needed, _CONVERSIONS[needed])
        return _CONVERSIONS[op].replace("NAME", name)


def _division(op: str, dtype: DType, kind: str, inner: str) -> str:
    sign = "/" if op == "floordiv" else "%"
    if dtype.kind != "signed":
        return f"return b == 0 ? 0 : a {sign} b;"
    if op == "mod":
        return "if (b == 0 || b == -1) return 0;\n  a %= b;\n" + f"  return ({kind})(a != 0 && (a < 0) != (b < 0) ? a + b : a);"
    edge = f"if (b == 0) return 0;\n  if (b == -1) return ({kind})(0 - ({inner})a);"
    return f"{edge}\n  return ({kind})(a / b - (a % b != 0 && (a < 0) != (b < 0)));"


def _saturated(dtype: DType, to: DType) -> str:
    mark = "f" if dtype == "float32" else ""
    low, high = int(to.lowest), int(to.highest)
    least = spelled_integer(low, to)
    return (
        f"return x != x ? 0 : x < {float(low)!r}{mark} ? {least} : "
        f"x >= {float(high + 1)!r}{mark} ? {spelled_integer(high, to)} : ({c_type(to)})x;"
    )


def spelled_integer(value: int, dtype: DType) -> str:
    """An integer as a literal of C."""
    if dtype.kind == "unsigned":
        return f"{value}ULL" if dtype.bits == 64 else f"{value}u" if dtype.bits == 32 else str(value)
    if value == -(1 << 63):
        return "(-9223372036854775807LL - 1)"
    if value == -(1 << 31):
        return "(-2147483647 - 1)"
    return f"{value}LL" if abs(value) >= 1 << 31 else str(value)


# The arithmetic of `codegen.emission.convert`: to half with ties to even, NaN quiet.
_CONVERSIONS: Final = {
    "bits_of": "static uint32_t bits_of(float x) {\n  union { float x; uint32_t n; } u;\n  u.x = x;\n  return u.n;\n}",
    "real_of": "static float real_of(uint32_t n) {\n  union { float x; uint32_t n; } u;\n  u.n = n;\n  return u.x;\n}",
    "widen_half": """static float NAME(uint16_t h) {
  uint32_t m = h & 0x7fffu, n = m << 13;
  if (m < 0x7c00u) n = bits_of(real_of(n) * 0x1p112f);
  else n |= m > 0x7c00u ? 0x7fc00000u : 0x7f800000u;
  return real_of(n | (uint32_t)(h & 0x8000u) << 16);
}""",
    "round_half": """static uint16_t NAME(float x) {
  uint32_t m = bits_of(x) & 0x7fffffffu, s = bits_of(x) >> 16 & 0x8000u, n;
  if (m > 0x7f800000u) n = (m >> 13 & 0x1ffu) | 0x7e00u;
  else if (m >= 0x47800000u) n = 0x7c00u;
  else if (m < 0x38800000u) n = bits_of(real_of(m) + 0.5f) - 0x3f000000u;
  else n = (m - (112u << 23) + 0xfffu + (m >> 13 & 1u)) >> 13;
  return (uint16_t)(s | n);
}""",
    "widen_brain": "static float NAME(uint16_t h) {\n  return real_of((uint32_t)h << 16);\n}",
    "round_brain": """static uint16_t NAME(float x) {
  uint32_t n = bits_of(x), top = n >> 16;
  return (uint16_t)(x != x ? top | 0x40u : (n + 0x7fffu + (top & 1u)) >> 16);
}""",
    "odd": """static float NAME(double x) {
  float y = (float)x;
  double a = x < 0 ? -x : x, b = y < 0 ? -(double)y : y;
  return a == b || x != x ? y : real_of((b > a ? bits_of(y) - 1 : bits_of(y)) | 1u);
}""",
}
