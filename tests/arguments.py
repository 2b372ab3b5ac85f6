"""Arguments that users might type: for every public entry right ones by the name of the parameter, and a pool of wrong ones for any.

A call that `inspect.signature` cannot bind is Python's own mistake to report, so none is drawn. What a user's own function raises is
`Own`, which passes through.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, NoReturn

import numpy as np
from hypothesis import strategies as st

import tensorlang as tl
from tensorlang import graph, kernels
from tensorlang.autotune import Database, Log, tune
from tensorlang.schedules.catalogue import DIRECTIVES as STEPS


class Own(Exception):  # noqa: N818 - an exception of the user's
    """What a user's function raises."""


def raising(*_args: Any, **_options: Any) -> NoReturn:
    raise Own


class Hostile:
    """A value that answers no question."""

    __bool__ = __eq__ = __index__ = __len__ = __float__ = raising
    __hash__ = object.__hash__


class Word(str):
    """A string that is not just one."""

    __slots__ = ()


A = tl.placeholder((4, 6), name="A")
V = tl.placeholder((6,), name="V")
IMAGE = tl.placeholder((1, 2, 5, 5), name="image")
FILTER = tl.placeholder((2, 2, 3, 3), name="filter")
TOKENS = tl.placeholder((3,), "int64", name="tokens")
n = tl.dim("n")
LONG = tl.placeholder((n,), "int32", name="long")
k = tl.reduce_axis(6, name="k")
j = tl.reduce_axis(4, name="j")
H = tl.compute((4, 6), lambda i, j: A[i, j] * 2.0, name="H")
C = tl.compute((4,), lambda i: tl.sum(H[i, k] * V[k], axis=k), name="C")
S = tl.Schedule(C)
OTHER = tl.Schedule(tl.compute((n,), lambda i: LONG[i] + 1, name="D"))
KERNELS: Final[dict[str, tl.Kernel]] = {}
a, v = np.ones((4, 6), "f4"), np.ones(6, "f4")
CALLS: Final[list[Any]] = []
tl.compute((4,), lambda i: CALLS.append(i) or A[i, 0])  # type: ignore[func-returns-value]
FOREIGN = CALLS[0]


def kernel(name: str = "C") -> tl.Kernel:
    """A kernel of one of the schedules, built once."""
    if name not in KERNELS:
        KERNELS[name] = tl.build(S if name == "C" else OTHER)
    return KERNELS[name]


def builder() -> tuple[graph.Builder, graph.Value]:
    """A builder of graphs, and a value in it."""
    made = graph.Builder("g")
    x = made.input((4, 6), name="x")
    return made, made("relu", made("linear", x, np.ones((3, 6), "f4")))


