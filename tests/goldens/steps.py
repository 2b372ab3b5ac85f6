"""For each directive of the catalogue a schedule of a small definition whose last step is that directive."""

from __future__ import annotations

from typing import Any, Final

import tensorlang as tl
from tensorlang.definition.tensor import Tensor
from tests.schedules.programs import matmul, scale
from tests.schedules.recurrences import triangular


def shifted() -> Any:
    """h = 2 X, and what adds the elements of h that stand two apart in a row."""
    x = tl.placeholder((6, 10), name="X")
    h = tl.compute((6, 10), lambda c, y: x[c, y] * 2, name="h")
    return tl.compute((6, 8), lambda c, y: h[c, y] + h[c, y + 2], name="v")


def columns() -> Any:
    """h = 2 X, and what adds the elements of h that stand two apart in a column."""
    x = tl.placeholder((10, 6), name="X")
    h = tl.compute((10, 6), lambda y, c: x[y, c] * 2, name="h")
    return tl.compute((8, 6), lambda y, c: h[y, c] + h[y + 2, c], name="v")


def epilogue() -> Any:
    """A product, and what reads it element by element."""
    c, bias = matmul(6, 9, 5), tl.placeholder((9,), name="bias")
    return tl.compute((6, 9), lambda i, j: tl.maximum(c[i, j] + bias[j], 0.0), name="R")


def wave() -> Any:
    """A recurrence along both axes."""
    x = tl.placeholder((6, 8), name="X")
    return tl.recurrence((6, 8), lambda t, j, self: x[t, j] + self[t, j - 1] + self[t - 1, j], name="Y")


def pair() -> tuple[Tensor, ...]:
    """Two results of one operand."""
    a = tl.placeholder((10,), name="A")
    return tl.compute((10,), lambda i: a[i] * 2, name="B"), tl.compute((10,), lambda i: a[i] + 1, name="C")


def row_sums() -> Any:
    """Sums of rows."""
    x, k = tl.placeholder((4, 30), name="X"), tl.reduce_axis(30, name="k")
    return tl.compute((4,), lambda i: tl.sum(x[i, k], axis=k), name="Y")


def bytes_product() -> Any:
    """A product of unsigned and signed bytes."""
    a, b, k = tl.placeholder((4, 64), "uint8", name="A"), tl.placeholder((16, 64), "int8", name="B"), tl.reduce_axis(64, name="k")
    return tl.compute((4, 16), lambda i, j: tl.sum(tl.cast(a[i, k], "int32") * tl.cast(b[j, k], "int32"), axis=k), name="C")


def rolled() -> Tensor:
    """Rows read round, each by as many elements as a table says."""
    x, at = tl.placeholder((8,), name="X"), tl.placeholder((3,), "int64", name="at")
    result: Tensor = tl.compute((3, 8), lambda d, j: x[(j + at[d]) % 8], name="Y")
    return result


def rooted() -> Tensor:
    """Columns by the root of a variance."""
    x, v = tl.placeholder((6, 8), name="X"), tl.placeholder((8,), name="V")
    result: Tensor = tl.compute((6, 8), lambda i, j: x[i, j] / tl.sqrt(v[j] + 1e-5), name="Y")
    return result


def grouped() -> Tensor:
    """Sums of what belongs to each of four groups."""
    x, group, k = tl.placeholder((20,), name="X"), tl.placeholder((20,), "int64", name="P"), tl.reduce_axis(20, name="k")
    result: Tensor = tl.compute((4,), lambda q: tl.sum(x[k], axis=k, where=group[k] == q), name="G")
    return result


def sharpened() -> Tensor:
    """Windows of an image that is repeated at its edge."""
    x, w = tl.placeholder((8, 12), name="X"), tl.placeholder((3, 3), name="W")
    a, b = tl.reduce_axis(3, name="a"), tl.reduce_axis(3, name="b")

    def value(i: Any, j: Any) -> Any:
        return tl.sum(w[a, b] * x[tl.clamp(i + a - 1, 0, 7), tl.clamp(j + b - 1, 0, 11)], axis=(a, b))

    result: Tensor = tl.compute((8, 12), value, name="Y")
    return result


def alike() -> Tensor:
    """The same sums of rows twice."""
    x, k, q = tl.placeholder((4, 8), name="X"), tl.reduce_axis(8, name="k"), tl.reduce_axis(8, name="q")
    one, two = (tl.compute((4,), lambda i, r=r: tl.sum(x[i, r], axis=r), name=name) for r, name in ((k, "S"), (q, "T")))
    result: Tensor = tl.compute((4,), lambda i: one[i] * (1 - two[i]), name="Y")
    return result


def weighted() -> Tensor:
    """Windows of an image, weighted by row and column."""
    x, w, a, b = tl.placeholder((8, 12), name="X"), tl.placeholder((3,), name="W"), tl.reduce_axis(3, name="a"), tl.reduce_axis(3, name="b")
    result: Tensor = tl.compute((6, 10), lambda i, j: tl.sum(w[a] * w[b] * x[i + a, j + b], axis=(a, b)), name="Y")
    return result


def banded() -> Tensor:
    """Sums along a band of a matrix of products."""
    x, y, k = tl.placeholder((16,), name="X"), tl.placeholder((24,), name="Y"), tl.reduce_axis(24, name="k")
    t = tl.compute((16, 24), lambda i, j: x[i] * y[j], name="T")
    result: Tensor = tl.compute((16,), lambda i: tl.sum(t[i, k], axis=k, where=(k <= i + 3) & (k >= i)), name="B")
    return result


