"""What JAX, torch and NumPy say in words of their own: loops, a block that is replaced, sums by index, borders, two solvers.

All else of a form is of the array-API standard. JAX has loops that a compiled function holds as loops. Torch has Python's alone: it
compiles what stands in them once and calls that for each step, or it writes all steps out. Where there are many that is no form.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, Final

LONGEST: Final = 64
"""Steps of a loop that torch may have: more are calls above all, or minutes of compilation."""


class NoFormError(Exception):
    """Nobody would write it like this for that library, and why."""


def is_jax(xp: Any) -> bool:
    """Is the namespace JAX's?"""
    return bool(xp.__name__.startswith("jax"))


def is_torch(xp: Any) -> bool:
    """Is the namespace torch's, by way of `array_api_compat`?"""
    return bool(xp.__name__.endswith("torch"))


def stepped(xp: Any, count: int, step: Callable[[Any, Any], Any], state: Any) -> Any:
    """The state after `count` times `state = step(time, state)`. Raises `NoFormError`."""
    if is_jax(xp):
        import jax  # noqa: PLC0415 - an optional peer

        return jax.lax.fori_loop(0, count, step, state)
    for time in range(_few(xp, count)):
        _begin_graph(xp)
        state = step(time, state)
    return state


def scanned(xp: Any, step: Callable[..., tuple[Any, Any]], state: Any, *rows: Any) -> tuple[Any, Any]:
    """`state, made = step(state, *row)` along the first axis: the last state, and all that was made. Raises `NoFormError`.

    A step that makes nothing gives None for it.
    """
    if is_jax(xp):
        import jax  # noqa: PLC0415 - an optional peer

        found: tuple[Any, Any] = jax.lax.scan(lambda state, row: step(state, *row), state, rows)
        return found
    every = []
    for time in range(_few(xp, rows[0].shape[0])):
        state, made = step(state, *(row[time] for row in rows))
        every.append(made)
    if every[0] is None:
        return state, None
    if isinstance(every[0], tuple):
        return state, tuple(map(xp.stack, zip(*every, strict=True)))
    return state, xp.stack(every)


def geometric(xp: Any, factor: float, x: Any) -> Any:
    """`y[j] = factor * y[j - 1] + x[j]` along a vector. Raises `NoFormError`."""
    if is_jax(xp):
        import jax  # noqa: PLC0415 - an optional peer

        def after(first: Any, second: Any) -> Any:
            return first[0] * second[0], second[0] * first[1] + second[1]

        return jax.lax.associative_scan(after, (xp.full_like(x, factor), x))[1]
    _few(xp, x.shape[0])
    return xp.stack(list(itertools.accumulate(x, lambda total, element: factor * total + element)))


def _few(xp: Any, count: int) -> int:
    if is_torch(xp) and count > LONGEST:
        raise NoFormError(f"a loop of more than {LONGEST} steps")
    return count


def _begin_graph(xp: Any) -> None:
    """Have torch compile a step on its own: in a graph of many Inductor computes early steps anew in later ones, at length."""
    if is_torch(xp):
        import torch  # noqa: PLC0415 - an optional peer

        torch._dynamo.graph_break()  # noqa: SLF001 - has no other name


def replaced(xp: Any, x: Any, block: Any, *starts: Any) -> Any:
    """An array with a block of its elements replaced, which begins at `starts`."""
    if is_jax(xp):
        import jax  # noqa: PLC0415 - an optional peer

        return jax.lax.dynamic_update_slice(x, block, starts)
    made = xp.asarray(x, copy=True)
    made[tuple(slice(start, start + extent) for start, extent in zip(starts, block.shape, strict=True))] = block
    return made


def within(xp: Any, x: Any, inner: Any) -> Any:
    """An array with all but its border replaced; a choice is fused by XLA with what computes `inner`, a block that is put in is not."""
    if not is_jax(xp):
        return replaced(xp, x, inner, *(1 for _ in x.shape))
    kept = xp.ones((), dtype=bool)
    for axis, extent in enumerate(x.shape):
        place = xp.reshape(xp.arange(extent), [-1 if other == axis else 1 for other in range(x.ndim)])
        kept = kept & (place > 0) & (place < extent - 1)
    return xp.where(kept, xp.pad(inner, 1), x)


