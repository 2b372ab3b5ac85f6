"""`bench.programs.filters` as arrays: windows as sums of shifted slices, rows before columns, copies with a border."""

from __future__ import annotations

from typing import Any, Final

from bench.programs.filters import CUBIC, DISPARITIES, RADIUS
from bench.programs.whole.dialects import bordered


def averaged(xp: Any, x: Any) -> Any:
    """Sums of five rows, then of five columns."""
    h, w, _ = x.shape
    wide = bordered(xp, xp.astype(x, xp.int32), 2, 2, 0)
    rows = sum(wide[a : a + h] for a in range(5))
    return xp.astype(sum(rows[:, b : b + w] for b in range(5)) // 25, xp.uint8)


def sharpened(xp: Any, x: Any, g: Any) -> Any:
    """Nine shifted images."""
    h, w, _ = x.shape
    wide = bordered(xp, x, 1, 1, 0)
    return xp.clip(sum(g[a, b] * wide[a : a + h, b : b + w] for a in range(3) for b in range(3)), 0.0, 1.0)


def guided(xp: Any, guide: Any, image: Any) -> Any:
    """Means by rows, then by columns, of an image with a border."""
    h, w = guide.shape
    size = 2 * RADIUS + 1

    def mean(of: Any) -> Any:
        wide = bordered(xp, of, RADIUS, RADIUS)
        rows = sum(wide[a : a + h] for a in range(size))
        return sum(rows[:, b : b + w] for b in range(size)) / size**2

    light, grey = mean(guide), mean(image)
    steep = (mean(guide * image) - light * grey) / (mean(guide * guide) - light * light + 0.01)
    return mean(steep) * guide + mean(grey - steep * light)


def similarity(xp: Any, x: Any, y: Any, g: Any) -> Any:  # noqa: ARG001 - as every form
    """Moments by rows, then by columns."""
    h, w = x.shape[0] - 10, x.shape[1] - 10

    def moment(of: Any) -> Any:
        rows = sum(g[a] * of[a : a + h] for a in range(11))
        return sum(g[b] * rows[:, b : b + w] for b in range(11))

    u, v = moment(x), moment(y)
    apart = (u * u + v * v + 1e-4) * (moment(x * x) - u * u + moment(y * y) - v * v + 9e-4)
    return (2 * u * v + 1e-4) * (2 * (moment(x * y) - u * v) + 9e-4) / apart


def matched(xp: Any, left: Any, right: Any) -> Any:
    """All displacements at once, sums by rows and then by columns."""
    h, w = left.shape[0] - 4, left.shape[1] - 4 - DISPARITIES
    here = left[:, DISPARITIES:]
    apart = xp.stack([xp.abs(here - right[:, DISPARITIES - d : DISPARITIES - d + w + 4]) for d in range(DISPARITIES)])
    rows = sum(apart[:, a : a + h] for a in range(5))
    return xp.argmin(sum(rows[:, :, b : b + w] for b in range(5)), axis=0)


def decimated(xp: Any, x: Any, f: Any) -> Any:
    """A product of the signal in rows of four with the filter's, shifted by rows."""
    taps = f.shape[0]
    rows, n = xp.reshape(x, (-1, 4)), (x.shape[0] - taps) // 4
    return sum(rows[k : k + n] @ f[4 * k : 4 * k + 4] for k in range(taps // 4))


def enlarged(xp: Any, x: Any, f: Any) -> Any:  # noqa: ARG001 - the weights are known
    """Even and odd columns of even and odd rows, each a sum of shifted images."""
    h, w = x.shape
    wide = bordered(xp, x, 2, 2)

    def along(of: Any, count: int, parity: int) -> Any:
        return sum(weight * of[parity + a : parity + a + count] for a, weight in enumerate(CUBIC[parity]))

    rows = xp.reshape(xp.stack([along(wide, h, parity) for parity in (0, 1)], axis=1), (2 * h, w + 4))
    turned = xp.permute_dims(rows, (1, 0))
    columns = xp.reshape(xp.stack([along(turned, w, parity) for parity in (0, 1)], axis=1), (2 * w, 2 * h))
    return xp.permute_dims(columns, (1, 0))


FORMS: Final = (averaged, sharpened, guided, similarity, matched, decimated, enlarged)
