"""Names of other libraries, and what is written here instead: nobody knows a language by its names on the first day.

Loaded where a name is refused, and only then. Each text is the end of a sentence, `module 'tensorlang' has no attribute 'full'; ...`.
"""

from __future__ import annotations

from typing import Final

from tensorlang.definition.hints import RANKED, READ
from tensorlang.ir.dtype import DTYPES

RENAMED: Final = {
    "Func": "compute", "RDom": "reduce_axis", "absolute": "abs", "amax": "max", "amin": "min", "arccos": "acos", "arcsin": "asin",
    "arctan": "atan", "arctan2": "atan2", "array": "buffer", "asarray": "buffer", "astype": "cast", "bincount": "scatter",
    "clip": "clamp", "cummax": "recurrence", "cummin": "recurrence", "cumprod": "recurrence", "cumsum": "recurrence", "dot": "einsum",
    "histogram": "scatter", "if_then_else": "select", "iif": "select", "inner": "einsum", "input": "placeholder", "jit": "build",
    "outer": "einsum", "power": "pow", "reduce_max": "max", "reduce_mean": "mean", "reduce_min": "min", "reduce_prod": "prod",
    "reduce_sum": "sum", "rint": "round", "tensor": "placeholder", "tensordot": "einsum", "where": "select",
}  # fmt: skip
"""What NumPy, torch, Halide and TVM call what has another name here."""

OPERATORS: Final = {
    "add": "+", "bitwise_and": "&", "bitwise_not": "~", "bitwise_or": "|", "bitwise_xor": "^", "div": "/", "divide": "/", "equal": "==",
    "floor_divide": "//", "floordiv": "//", "greater": ">", "greater_equal": ">=", "invert": "~", "left_shift": "<<", "less": "<",
    "less_equal": "<=", "logical_and": "&", "logical_not": "~", "logical_or": "|", "logical_xor": "^", "mod": "%", "mul": "*",
    "multiply": "*", "neg": "-", "negative": "-", "not_equal": "!=", "remainder": "%", "right_shift": ">>", "shift_left": "<<",
    "shift_right": ">>", "sub": "-", "subtract": "-", "true_divide": "/",
}  # fmt: skip
"""Functions that are operators of Python here."""

OPS: Final = (
    "attention", "avg_pool2d", "batch_matmul", "batch_norm", "conv1d", "conv2d", "dense", "depthwise_conv2d", "embedding", "gelu",
    "group_norm", "layer_norm", "leaky_relu", "linear", "log_softmax", "matmul", "max_pool2d", "relu", "resize2d", "rms_norm", "silu",
    "softmax",
)  # fmt: skip
"""Operators on whole tensors, which are in `tl.ops`."""

_FILLED: Final = 'write tl.compute(shape, lambda *i: tl.cast({}, "float32"))'
_JOINED: Final = "elements are chosen where they are read: tl.compute((n + m,), lambda i: tl.select(i < n, A[i], B[i - n]))"
_COUNTED: Final = (
    "of a uint32 v write p = v - ((v >> 1) & 0x55555555), q = (p & 0x33333333) + ((p >> 2) & 0x33333333) and "
    "(((q + (q >> 4)) & 0x0F0F0F0F) * 0x01010101) >> 24, which is one instruction where a processor has it"
)
_REREAD: Final = (
    'there is none: bits are not read as another type. An array is, before a call: x.view("uint32") for a placeholder of "uint32"'
)
_LOOP: Final = (
    "elements are what the axes of tl.compute go over, terms those of tl.reduce_axis; steps in order are those of tl.recurrence and tl.scan"
)
_SPREAD: Final = (
    "with m = tl.compute((), lambda: tl.mean(x[k], axis=k)) the variance is tl.mean((x[k] - m[()]) ** 2, axis=k), "
    "and its root the deviation"
)
_MIDDLE: Final = (
    "of a few values, exchange neighbours by tl.minimum and tl.maximum until they are in order, in a loop of Python; of many, count what "
    'comes before each: tl.sum(tl.cast(x[k] < x[i], "int32"), axis=k)'
)
STEPS: Final = "give the most steps that there may be, and keep what has ended as it is: tl.select(ended, x[i], ...) of a state x"
"""How a scan ends early."""