BUILT: Final = builder()
GRAPH: Final = BUILT[0].finish(BUILT[1])
SPEC: Final = kernels.Spec("relu", ((4, 6),))
NUMBERS: Final[tuple[Any, ...]] = (
    0, 1, 2, 3, -1, 4, 6, 8, 2**31, 2**48, 2**62, 2**63, 2**70, -(2**70), True, False, 0.5, -0.0, 1e308, float("nan"), float("inf"),
    1j, Fraction(1, 3), np.int64(3), np.uint8(200), np.float32(0.5), np.float64("nan"), np.bool_(True), np.datetime64("2020-01-01"),
)  # fmt: skip
WORDS: Final[tuple[Any, ...]] = (
    "", "i", "j", "k", "C", "C.i", "C.init", "H", "A", "i_o", "no", "float32", "int8", "bool", "native", "x86-64-v3", "guard", "mask", "add", "set", "all",
    "last", "NCHW", "constant", "a b", "\0", "é", "x" * 400, "ij,jk->ik", "{}", "[1", "1/0", "i < 3", "__import__('os')", b"bytes", Word("i"),
)  # fmt: skip
FUNCTIONS: Final[tuple[Any, ...]] = (
    raising, lambda: 1, lambda i: i, lambda i: A[i, 0], lambda i: A, lambda i: "no", lambda i: None, lambda i: (), lambda i: (i, A[i, 0]), lambda i: FOREIGN,
    lambda i, j: A[i, j], lambda i, j: i > j, lambda *i: 1.0, lambda i, self: self[i - 1] + 1.0, lambda i, self: self[i], lambda t, s: s, lambda x, y: x + y,
    lambda *, i: i, lambda i=1: i, print, len, int, max, np.add, min, object, tl.compute, tl.exp, dict, lambda i: [i], lambda i: a,
)  # fmt: skip
ARRAYS: Final[tuple[Any, ...]] = (
    a, v, np.zeros((0,)), np.zeros((4, 6)), np.zeros((4, 6), "f2"), np.array(["a"]), np.array([None, 1]), np.zeros(3, "M8[s]"), np.zeros(3, "c8"),
    np.zeros((4, 6), ">f4"), np.zeros(2, [("x", "f4")]), np.zeros((6, 4), "f4").T, np.zeros((), "f4"), np.array([1, 2]), memoryview(b"abcd"), bytearray(3),
    np.ma.masked_array([1.0, 2.0], [True, False]),
)  # fmt: skip
THINGS: Final[tuple[Any, ...]] = (
    None, ..., slice(None), object(), Hostile(), NotImplemented, int, object, Own, range(3), set(), frozenset({1}), iter(()), (x for x in "ab"), {}, {"a": 1},
    {"n": 3}, {A: a, V: v}, {A: 1}, {"A": a}, {1: 2}, [], (), [4, 6], (4, 6), (4,), (0,), (-1,), (2**50,), (n,), (n, n), (4, "a"), (None,), ((1, 1), (1, 1)),
    ((1, -1), (0, 0)), (((),),), [[]], [1, [2]], ("i", "j"), ("x", "y", "z", "w"), [A, V], (C, C), (C, A), (k, j), (k, k), tl, tl.TensorlangError,
    st, {"loop": "i"}, np.float32, np.dtype("f4"), "float64",
)  # fmt: skip
SURFACE: Final[tuple[Any, ...]] = (
    A, V, IMAGE, FILTER, TOKENS, LONG, H, C, n, n + 1, n // 2, k, j, FOREIGN, FOREIGN > 2, A[0, 0], A[FOREIGN, 0] > 0.0, tl.cast(1, "float64"), S, OTHER,
    tl.dtype("float32"), tl.dtype("int8"), *(kind for kind in STEPS.values()), S.can("vectorize", "i"), tl.reducer(lambda x, y: x + y, 0.0, "plus"),
)  # fmt: skip
ANYTHING: Final = st.one_of(
    *(st.sampled_from(range(len(pool))).map(pool.__getitem__) for pool in (NUMBERS, WORDS, FUNCTIONS, ARRAYS, THINGS, SURFACE))
)


def some(*values: Any) -> st.SearchStrategy[Any]:
    """One of some right values; by position, because values that answer no question cannot be compared."""
    return st.sampled_from(range(len(values))).map(values.__getitem__)


