"""`bench.programs.solvers` as arrays: scans along rows and columns, outer products, fields beside shifted fields."""

from __future__ import annotations

from typing import Any, Final

from bench.programs.solvers import COURANT
from bench.programs.whole.dialects import scanned, stepped, summed_rows


def _walled(xp: Any, x: Any, axis: int) -> tuple[Any, Any]:
    """What stands before and after each element along an axis; zero beyond the walls."""
    none = xp.zeros_like(x[:1] if axis == 0 else x[:, :1])
    if axis == 0:
        return xp.concat([none, x[:-1]], axis=0), xp.concat([x[1:], none], axis=0)
    return xp.concat([none, x[:, :-1]], axis=1), xp.concat([x[:, 1:], none], axis=1)


def alternating_directions(xp: Any, x: Any) -> Any:
    """The same matrix in every system: its pivots once, and then a line after the other, all lines at once."""
    r = COURANT

    def forward(p: Any, _: Any) -> tuple[Any, Any]:
        now = r / (1 + 2 * r - r * p)
        return now, now

    def solved(known: Any, pivots: Any) -> Any:
        """Along the first axis."""

        def down(q: Any, row: Any, p: Any) -> tuple[Any, Any]:
            now = (row + r * q) * (p / r)
            return now, now

        def up(y: Any, q: Any, p: Any) -> tuple[Any, Any]:
            now = q + p * y
            return now, now

        _, q = scanned(xp, down, xp.zeros_like(known[0]), known, pivots)
        return xp.flip(scanned(xp, up, xp.zeros_like(known[0]), xp.flip(q, axis=0), xp.flip(pivots, axis=0))[1], axis=0)

    def known(x: Any, axis: int) -> Any:
        before, after = _walled(xp, x, axis)
        return r * before + (1 - 2 * r) * x + r * after

    _, pivots = scanned(xp, forward, xp.zeros((), dtype=x.dtype), x[:, 0])

    def step(_: Any, x: Any) -> Any:
        half = solved(known(x, 0).T, pivots).T
        return solved(known(half, 1), pivots)

    return stepped(xp, 10, step, x)


def gauss_jordan(xp: Any, a: Any) -> Any:
    """By LAPACK."""
    return xp.linalg.inv(a)


def gram_schmidt(xp: Any, a: Any) -> Any:
    """By LAPACK, the signs turned to those of positive lengths."""
    q, r = xp.linalg.qr(a)
    return q * xp.sign(xp.linalg.diagonal(r))


def conjugate_gradients(xp: Any, given: Any) -> Any:
    """Fields, and sums of all of their elements."""

    def step(_: Any, state: Any) -> Any:
        x, rest, way, square = state
        (up, down), (left, right) = _walled(xp, way, 0), _walled(xp, way, 1)
        bent = 4 * way - up - down - left - right
        far = square / xp.sum(way * bent)
        rest = rest - far * bent
        smaller = xp.sum(rest * rest)
        return x + far * way, rest, rest + smaller / square * way, smaller

    return stepped(xp, 10, step, (xp.zeros_like(given), given, given, xp.sum(given * given)))[0]


def page_rank(xp: Any, pointer: Any, source: Any, degree: Any) -> Any:
    """A gather, and its sums by row."""

    def step(_: Any, rank: Any) -> Any:
        return 0.15 + 0.85 * summed_rows(xp, pointer, (rank / degree)[source])

    return stepped(xp, 20, step, xp.ones_like(degree))


def two_grids(xp: Any, given: Any) -> Any:
    """Whole fields in every sweep, of which every other element counts."""
    n = given.shape[0]

    def around(x: Any) -> Any:
        return sum(part for axis in (0, 1) for part in _walled(xp, x, axis))

    def swept(x: Any, right: Any, times: int) -> Any:
        place = xp.arange(x.shape[0])
        colours = (place[:, None] + place[None, :]) % 2
        return stepped(xp, 2 * times, lambda t, x: xp.where(colours == t % 2, 0.25 * (right + around(x)), x), x)

    near = swept(xp.zeros_like(given), given, 2)
    rest = given + around(near) - 4 * near
    coarse = xp.sum(xp.reshape(rest, (n // 2, 2, n // 2, 2)), axis=(1, 3))
    error = swept(xp.zeros_like(coarse), coarse, 4)
    spread = xp.reshape(xp.broadcast_to(error[:, None, :, None], (n // 2, 2, n // 2, 2)), (n, n))
    return swept(near + spread, given, 1)


FORMS: Final = (
    alternating_directions,
    gauss_jordan,
    gram_schmidt,
    conjugate_gradients,
    page_rank,
    two_grids,
)