def grey_steps() -> Any:
    """Differences of bytes, said in 32 bits."""
    image = tl.placeholder((4, 9), "uint8", name="I")
    g = tl.compute((4, 9), lambda i, j: tl.cast(image[i, j], "int32") * 77 >> 8, name="g")
    return tl.compute((4, 8), lambda i, j: tl.cast(tl.abs(g[i, j + 1] - g[i, j]), "uint8"), name="E")


def any_length() -> Any:
    """An extent that is known at run time."""
    n = tl.dim("n")
    d = tl.placeholder((n,), name="D")
    return tl.compute((n,), lambda i: d[i] + 1, name="E")


def sum_and_squares() -> tuple[tl.Tensor, tl.Tensor]:
    """S = the sums of the rows of A; Q = those of their squares."""
    a, r, t = tl.placeholder((4, 9), name="A"), tl.reduce_axis(9, name="r"), tl.reduce_axis(9, name="t")
    sums = tl.compute((4,), lambda i: tl.sum(a[i, r], axis=r), name="S")
    return sums, tl.compute((4,), lambda i: tl.sum(a[i, t] * a[i, t], axis=t), name="Q")


_BLOCKED: Final = (("split", "j", 4), ("split", "k", 2), ("reorder", "j_o", "k_o", "i", "k_i", "j_i"))
_TILED: Final = (("split", "C.i", 3), ("split", "C.j", 4), ("reorder", "i_o", "j_o", "C.k", "i_i", "j_i"), ("accumulate", "C", "j_o"))
_PLACED: Final = ("compute_at", "h", "v.y")

SCHEDULES: Final[dict[str, tuple[Any, tuple[tuple[Any, ...], ...]]]] = {
    "split": (scale(5, 13), (("split", "j", 8, "peel"),)),
    "fuse": (scale(5, 13), (("fuse", "i", "j"),)),
    "reorder": (matmul(4, 6, 8), (("reorder", "k", "i"),)),
    "unroll": (matmul(4, 6, 3), (("unroll", "k"),)),
    "vectorize": (scale(5, 13), (("split", "j", 8, "mask"), ("vectorize", "j_i"))),
    "parallel": (scale(5, 13), (("parallel", "i"),)),
    "compute_at": (columns(), (_PLACED,)),
    "compute_inline": (columns(), (("compute_inline", "h"),)),
    "cache_read": (shifted(), (("compute_inline", "h"), ("split", "y", 4), ("cache_read", "X", "y_o"))),
    "pack": (matmul(6, 9, 5), (*_BLOCKED, ("pack", "B", "k_o"))),
    "accumulate": (matmul(6, 9, 5), (*_BLOCKED, ("accumulate", "C", "i"))),
    "compute_root": (columns(), (_PLACED, ("compute_root", "h"))),
    "store_at": (columns(), (("split", "v.y", 4), ("compute_at", "h", "y_i"), ("store_at", "h", "y_o"))),
    "store_root": (columns(), (_PLACED, ("store_root", "h"))),
    "fold_storage": (columns(), (_PLACED, ("store_root", "h"), ("fold_storage", "h", 0, 3))),
    "reverse_compute_at": (epilogue(), (("reverse_compute_at", "R", "C.i"),)),
    "reverse_compute_inline": (epilogue(), (*_TILED, ("reverse_compute_inline", "R"))),
    "cache_write": (scale(5, 9), (("split", "j", 4), ("reorder", "j_o", "i", "j_i"), ("cache_write", "Y", "j_o"))),
    "set_memory": (shifted(), (("set_memory", "h", "heap"),)),
    "transform_layout": (shifted(), (("transform_layout", "h", lambda c, y: (y // 4, c, y % 4)),)),
    "pad_to": (shifted(), (("pad_to", "h", 1, 16),)),
    "align": (shifted(), (("align", "h", 64),)),
    "prefetch": (shifted(), (("prefetch", "X", "h.c", 2),)),
    "stream_stores": (scale(5, 16), (("stream_stores", "Y"),)),
    "tensorize": (
        bytes_product(),
        (("split", "k", 4), ("reorder", "i", "k_o", "j", "k_i"), ("pack", "B", "k_o"), ("tensorize", "C.j", "dpbusd")),
    ),
    "peel": (scale(5, 13), (("peel", "j", 1, 2),)),
    "partition": (triangular(24), (("split", "Y.i", 8), ("partition", "Y.k", "Y.i_i"))),
    "skew": (wave(), (("skew", "j", "t"),)),
    "shift": (scale(5, 13), (("shift", "j", 3),)),
    "fission": (pair(), (("fuse_loops", "B.i", "C.i"), ("fission", "C.i"))),
    "fuse_loops": (pair(), (("fuse_loops", "B.i", "C.i"),)),
    "specialize": (any_length(), (("split", "i", 8), ("specialize", "n % 8 == 0"))),
    "rfactor": (row_sums(), (("split", "k", 8), ("rfactor", "k_o"))),
    "decompose_reduction": (matmul(4, 6, 8), (("reorder", "C.i", "C.k", "C.j"), ("decompose_reduction", "k"))),
    "join_reductions": (sum_and_squares(), (("join_reductions", "S", "Q"),)),
    "narrow": (grey_steps(), (("narrow", "g"), ("narrow", "E"))),
    "hoist": (rooted(), (("hoist", "Y", "i"),)),
    "scatter": (grouped(), (("scatter", "G", "q"),)),
    "separate": (weighted(), (("separate", "Y", "b"),)),
    "share": (sharpened(), (("share", "Y"),)),
    "reuse": (alike(), (("reuse", "T", "S"),)),
    "trim": (banded(), (("tile", "T.i", "T.j", 4, 8), ("trim", "T.j_o"))),
    "by_cases": (rolled(), (("by_cases", "Y", "d"),)),
}
