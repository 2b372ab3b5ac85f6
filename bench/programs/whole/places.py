"""`bench.programs.places` as arrays."""

from __future__ import annotations

from typing import Any, Final


def moments(xp: Any, x: Any) -> tuple[Any, Any, Any]:
    """Three sums of one image."""
    rows, columns = xp.arange(x.shape[0], dtype=x.dtype), xp.arange(x.shape[1], dtype=x.dtype)
    return xp.sum(x), xp.sum(x * rows[:, None]), xp.sum(x * columns[None, :])


def bicubic(xp: Any, x: Any) -> Any:
    """Rows first: four of them for each row of the result, then four columns."""
    for axis, size in ((0, 480), (1, 640)):
        place = xp.arange(size, dtype=x.dtype) * (x.shape[axis] / size)
        first = xp.floor(place) - 1
        mixed = None
        for tap in range(4):
            at = first + tap
            far = xp.abs(place - at)
            near, other = (1.5 * far - 2.5) * far * far + 1, ((-0.5 * far + 2.5) * far - 4) * far + 2
            weight = xp.where(far < 1, near, xp.where(far < 2, other, xp.zeros_like(far)))
            taken = xp.take(x, xp.astype(xp.clip(at, 0, x.shape[axis] - 1), xp.int32), axis=axis)
            part = taken * (weight[:, None] if axis == 0 else weight[None, :])
            mixed = part if mixed is None else mixed + part
        x = mixed
    return x


FORMS: Final = (moments, bicubic)
