"""What shares the loops of a reduction stays beside its partial results where that is right, and only there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorlang as tl
from tests.schedules.judged import judge
from tests.thinned import crossed


def beside(other: Callable[[Any], Any], m: Any = 3, n: Any = 4, reducer: str = "sum") -> tl.Schedule:
    """Y[i] over k of X[i, k], in the loops of another result over i and k."""
    x = tl.placeholder((m, n), "int32", name="X")
    r = tl.reduce_axis(n, name="k")
    y = tl.compute((m,), lambda i: getattr(tl, reducer)(x[i, r], axis=r), name="Y")
    s = tl.Schedule((y, other(x)))
    s.fuse_loops("Y.i", "Z.i")
    s.fuse_loops("Y.k", "Z.k")
    return s


def copied(x: Any) -> Any:
    return tl.compute(x.shape, lambda i, k: x[i, k] * 2, name="Z")


def down(distance: int) -> Callable[[Any], Any]:
    """Each element needs the one above, and so many to the right."""

    def made(x: Any) -> Any:
        return tl.recurrence(x.shape, lambda i, k, z: z[i - 1, k + distance] + x[i, k], name="Z")

    return made


def test_a_store_stays_beside_the_partial_results() -> None:
    s = beside(copied)
    s.rfactor("Z.k")
    expected = """\
Y(X: int32[3, 4]) -> Y: int32[3], Z: int32[3, 4]
    Y_rf: int32[4, 3]
    for i in range(3):
        Y[i] = 0                                             # Y.init
    for k in range(4):
        for i in range(3):
            Y_rf[k, i] = 0                                   # Y_rf.init
    for k in range(4):
        for i in range(3):
            Y_rf[k, i] += X[i, k]                            # Y_rf
            Z[i, k] = X[i, k] * 2                            # Z
    for i in range(3):
        for k in range(4):
            Y[i] += Y_rf[k, i]                               # Y"""
    assert str(s) == expected
    judge(s)


@crossed({"reducer": ["sum", "prod", "max", "argmin"], "other": [copied, down(0), down(-1)]})
def test_the_factored_loop_may_go_outermost_where_the_other_store_bears_it(other: Callable[[Any], Any], reducer: str) -> None:
    s = beside(other, reducer=reducer)
    s.rfactor("Z.k")
    judge(s)


@crossed({"n": [0, 1, 5, 8], "tail": ["guard", "mask", "peel"]})
def test_a_part_of_the_loop_may_be_factored_at_any_extent(n: int, tail: Any) -> None:
    for other in (copied, down(0)):
        for loop in ("Z.k_o", "Z.k_i"):
            s = beside(other, tl.dim("m"), tl.dim("n"))
            s.split("Z.k", 3, tail=tail)
            s.rfactor(loop)
            judge(s, {"m": 2, "n": n})


def test_iterations_of_the_other_store_that_would_change_places_are_named() -> None:
    s = beside(down(1))
    error = s.can("rfactor", "Z.k").error
    assert error is not None
    assert error.code == "TL-S103"
    assert "'Z' is computed in the same loops, and with 'k' outermost two iterations that touch Z[1, 3] would change places" in error.reason


def test_a_store_that_uses_the_reduction_is_separated_first() -> None:
    """Each element of a scatter starts in the iteration that combines into it."""
    v = tl.placeholder((5,), "int32", name="V")
    start = tl.compute((5,), lambda i: v[i] * 3, name="Z")
    p = tl.reduce_axis(5, name="p")
    s = tl.Schedule(tl.scatter(start, p, lambda p: p, lambda p: v[p], "add", name="H"))
    s.fuse_loops("H.start.i", "H.p")
    error = s.can("rfactor", "H.p").error
    assert error is not None
    assert error.code == "TL-S105"
    assert "'H.start' is computed in the same loops, where 'H' is used; separate them first (fission)" in error.reason


def test_threads_take_the_partial_results_and_what_is_beside_them() -> None:
    s = beside(copied)
    s.rfactor("Z.k")
    s.parallel("Y_rf.k")
    judge(s)