LOOPS: Final = some("i", "k", "C.i", "C.init.i", "H.i", "H.j", "C.k", "k_o", "k_i")
TENSORS: Final = some(A, V, H, C, IMAGE, FILTER, TOKENS, LONG)
VALUES: Final = some(A[0, 0], V[1], FOREIGN, 1, 2.0, FOREIGN > 1, k, V[k], TOKENS[0])
AXES: Final = some(k, j, (k, j), k, k)
RIGHT: Final[dict[str, st.SearchStrategy[Any]]] = {
    **dict.fromkeys(("loop", "i", "j", "outer", "inner", "at", "first", "second"), LOOPS),
    **dict.fromkeys(("stage", "tensor"), some("H", "C", "C.init", "A", "V")),
    **dict.fromkeys(("input", "query", "key", "value", "mat2", "a", "b", "weight", "bias", "running_mean", "init"), TENSORS),
    **dict.fromkeys(("x", "y", "expr", "yes", "no", "lo", "hi", "outside", "value"), VALUES),
    **dict.fromkeys(("outputs", "program"), some(C, (C, H), (C,), S, H)),
    **dict.fromkeys(("fn", "step", "index", "combine"), some(*FUNCTIONS)),
    **dict.fromkeys(
        ("factor", "fi", "fj", "multiple", "distance", "amount", "groups", "stride", "padding", "dilation", "bytes"), some(1, 2, 3, 8)
    ),
    **dict.fromkeys(("kernel_size", "size"), some(1, 2, (2, 2), (3, 3))),
    "shape": some((4,), (4, 6), (), 4, n, (n,), (0, 3)),
    "axis": AXES,
    "axes": AXES,
    "cond": some(FOREIGN > 1, V[k] > 0.0),
    "where": some(None, k > 2, lambda i: i > 1, V[k] > 0.0),
    "dtype": some("float32", "int8", "float64", np.float32, None),
    "to": some("float32", "int8", np.float64),
    "name": some(None, "X", "C"),
    "names": some(None, ("x", "y"), ("p", "q", "r", "s")),
    "tail": some("guard", "mask", "peel", "shift"),
    "feeds": some({A: a, V: v}),
    "inputs": some(None, (A, V)),
    "target": some(None, "native"),
    "directive": some(
        *(kind(*("i" for _ in inspect.signature(kind).parameters)) for kind in STEPS.values()), "split", "vectorize", "reorder"
    ),
    "widths": some(((1, 1), (0, 2))),
    "mode": some("constant", "edge", "reflect", "wrap", "nearest", "bilinear"),
    "layout": some(None, "NCHW", "NHWC", ("i",)),
    "domain": some(4, (1, 3), n),
    "identity": some(0.0, (0.0, 1), 1),
    "length": some(3, n),
    "keep": some("all", "last"),
    "reduce": some("add", "min", "max", "set"),
    "spec": some("ij,j->i", "native"),
    "source": some("def f(float(M) A) -> (B) { B(i) = A(i) }"),
    "array": some(*ARRAYS),
    "at_elements": some([(0,)], None),
    "count": some(1, 2),
    "memory": some("register", "stack", "heap"),
    "path": some("kernel.tlk", "log.jsonl", "."),
    "text": some(S.to_json(), "{}"),
    "condition": some("n > 3", n > 3),
    "form": some("nest", "llvm", "asm"),
    "repeats": some(1, 2),
    "normalized_shape": some(6, (6,), (4, 6)),
    "other": some(S, OTHER),
    "database": some(None),
    "strategy": some("bayesian", "uninformed", "random", "grid", "evolutionary"),
    "trials": some(1, 4),
    "timeout": some(1.0, 30),
    "cache": some("warm", "cold"),
    "dims": some(None, {"n": 5}),
    **dict.fromkeys(("wanted", "asked"), some(SPEC, C, (C, H))),
    "specs": some([SPEC], [SPEC, (C, {"threads": 1})], ()),
    "graph": some(GRAPH),
    "operator": some("relu", "linear", "add"),
}
POSITIONAL: Final = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
NEVER: Final = ("repeats",)
"""Parameters whose large numbers are work that was asked for."""


@dataclass(frozen=True)
class Entry:
    """Something that a user calls: a name, and what makes the callable afresh."""

    name: str
    make: Callable[[], Callable[..., Any]]


def argument(parameter: inspect.Parameter) -> st.SearchStrategy[Any]:
    """What may be given for a parameter: mostly what is right, so that one wrong argument meets right ones."""
    right = RIGHT.get(parameter.name)
    if right is None:
        return ANYTHING
    return right if parameter.name in NEVER else st.one_of(right, right, ANYTHING)


@st.composite
def calls(draw: Callable[[Any], Any], function: Callable[..., Any]) -> tuple[list[Any], dict[str, Any]]:
    """Arguments that the signature of a function can bind."""
    args: list[Any] = []
    options: dict[str, Any] = {}
    positional = True
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is parameter.VAR_POSITIONAL:
            args += draw(st.lists(st.one_of(TENSORS, LOOPS, ANYTHING), max_size=3))
        elif parameter.kind is parameter.VAR_KEYWORD:
            options |= draw(st.dictionaries(st.sampled_from(("n", "A", "out", "threads", "x", "axis", "loop")), ANYTHING, max_size=2))
        elif parameter.default is parameter.empty:
            value = draw(argument(parameter))
            if parameter.kind in POSITIONAL:
                args.append(value)
            else:
                options[parameter.name] = value
        elif draw(st.booleans()):
            value = draw(argument(parameter))
            if parameter.kind in POSITIONAL and positional:
                args.append(value)
            else:
                options[parameter.name] = value
        else:
            positional = False
    return args, {name: value for name, value in options.items() if name not in bound(function, args)}


