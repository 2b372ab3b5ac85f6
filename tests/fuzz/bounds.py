"""How far a floating-point result may lie off: the error of every stage, propagated through its own expression.

For each tensor a second one is defined that bounds its absolute error, by the usual rules (an operation adds half a unit in the last
place of its result, a sum of n terms n units of the sum of their absolute values, a smooth function what it makes of the error of its
operand). The evaluator computes both. What is computed the same way by everybody (no sum, no named function) has the bound 0.

A value that jumps (a comparison, a floor, an arg-reduction) at something that has an error has no bound: `Rough`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import tensorlang as tl
from tensorlang.ir.dtype import dtype

from .case import Node, bounds_of, trees_of, walk
from .program import BINARY, HALF, Builder, function

UNIT: Final = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23, "float64": 2.0**-52}
TINY: Final = {"float16": 2.0**-24, "bfloat16": 2.0**-126, "float32": 2.0**-126, "float64": 2.0**-1000}
LARGEST: Final = {"float32": 2.0**128, "float64": 1.7976931348623157e308}
"""What has no place in a type any more."""
TURN: Final = 6.5
"""More than a whole turn, in radians."""
ULPS: Final = 4
"""Units that a named function may be off, twice over (once here, once in the evaluator)."""


class Rough(Exception):  # noqa: N818 - not an error: no answer
    """There is no bound: something jumps where it has an error."""


@dataclass(slots=True)
class Bounds(Builder):
    """A builder that also builds errors: float64 expressions, or None for no error at all."""

    errors: dict[str, Any] = field(default_factory=dict)

    def define(self, stage: dict[str, Any]) -> None:
        """The stage and its error."""
        Builder.define(self, stage)
        if self.outer:  # inside a scan, which is judged as a whole
            return
        name = stage["name"]
        if stage.get("form") == "pad":
            inner = self.errors.get(stage["reads"][0])
            self.errors[name] = None if inner is None else tl.pad(inner, stage["widths"], mode=stage["mode"], name=f"{name}_err")
            return
        if stage.get("form"):  # ordered, so there is no bound for what comes after an error
            trees = trees_of(stage)
            inexact = stage["form"] in ("scatter", "custom") and stage["type"] in UNIT
            if (
                inexact
                or any(self.rough(tree) for tree in trees)
                or any(self.errors.get(name) is not None for name in stage.get("reads", ()))
            ):
                raise Rough
            return
        labels = [name] if len(stage["body"]) == 1 else [f"{name}_{component}" for component in range(len(stage["body"]))]
        for label, value in zip(labels, stage["body"], strict=True):
            shape = [self.extent(part) for part in stage["shape"]]
            exact = False

            def body(axes: list[Any], value: Node = value) -> Any:
                nonlocal exact
                self.axes = dict(zip(stage["axes"], axes, strict=True))
                error = self.error(value)[1]
                exact = error is None
                return tl.cast(0.0, "float64") if error is None else error

            made = tl.compute(tuple(shape), function(stage["axes"], body), name=f"{label}_err")
            self.errors[label] = None if exact else made

    def rough(self, tree: Node) -> bool:
        """Does a tree hold anything that may be rounded in another way?"""
        for node in walk(tree):
            match node:
                case ["ld", name, _] if self.errors.get(name) is not None:
                    return True
                case ["call", name, *_] if name not in ("floor", "ceil", "round", "trunc", "sign", "isnan", "isinf", "isfinite"):
                    return True
                case ["red", "sum" | "prod" | "mean", _, _, _, of] if of in UNIT:
                    return True
        return False

    def error(self, node: Node) -> tuple[Any, Any]:
        """The value of a node and its error."""
        match node:
            case ["ld", name, index]:
                at = tuple(self.exact(part) for part in index)
                error = self.errors.get(name)
                return self.tensors[name][at], None if error is None else error[at]
            case ["cast", to, value]:
                inner, error = self.error(value)
                if error is None:
                    return tl.cast(inner, to), None
                made = tl.cast(inner, to)
                if to not in UNIT:
                    raise Rough
                return made, error + rounding(made)
            case ["neg" | "abs" as op, value]:
                inner, error = self.error(value)
                return -inner if op == "neg" else tl.abs(inner), error
            case ["sel", cond, yes, no]:
                test, (a, ea), (b, eb) = self.exact(cond), self.error(yes), self.error(no)
                none = ea is None and eb is None
                return tl.select(test, a, b), None if none else tl.select(test, known(ea), known(eb))
            case ["call", name, *args]:
                return self.smooth(name, args)
            case ["red", reducer, axes, value, where, of]:
                return self.reduced(reducer, axes, value, where, of)
            case ["+" | "-" | "*" | "/" | "min" | "max" | "fmin" | "fmax" as op, left, right]:
                return self.combined(op, left, right)
            case _:
                return self.exact(node), None

    def exact(self, node: Node) -> Any:
        """The value of a node that has no error. Raises `Rough` where one of its parts has."""
        match node:
            case ["ax" | "ext", *_] | bool() | int() | float():
                return self.node(node)
            case ["ld", *_] | ["red", *_] | ["sel", *_] | ["cast", *_]:
                value, error = self.error(node)
                if error is not None:
                    raise Rough
                return value
            case ["clamp", value, low, high]:
                return tl.clamp(self.exact(value), self.exact(low), self.exact(high))
            case ["not", value]:
                return ~self.exact(value)
            case ["neg", value]:
                return -self.exact(value)
            case ["abs", value]:
                return tl.abs(self.exact(value))
            case ["call", name, *args]:
                return getattr(tl, name)(*[self.exact(arg) for arg in args])
            case [op, left, right]:
                return BINARY[op](self.exact(left), self.exact(right))
            case _:
                raise Rough

    def combined(self, op: str, left: Node, right: Node) -> tuple[Any, Any]:
        """An operator of two values."""
        (a, ea), (b, eb) = self.error(left), self.error(right)
        made = BINARY[op](a, b)
        if ea is None and eb is None:
            return made, None
        ea, eb = known(ea), known(eb)
        match op:
            case "*":
                return made, size(a) * eb + size(b) * ea + ea * eb + rounding(made)
            case "/":
                return made, (ea + size(made) * eb) / tl.maximum(size(b) - eb, 0.0) + rounding(made)  # no bound: b may be 0
            case "+" | "-":
                return made, ea + eb + rounding(made)
            case _:
                return made, tl.maximum(ea, eb)

    def smooth(self, name: str, args: list[Node]) -> tuple[Any, Any]:
        """A named function: monotone ones are evaluated at both ends of what their operand may be."""
        parts = [self.error(arg) for arg in args]
        made = getattr(tl, name)(*[value for value, _ in parts])
        if name.startswith("is") or name in ("floor", "ceil", "round", "trunc", "sign"):
            if any(error is not None for _, error in parts):
                raise Rough
            return made, None
        own = rounding(made) * ULPS
        (value, error), *rest = parts
        if name == "atan2":  # which zero a minimum or maximum is, nobody says; beside it the angle jumps
            own = own + tl.select(tl.cast(value, "float64") == 0.0, TURN, 0.0)
        if all(found is None for _, found in parts):
            return made, own
        if rest:
            raise Rough
        if name in ("sin", "cos", "atan"):  # no steeper than 1
            return made, error + own
        at, apply = tl.cast(value, "float64"), getattr(tl, name)
        middle = apply(at)
        return made, tl.maximum(tl.abs(apply(at + error) - middle), tl.abs(middle - apply(at - error))) + own

    def reduced(self, reducer: str, axes: list[Any], value: Node, where: Node, of: str) -> tuple[Any, Any]:
        """A reduction."""
        made = self.reduce(reducer, axes, value, where, of)
        if of not in UNIT or reducer in ("any", "all"):
            self.held(axes, value, where)
            return made, None
        outer, ranges = self.axes, tuple(self.ranges(axes))
        condition = None if where is None else self.exact(where)
        element, error = self.error(value)
        bound = None
        if reducer in ("argmax", "argmin"):
            if error is not None:
                raise Rough
        elif reducer in ("sum", "prod", "mean"):
            steps = tl.cast(self.count(axes), "float64") + 3.0
            unit = UNIT["float32" if of in HALF else of]
            if reducer in ("sum", "mean"):
                reach = tl.sum(size(element), axis=ranges, where=condition)
                spread = reach * unit * steps
                bound = spread if error is None else spread + tl.sum(error, axis=ranges, where=condition)
                if reducer == "mean":
                    bound = bound / tl.maximum(tl.sum(tl.cast(1.0, "float64"), axis=ranges, where=condition), 1.0)
            else:
                reach = tl.prod(tl.maximum(size(element), 1.0), axis=ranges, where=condition)
                least = tl.prod(tl.select(size(element) > 0.0, tl.minimum(size(element), 1.0), 1.0), axis=ranges, where=condition)
                reach = tl.select(least >= TINY["float32" if of in HALF else of], reach, float("inf"))  # else a part may lose digits
                largest = tl.prod(size(element) + known(error), axis=ranges, where=condition)
                bound = largest * unit * steps * 2.0
                bound = bound if error is None else bound + (largest - tl.prod(size(element), axis=ranges, where=condition))
            top = tl.cast(LARGEST["float32" if of in HALF else of], "float64")
            bound = tl.select(reach < top, bound + rounding(made), float("inf"))  # else a part may overflow in another order
        elif error is not None:
            bound = tl.max(error, axis=ranges, where=condition)
            bound = tl.maximum(bound, tl.cast(0.0, "float64"))
        self.axes = outer
        return made, bound

    def held(self, axes: list[Any], value: Node, where: Node) -> None:
        """Raise `Rough` where an exact reduction reads something that has an error."""
        outer = self.axes
        self.ranges(axes)
        for bound in (bound for axis in axes for bound in bounds_of(axis)):
            self.exact(bound)
        self.exact(value)
        if where is not None:
            self.exact(where)
        self.axes = outer

    def count(self, axes: list[Any]) -> Any:
        """The number of terms of a reduction, at most."""
        total: Any = 1
        for _, low, high, *within in axes:
            total = total * (self.extent(within[0]) if within else self.extent(high) - self.extent(low))
        return total


def size(value: Any) -> Any:
    """The magnitude of a value, in float64."""
    return tl.abs(tl.cast(value, "float64"))


def rounding(value: Any) -> Any:
    """What rounding a value to its type may have changed."""
    of = str(dtype(value.dtype))
    return size(value) * UNIT[of] + TINY[of] if of in UNIT else tl.cast(0.0, "float64")


def known(error: Any) -> Any:
    """An error, 0 where there is none."""
    return tl.cast(0.0, "float64") if error is None else error
