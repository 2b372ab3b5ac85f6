"""Random expressions over what is in scope: every read is in bounds by construction, by a clamp or under a condition."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any, Final

from .case import Extent, Node, extents_in, value_of

FLOATS: Final = ("float16", "bfloat16", "float32", "float64")
SIGNED: Final = ("int8", "int16", "int32", "int64")
UNSIGNED: Final = ("uint8", "uint16", "uint32", "uint64")
TYPES: Final = ("float32",) * 6 + ("float64",) * 2 + FLOATS + SIGNED + ("int32",) * 2 + UNSIGNED + ("bool",)
SMOOTH: Final = (
    "exp", "tanh", "sigmoid", "erf", "sin", "cos", "sqrt", "log1p", "expm1", "rsqrt", "log", "exp2",
    "log2", "log10", "asin", "acos", "atan", "sinh", "cosh",
)  # fmt: skip
STEPPED: Final = ("floor", "ceil", "round", "trunc", "sign")


@dataclass(frozen=True, slots=True)
class Info:
    """A tensor in scope. A rough one was rounded in an order that a schedule may change, so nothing may jump at its value."""

    shape: tuple[Extent, ...]
    dtype: str
    rough: bool


@dataclass(slots=True)
class Scope:
    """What an expression may use: tensors, axes with the extents that they run over, and the values of all extents."""

    rng: random.Random
    tensors: dict[str, Info]
    extents: dict[str, int]
    symbolic: list[str]
    axes: dict[str, Extent] = field(default_factory=dict)
    marks: set[str] = field(default_factory=set)

    def known(self, extent: Extent) -> int | None:
        """The value of an extent, or None where it is known only at run time."""
        return None if extents_in(extent) & set(self.symbolic) else int(value_of(extent, self.extents))

    def inside(self, **axes: Extent) -> Scope:
        """The scope with more axes."""
        return Scope(self.rng, self.tensors, self.extents, self.symbolic, {**self.axes, **axes}, self.marks)

    def mark(self, info: Info) -> None:
        """What reads a rough tensor is rough."""
        if info.rough:
            self.marks.add("rough")

    # Indices

    def index(self, extent: Extent) -> tuple[Node, Node | None]:
        """An index into a dimension, and the condition under which it is inside (None: always)."""
        rng, size = self.rng, self.known(extent)
        same = [axis for axis, own in self.axes.items() if own == extent]
        if same and rng.random() < 0.7:
            return ["ax", rng.choice(same)], None
        if not self.axes:
            if size:
                return rng.randrange(size), None
            return 0, ["<", 0, ["ext", extent]]
        axis = rng.choice(list(self.axes))
        own, at = self.known(self.axes[axis]), ["ax", axis]
        if size is not None and own is not None and size >= own and rng.random() < 0.6:
            moved = [at, ["-", size - 1, at], ["+", at, size - own], ["//", at, rng.randint(1, 3)]]
            moved += [["*", at, 2]] if own and 2 * (own - 1) < size else []
            return rng.choice(moved), None
        if size and rng.random() < 0.5:
            return rng.choice(
                [["%", ["+", at, rng.randint(0, 3)], size], ["clamp", ["-", at, rng.randint(0, 2)], 0, size - 1], rng.randrange(size)]
            ), None
        moved_by = ["+", at, rng.randint(-2, 2)]
        return moved_by, ["&", [">=", moved_by, 0], ["<", moved_by, ["ext", extent]]]

    def load(self, name: str, to: str) -> Node:
        """An element of a tensor, as a value of type `to`."""
        info = self.tensors[name]
        self.mark(info)
        parts = [self.index(extent) for extent in info.shape]
        read = cast(["ld", name, [part for part, _ in parts]], info.dtype, to)
        return guarded(read, [test for _, test in parts if test is not None], to)

    def gather(self, name: str, to: str, indices: str) -> Node:
        """An element whose place the data of `indices` decides: clamped, or under a condition on the same expression."""
        info = self.tensors[name]
        places = [self.index(extent) for extent in self.tensors[indices].shape]
        at = guarded(
            ["cast", "int64", ["ld", indices, [part for part, _ in places]]], [test for _, test in places if test is not None], "int64"
        )
        position = self.rng.randrange(len(info.shape))
        parts = [self.index(extent) for extent in info.shape]
        tests = [test for place, (_, test) in enumerate(parts) if test is not None and place != position]
        size = self.known(info.shape[position])
        index = [part for part, _ in parts]
        if size and self.rng.random() < 0.6:
            index[position] = ["clamp", at, 0, size - 1]
        else:
            index[position] = at
            tests.append(["&", [">=", at, 0], ["<", at, ["ext", info.shape[position]]]])
        self.mark(info)
        return guarded(cast(["ld", name, index], info.dtype, to), tests, to)

    def unsafe(self, to: str, offset: Extent) -> tuple[Node, list[Node]] | None:
        """A read that is inside only under conditions, as a value of type `to`, and these; None where there is nothing to read.

        It lies `offset` off, or where another tensor says that is itself read `offset` off.
        """
        names = [name for name, info in self.tensors.items() if info.shape and not info.rough and name not in ("STATE0", "STATE1")]
        if not names or not self.axes:
            return None
        name = self.rng.choice(names)
        far, tests = self.off(self.tensors[name].shape, offset)
        info = self.tensors[name]
        others = [other for other in names if self.known(self.tensors[other].shape[0])] if info.dtype in SIGNED else []
        if others and self.rng.random() < 0.6:  # what is read off is an index itself
            target = self.rng.choice(others)
            shape = self.tensors[target].shape
            parts = [self.index(extent) for extent in shape]
            inner = [["clamp", ["cast", "int64", ["ld", name, far]], 0, (self.known(shape[0]) or 1) - 1], *[part for part, _ in parts[1:]]]
            tests += [test for _, test in parts[1:] if test is not None]
            return cast(["ld", target, inner], self.tensors[target].dtype, to), tests
        return cast(["ld", name, far], info.dtype, to), tests

    def off(self, shape: tuple[Extent, ...], offset: Extent) -> tuple[list[Node], list[Node]]:
        """An index into a tensor of which one part lies `offset` off an axis, and the conditions under which it is inside."""
        place = self.rng.randrange(len(shape))
        parts = [self.index(extent) for extent in shape]
        index, tests = [part for part, _ in parts], [test for at, (_, test) in enumerate(parts) if test is not None and at != place]
        same = [axis for axis, own in self.axes.items() if own == shape[place]]
        axis = self.rng.choice(same or list(self.axes))
        index[place] = [self.rng.choice("--+"), ["ax", axis], ["ext", offset] if isinstance(offset, str) else offset]
        tests += [[">=", index[place], 0], ["<", index[place], ["ext", shape[place]]]]
        return index, tests

    def protected(self, to: str, offset: Extent) -> Node | None:
        """A read that a select protects."""
        found = self.unsafe(to, offset)
        return None if found is None else guarded(found[0], found[1], to)

    # Values

    def leaf(self, to: str) -> Node:
        """A read, an axis or a literal."""
        choice = self.rng.random()
        readable = [name for name, info in self.tensors.items() if to in FLOATS or not info.rough]
        if readable and choice < 0.75:
            return self.load(self.rng.choice([*readable, *readable[-2:]]), to)
        if self.axes and choice < 0.9:
            return cast(["ax", self.rng.choice(list(self.axes))], "int64", to)
        return ["cast", to, literal(self.rng, to)]

    def exact(self, to: str) -> Node:
        """A leaf that is not rough."""
        smooth = {name: info for name, info in self.tensors.items() if not info.rough}
        return Scope(self.rng, smooth, self.extents, self.symbolic, self.axes).leaf(to)

    def condition(self, to: str) -> Node:
        """A condition on axes or exact values."""
        if self.axes and self.rng.random() < 0.5:
            axis, other = self.rng.choice(list(self.axes)), self.rng.choice(list(self.axes))
            return [self.rng.choice(("<", "<=", "==", ">")), ["ax", axis], ["+", ["ax", other], self.rng.randint(-1, 2)]]
        kind = "int32" if to == "bool" else to
        return [self.rng.choice(("<", "<=", ">", ">=", "==", "!=")), self.exact(kind), self.exact(kind)]

    def kept(self, to: str) -> Node:
        """What is read, where a condition on it holds, and else zero; or the other way round."""
        read, none = self.exact(to), ["cast", to, 0]
        sides = [read, none] if self.rng.random() < 0.7 else [none, read]
        return ["sel", [self.rng.choice(("<", "<=", ">", ">=", "==", "!=")), read, self.exact(to)], *sides]

    def value(self, to: str, depth: int) -> Node:
        """A value of type `to`."""
        if depth == 0 or self.rng.random() < 0.1:
            return self.leaf(to)
        if to == "bool":
            choice = self.rng.choice(("&", "|", "^", "not", "condition", "condition"))
            if choice == "condition":
                return self.condition(to)
            return ["not", self.value(to, depth - 1)] if choice == "not" else [choice, self.value(to, depth - 1), self.value(to, depth - 1)]
        floating = to in FLOATS
        kinds = ["+", "+", "-", "*", "*", "min", "max", "sel", "abs", "neg"]
        kinds += ["/", "call", "call", "step", "fmin", "fmax", "isnan", "atan2"] if floating else ["//", "%", "&", "|", "^", "<<", ">>"]
        kind = self.rng.choice(kinds)
        match kind:
            case "sel" if self.rng.random() < 0.2:
                return self.kept(to)
            case "sel":
                return ["sel", self.condition(to), self.value(to, depth - 1), self.value(to, depth - 1)]
            case "isnan":
                return ["sel", ["call", "isnan", self.exact(to)], self.value(to, depth - 1), self.leaf(to)]
            case "abs" | "neg":
                return [kind, self.value(to, depth - 1)]
            case "call":
                self.marks.add("rough")
                return ["call", self.rng.choice(SMOOTH), self.value(to, depth - 1)]
            case "atan2":
                self.marks.add("rough")
                return ["call", "atan2", self.value(to, depth - 1), self.leaf(to)]
            case "step":
                return ["call", self.rng.choice(STEPPED), self.exact(to)]
            case "<<" | ">>":
                return [kind, self.value(to, depth - 1), ["&", self.leaf(to), 7]]
            case _:
                return [kind, self.value(to, depth - 1), self.value(to, depth - 1)]


def cast(node: Node, own: str, to: str) -> Node:
    """`node` of type `own` as a value of type `to`."""
    return node if own == to else ["cast", to, node]


def cast_all(body: Node, of: str) -> Node:
    """A body whose type is sure even where it is a bare literal."""
    return body if isinstance(body, list) else ["cast", of, body]


def guarded(read: Node, tests: list[Node], to: str) -> Node:
    """A read that happens only where all tests hold."""
    return ["sel", together(tests), read, ["cast", to, 0]] if tests else read


def together(tests: list[Node]) -> Node:
    """All tests hold."""
    test = tests[0]
    for other in tests[1:]:
        test = ["&", test, other]
    return test


def literal(rng: random.Random, to: str) -> Any:
    """A small literal of a type."""
    if to == "bool":
        return rng.random() < 0.5
    return rng.choice((0.5, -1.5, 2.0, 0.0)) if to in FLOATS else rng.randint(0, 5)