ABSENT: Final = {
    **dict.fromkeys(("Var", "axis"), "the parameters of the function that tl.compute takes are the axes"),
    **dict.fromkeys(("arange", "iota"), "an index is a value: tl.compute((n,), lambda i: i)"),
    **dict.fromkeys(("argsort", "sort"), RANKED),
    **dict.fromkeys(("bit_count", "bitwise_count", "popc", "popcount"), _COUNTED),
    **dict.fromkeys(("bitcast", "reinterpret"), _REREAD),
    **dict.fromkeys(("concat", "concatenate", "cat", "hstack", "vstack"), _JOINED),
    **dict.fromkeys(
        ("const", "constant"), 'a number of Python is a literal, tl.cast(1, "int32") one of a type, and tl.buffer(array) a fixed operand'
    ),
    **dict.fromkeys(("empty", "zeros", "zeros_like"), _FILLED.format(0)),
    **dict.fromkeys(("fori_loop", "for_range", "loop", "range"), _LOOP),
    **dict.fromkeys(("full", "full_like"), _FILLED.format("value")),
    **dict.fromkeys(("gather", "take"), "elements are read where an index says: A[tl.clamp(I[i], 0, n - 1)]"),
    **dict.fromkeys(("ones", "ones_like"), _FILLED.format(1)),
    **dict.fromkeys(("broadcast_to", "expand_dims", "flip", "permute", "repeat", "reshape", "roll", "squeeze", "tile", "transpose"), READ),
    **dict.fromkeys(("while_", "while_loop"), f"tl.scan has a fixed number of steps; {STEPS}"),
    **dict.fromkeys(("std", "variance"), _SPREAD),
    **dict.fromkeys(("median", "percentile", "quantile"), _MIDDLE),
    "eye": 'write tl.compute((n, n), lambda i, j: tl.cast(i == j, "float32"))',
    **dict.fromkeys(
        ("digamma", "gamma", "gammaln", "lgamma"),
        "there is none; of integers below some n its values are a table, tl.buffer(array); of floats write a series, "
        "as Stirling's of x + 8 less the logarithm of x * (x + 1) * ... * (x + 7)",
    ),
    "hypot": "write tl.sqrt(x * x + y * y)",
    "inf": 'write float("inf")',
    "nan": 'write float("nan")',
    "one_hot": 'write tl.compute((n, m), lambda i, j: tl.cast(I[i] == j, "float32"))',
    "pi": "write math.pi",
    "reciprocal": "write 1 / x",
    "square": "write x * x",
    "stack": "elements are chosen where they are read: tl.compute((2, n), lambda k, i: tl.select(k == 0, A[i], B[i]))",
    "topk": "there is none; the largest is tl.argmax(x[k], axis=k), and k of them are those before which fewer than k elements come: "
    'tl.sum(tl.cast(x[k] > x[i], "int32"), axis=k)',
    "var": f"{_SPREAD}; an extent that a call tells is a tl.dim",
    "unique": "there is none, as data would tell how many there are; for values below n, tl.scatter counts how often each of them occurs",
}
"""Functions that there are none of here, and the way that works."""


def instead(name: str) -> str:
    """What is written for a name of another library, as the end of a message; nothing for a name that nobody has."""
    if name in RENAMED:
        return f"; use tl.{RENAMED[name]}"
    if name in DTYPES:
        return f'; a type is written by its name, "{name}"'
    if name in OPS:
        return f"; use tl.ops.{name}"
    if name in OPERATORS:
        return f"; write the operator {OPERATORS[name]}"
    return f"; {ABSENT[name]}" if name in ABSENT else ""
