"""`bench.programs.fields` as arrays: inner parts anew in each step, rolls on a torus, a way of the lattice at a time."""

from __future__ import annotations

from typing import Any, Final

from bench.programs.fields import WAYS, WEIGHTS
from bench.programs.whole.dialects import bordered, replaced, scanned, stepped, within


def jacobi_line(xp: Any, a: Any) -> Any:
    """The inner part of each step anew."""
    return stepped(xp, 100, lambda _, x: within(xp, x, 0.33333 * (x[:-2] + x[1:-1] + x[2:])), a)


def waves(xp: Any, now: Any, before: Any) -> Any:
    """The inner part of each step anew, zeros around it."""
    none = xp.zeros_like(now)

    def step(_: Any, state: Any) -> Any:
        now, before = state
        inner = now[1:-1, 1:-1]
        bent = now[:-2, 1:-1] + now[2:, 1:-1] + now[1:-1, :-2] + now[1:-1, 2:] - 4 * inner
        return within(xp, none, 2 * inner - before[1:-1, 1:-1] + 0.2 * bent), now

    return stepped(xp, 20, step, (now, before))[0]


def shallow_water(xp: Any, h: Any, u: Any, v: Any) -> Any:
    """Rolls along both axes."""
    g, c = 9.8, 0.01

    def step(_: Any, state: Any) -> Any:
        h, u, v = state
        after, below = xp.roll(h, -1, axis=1), xp.roll(h, -1, axis=0)
        u, v = u - c * g * (after - h), v - c * g * (below - h)
        across, along = u * xp.where(u > 0, h, after), v * xp.where(v > 0, h, below)
        return h - c * (across - xp.roll(across, 1, axis=1) + along - xp.roll(along, 1, axis=0)), u, v

    return stepped(xp, 20, step, (h, u, v))


def lattice_gas(xp: Any, start: Any) -> Any:
    """A field for each way."""

    def step(_: Any, f: Any) -> Any:
        moved = [xp.roll(f[d], way, axis=(0, 1)) for d, way in enumerate(WAYS)]
        density = sum(moved)
        v = sum(way[0] * part for way, part in zip(WAYS, moved, strict=True) if way[0]) / density
        u = sum(way[1] * part for way, part in zip(WAYS, moved, strict=True) if way[1]) / density
        square = 1.5 * (u * u + v * v)

        def turned(way: tuple[int, int], weight: float, part: Any) -> Any:
            along = 3 * (way[0] * v + way[1] * u)
            return part + 0.8 * (weight * density * (1 + along + 0.5 * along * along - square) - part)

        return xp.stack([turned(*each) for each in zip(WAYS, WEIGHTS, moved, strict=True)])

    return stepped(xp, 20, step, start)


def cloth(xp: Any, at: Any, speed: Any) -> Any:
    """A neighbour at a time, those beyond the edge at no distance."""
    n = at.shape[0]

    def step(_: Any, state: Any) -> Any:
        at, speed = state
        wide = bordered(xp, at, 1, 1, 0)
        weight = xp.asarray([0.0, 0.0, 9.8], dtype=at.dtype)
        force = -weight + xp.zeros_like(at)
        for down, right in ((0, 1), (2, 1), (1, 0), (1, 2)):
            apart = wide[down : down + n, right : right + n] - at
            square = xp.sum(apart * apart, axis=2, keepdims=True)
            force = force + 40 * xp.where(square > 0, 1 - 1 / xp.sqrt(xp.where(square > 0, square, 1.0)), 0.0) * apart
        speed = replaced(xp, 0.99 * (speed + 0.005 * force), xp.zeros_like(at[:1]), 0, 0, 0)
        return at + 0.005 * speed, speed

    return stepped(xp, 50, step, (at, speed))[0]


def both_ways(xp: Any, x: Any) -> Any:
    """A row after the other, of the image and of its transposed."""
    a = 0.3

    def down(x: Any) -> Any:
        def step(last: Any, row: Any) -> tuple[Any, Any]:
            now = row + (1 - a) * last
            return now, now

        none = xp.zeros_like(x[0])
        _, below = scanned(xp, step, none, a * x)
        before = xp.concat([x[-1:], xp.flip(x[1:], axis=0)], axis=0)
        _, above = scanned(xp, step, none, a * (1 - a) * before)
        return below + xp.flip(above, axis=0)

    return down(down(x.T).T)


FORMS: Final = (
    jacobi_line,
    waves,
    shallow_water,
    lattice_gas,
    cloth,
    both_ways,
)