def bound(function: Callable[..., Any], args: list[Any]) -> set[str]:
    """The parameters that positional arguments take."""
    names = [p.name for p in inspect.signature(function).parameters.values() if p.kind in POSITIONAL]
    return set(names[: len(args)])


def public(kind: type) -> list[str]:
    """The public methods of a class."""
    return [name for name in dir(kind) if not name.startswith("_") and callable(getattr(kind, name))]


BINARY: Final = (
    "add",
    "sub",
    "mul",
    "truediv",
    "floordiv",
    "mod",
    "pow",
    "and",
    "or",
    "xor",
    "lshift",
    "rshift",
    "lt",
    "le",
    "gt",
    "ge",
    "eq",
    "ne",
)


def entries() -> list[Entry]:
    """Every public entry: functions, methods, operators and directives."""
    found = [
        Entry(f"tl.{name}", lambda name=name: getattr(tl, name))  # type: ignore[misc]
        for name in tl.__all__
        if callable(getattr(tl, name)) and not isinstance(getattr(tl, name), type) and name != "get_threads"
    ]
    found += [Entry(f"tl.ops.{name}", lambda name=name: getattr(tl.ops, name)) for name in tl.ops.__all__]  # type: ignore[misc]
    found += [Entry("tl.Schedule", lambda: tl.Schedule), Entry("tl.Instruction", lambda: tl.Instruction)]
    found += [Entry("Log", lambda: Log), Entry("Database", lambda: Database), Entry("tune", lambda: tune)]
    found += [
        Entry(f"{room.__name__.removeprefix('tensorlang.')}.{name}", lambda room=room, name=name: getattr(room, name))  # type: ignore[misc]
        for room in (kernels, graph, graph.passes, graph.pattern)
        for name in room.__all__
        if inspect.isfunction(getattr(room, name)) and name != "register"  # which stays for good
    ]
    found += [Entry("kernels.Spec", lambda: kernels.Spec)]
    found += [Entry(f"Graph.{name}", lambda name=name: getattr(GRAPH, name)) for name in public(graph.Graph)]  # type: ignore[misc]
    found += [Entry(f"Builder.{name}", lambda name=name: getattr(builder()[0], name)) for name in public(graph.Builder)]  # type: ignore[misc]
    for label, base in (("Schedule", S), ("Schedule(n)", OTHER)):
        found += [Entry(f"{label}.{name}", lambda name=name, base=base: getattr(base.copy(), name)) for name in public(tl.Schedule)]  # type: ignore[misc]
    found += [Entry(f"Kernel.{name}", lambda name=name: getattr(kernel(), name)) for name in public(tl.Kernel)]  # type: ignore[misc]
    found += [Entry(f"Kernel {name}()", lambda name=name: called(kernel(name))) for name in "CD"]  # type: ignore[misc]
    found += [Entry(f"Expr {op}", lambda op=op: lambda x, y: binary(op, x, y)) for op in BINARY]  # type: ignore[misc]
    found += [Entry("Tensor[]", lambda: element)]
    found += [
        Entry(f"apply {name}", lambda kind=kind: lambda **fields: S.copy().apply(kind(**fields)))  # type: ignore[misc]
        for name, kind in STEPS.items()
    ]
    return found


def called(function: Callable[..., Any]) -> Callable[..., Any]:
    """A callable whose signature Python knows: of a call in machine code it does not."""

    def call(*inputs: Any, **keywords: Any) -> Any:
        return function(*inputs, **keywords)

    return call


def element(weight: Any, value: Any) -> Any:
    """`A[i, j]` with anything as an index."""
    return weight[value] if isinstance(weight, tl.Tensor) else None


def binary(op: str, x: Any, y: Any) -> Any:
    """An operator of an expression, and of a dim, with anything on its other side."""
    import operator

    named = getattr(operator, f"{op}_" if op in ("and", "or") else op)
    left = x if isinstance(x, (tl.Expr, tl.Dim)) else FOREIGN
    return named(left, y)


DIRECTIVES: Final = {f"apply {name}": kind for name, kind in STEPS.items()}