def convolved(xp: Any, x: Any, w: Any) -> Any:
    """An image, channels first, by windows around each pixel; zeros beyond the edge. Raises `NoFormError`."""
    if is_jax(xp):
        import jax  # noqa: PLC0415 - an optional peer

        return jax.lax.conv(x[None], w, (1, 1), "SAME")[0]
    if is_torch(xp):
        from torch.nn import functional  # noqa: PLC0415 - an optional peer

        return functional.conv2d(x[None], w, padding="same")[0]
    raise NoFormError("NumPy has no convolution")


def convolved_back(xp: Any, x: Any, w: Any) -> Any:
    """An image, channels last, whose pixels are spread over windows of 4 x 4 that are two apart. Raises `NoFormError`."""
    if is_jax(xp):
        import jax  # noqa: PLC0415 - an optional peer

        return jax.lax.conv_transpose(x[None], w[::-1, ::-1], (2, 2), "SAME")[0]
    if is_torch(xp):
        from torch.nn import functional  # noqa: PLC0415 - an optional peer

        turned = xp.permute_dims(x, (2, 0, 1))[None], xp.permute_dims(w, (2, 3, 0, 1))
        return xp.permute_dims(functional.conv_transpose2d(*turned, stride=2, padding=1)[0], (1, 2, 0))
    raise NoFormError("NumPy has no convolution")


def summed(xp: Any, count: int, at: Any, values: Any) -> Any:
    """Sums of the rows of `values` by the place of each, of `count` places."""
    zeros = xp.zeros((count, *values.shape[1:]), dtype=values.dtype)
    if is_jax(xp):
        return zeros.at[at].add(values)
    if is_torch(xp):
        return zeros.index_add(0, at, values)
    xp.add.at(zeros, at, values)
    return zeros


def extreme(xp: Any, which: str, start: Any, at: Any, values: Any) -> Any:
    """The least (`min`) or the greatest (`max`) of a vector's elements and of the values that name each as their place."""
    if is_jax(xp):
        return getattr(start.at[at], which)(values)
    if is_torch(xp):
        return start.scatter_reduce(0, xp.astype(at, xp.int64), values, f"a{which}")
    made = start.copy()
    getattr(xp, f"{which}imum").at(made, at, values)
    return made


def placed(xp: Any, start: Any, at: Any, values: Any) -> Any:
    """A vector with each value in the place that it names; which of several is there is left open."""
    if is_jax(xp):
        return start.at[at].set(values)
    if is_torch(xp):
        return start.scatter(0, xp.astype(at, xp.int64), values)
    made = start.copy()
    made[at] = values
    return made


def summed_rows(xp: Any, pointer: Any, values: Any) -> Any:
    """Sums of `values` between where one row of a sparse matrix begins and where the next one does."""
    if is_torch(xp):
        import torch  # noqa: PLC0415 - an optional peer

        return torch.segment_reduce(values, "sum", offsets=pointer)
    if is_jax(xp):
        count = pointer.shape[0] - 1
        row = xp.repeat(xp.arange(count), pointer[1:] - pointer[:-1], total_repeat_length=values.shape[0])
        return xp.zeros((count, *values.shape[1:]), dtype=values.dtype).at[row].add(values, indices_are_sorted=True)
    return xp.add.reduceat(values, pointer[:-1], axis=0)


def bordered(xp: Any, x: Any, *widths: int) -> Any:
    """An image with its edge repeated, so often along each axis."""
    if is_jax(xp):
        return xp.pad(x, [(width, width) for width in widths], mode="edge")
    for axis, width in enumerate(widths):
        if width:
            first, last = (x[(slice(None),) * axis + (part,)] for part in (slice(None, 1), slice(-1, None)))
            x = xp.concat([*[first] * width, x, *[last] * width], axis=axis)
    return x


def solved(xp: Any, lower: Any, right: Any) -> Any:
    """The solution of a lower triangular system; what stands above the diagonal does not count."""
    if is_jax(xp):
        from jax.scipy import linalg  # noqa: PLC0415 - an optional peer

        return linalg.solve_triangular(lower, right, lower=True)
    if is_torch(xp):
        return xp.linalg.solve_triangular(lower, right, upper=False)
    return xp.linalg.solve(xp.tril(lower), right)


def factored(xp: Any, a: Any) -> Any:
    """Both triangular factors in one matrix, by LAPACK. Raises `NoFormError`."""
    if is_jax(xp):
        from jax.scipy import linalg  # noqa: PLC0415 - an optional peer

        return linalg.lu_factor(a)[0]
    if is_torch(xp):
        return xp.linalg.lu_factor(a)[0]
    raise NoFormError("NumPy has no factors")
