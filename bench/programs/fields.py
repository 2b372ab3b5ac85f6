"""Fields in time: waves, shallow water, gas on a lattice, cloth, heat along a line."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

import tensorlang as tl
from bench.programs.program import Made, floats, named, operand, real
from bench.programs.recurrences import inside

WAYS: Final = ((0, 0), (1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (-1, -1), (1, -1), (-1, 1))
"""Where gas goes from a cell of a square lattice (D2Q9): down, right."""
WEIGHTS: Final = tuple((4 / 9, 1 / 9, 1 / 36)[abs(down) + abs(right)] for down, right in WAYS)
DOWN: Final = np.array([down for down, _ in WAYS])
RIGHT: Final = np.array([right for _, right in WAYS])
WEIGHT: Final = np.array(WEIGHTS, np.float32)


def jacobi_line() -> Made:
    """PolyBench's jacobi-1d: a hundred steps of means of three."""
    n = 4000

    def step(_: Any, x: Any) -> Any:
        return tl.compute((n,), lambda i: tl.select(inside(n, i), 0.33333 * (x[i - 1] + x[i] + x[i + 1]), x[i]), name="next")

    return tl.scan(step, operand("A", n), 100, keep="last", name="jacobi"), (floats(n),)


def _jacobi_line(a: Any, out: Any) -> None:
    x, y, n, third = a.copy(), a.copy(), a.shape[0], np.float32(0.33333)
    for _ in range(100):
        for i in range(1, n - 1):
            y[i] = third * (x[i - 1] + x[i] + x[i + 1])
        x, y = y, x
    out[:] = x


def waves() -> Made:
    """The wave equation between fixed ends, twenty steps."""
    n = 400

    def step(_: Any, state: Any) -> Any:
        now, before = state

        def element(i: Any, j: Any) -> Any:
            bent = now[i - 1, j] + now[i + 1, j] + now[i, j - 1] + now[i, j + 1] - 4 * now[i, j]
            return tl.select(inside(n, i, j), 2 * now[i, j] - before[i, j] + 0.2 * bent, 0.0)

        return tl.compute((n, n), element, name="next"), now

    return tl.scan(step, (operand("now", n, n), operand("before", n, n)), 20, keep="last", name="waves")[0], (floats(n, n), floats(n, n))


def _waves(now: Any, before: Any, out: Any) -> None:
    x, y, z, n = now.copy(), before.copy(), np.zeros_like(now), now.shape[0]
    y[0], y[n - 1], y[:, 0], y[:, n - 1] = np.float32(0), np.float32(0), np.float32(0), np.float32(0)
    for _ in range(20):
        for i in range(1, n - 1):
            for j in range(1, n - 1):
                bent = x[i - 1, j] + x[i + 1, j] + x[i, j - 1] + x[i, j + 1] - np.float32(4) * x[i, j]
                z[i, j] = np.float32(2) * x[i, j] - y[i, j] + np.float32(0.2) * bent
        x, y, z = z, x, y
        z[0], z[n - 1], z[:, 0], z[:, n - 1] = np.float32(0), np.float32(0), np.float32(0), np.float32(0)
    out[:] = x


def shallow_water() -> Made:
    """Depth and velocities of water on a torus, twenty steps: velocities, what flows across each edge, and what stays."""
    n, g, c = 256, 9.8, 0.01

    def step(_: Any, state: Any) -> Any:
        h, u, v = state
        right = tl.compute((n, n), lambda i, j: u[i, j] - c * g * (h[i, (j + 1) % n] - h[i, j]), name="right")
        down = tl.compute((n, n), lambda i, j: v[i, j] - c * g * (h[(i + 1) % n, j] - h[i, j]), name="down")
        across = tl.compute((n, n), lambda i, j: right[i, j] * tl.select(right[i, j] > 0, h[i, j], h[i, (j + 1) % n]), name="across")
        along = tl.compute((n, n), lambda i, j: down[i, j] * tl.select(down[i, j] > 0, h[i, j], h[(i + 1) % n, j]), name="along")

        def depth(i: Any, j: Any) -> Any:
            return h[i, j] - c * (across[i, j] - across[i, (j - 1 + n) % n] + along[i, j] - along[(i - 1 + n) % n, j])

        return tl.compute((n, n), depth, name="depth"), right, down

    start = operand("h", n, n), operand("u", n, n), operand("v", n, n)
    return tl.scan(step, start, 20, keep="last", name="water"), (floats(n, n) + 1, floats(n, n) - 0.5, floats(n, n) - 0.5)


def _shallow_water(depth: Any, right: Any, down: Any, h: Any, u: Any, v: Any) -> None:
    h[:], u[:], v[:] = depth, right, down
    n, c, force = h.shape[0], np.float32(0.01), np.float32(0.098)
    across, along = np.empty_like(h), np.empty_like(h)
    for _ in range(20):
        for i in range(n):
            below = i + 1 if i < n - 1 else 0
            for j in range(n):
                after = j + 1 if j < n - 1 else 0
                u[i, j] -= force * (h[i, after] - h[i, j])
                v[i, j] -= force * (h[below, j] - h[i, j])
                across[i, j] = u[i, j] * (h[i, j] if u[i, j] > 0 else h[i, after])
                along[i, j] = v[i, j] * (h[i, j] if v[i, j] > 0 else h[below, j])
        for i in range(n):
            above = i - 1 if i > 0 else n - 1
            for j in range(n):
                before = j - 1 if j > 0 else n - 1
                h[i, j] -= c * (across[i, j] - across[i, before] + along[i, j] - along[above, j])


def lattice_gas() -> Made:
    """A gas that moves along nine ways of a lattice and is turned to equilibrium (Boltzmann's equation by Bhatnagar, Gross and Krook)."""
    n, steps, rate = 128, 20, 0.8
    down, right, weight = tl.buffer(DOWN, name="down"), tl.buffer(RIGHT, name="right"), tl.buffer(WEIGHT, name="weight")
    k = tl.reduce_axis(9)

    def step(_: Any, f: Any) -> Any:
        moved = tl.compute((9, n, n), lambda d, i, j: f[d, (i - down[d]) % n, (j - right[d]) % n], name="moved")
        density = tl.compute((n, n), lambda i, j: tl.sum(moved[k, i, j], axis=k), name="density")
        v = tl.compute((n, n), lambda i, j: tl.sum(real(down[k]) * moved[k, i, j], axis=k) / density[i, j], name="v")
        u = tl.compute((n, n), lambda i, j: tl.sum(real(right[k]) * moved[k, i, j], axis=k) / density[i, j], name="u")

        def turned(d: Any, i: Any, j: Any) -> Any:
            along = 3 * (real(down[d]) * v[i, j] + real(right[d]) * u[i, j])
            square = 1.5 * (u[i, j] * u[i, j] + v[i, j] * v[i, j])
            still = weight[d] * density[i, j] * (1 + along + 0.5 * along * along - square)
            return moved[d, i, j] + rate * (still - moved[d, i, j])

        return tl.compute((9, n, n), turned, name="next")

    return tl.scan(step, operand("F", 9, n, n), steps, keep="last", name="gas"), (WEIGHT[:, None, None] * (1 + 0.1 * floats(9, n, n)),)


def _lattice_gas(start: Any, out: Any) -> None:
    _, n, _ = start.shape
    f, g, here = start.copy(), np.empty_like(start), np.empty(9, np.float32)
    one, half, three = np.float32(1), np.float32(0.5), np.float32(3)
    for _ in range(20):
        for i in range(n):
            for j in range(n):
                density, v, u = np.float32(0), np.float32(0), np.float32(0)
                for d in range(9):
                    here[d] = f[d, (i - DOWN[d]) % n, (j - RIGHT[d]) % n]
                    density += here[d]
                    v += np.float32(DOWN[d]) * here[d]
                    u += np.float32(RIGHT[d]) * here[d]
                u, v = u / density, v / density
                square = np.float32(1.5) * (u * u + v * v)
                for d in range(9):
                    along = three * (np.float32(DOWN[d]) * v + np.float32(RIGHT[d]) * u)
                    still = WEIGHT[d] * density * (one + along + half * along * along - square)
                    g[d, i, j] = here[d] + np.float32(0.8) * (still - here[d])
        f, g = g, f
    out[:] = f


def cloth() -> Made:
    """A cloth of springs that hangs by its first row, fifty steps: forces between neighbours, velocities, places."""
    n = 64

    def step(_: Any, state: Any) -> Any:
        at, speed = state

        def pull(i: Any, j: Any, down: int, right: int) -> Any:
            """How a spring pulls, by its vector: what it is longer than 1, by its length."""
            a, b = tl.clamp(i + down, 0, n - 1), tl.clamp(j + right, 0, n - 1)
            square = sum((at[a, b, c] - at[i, j, c]) ** 2 for c in range(3))
            return tl.select(square > 0, 1 - tl.rsqrt(square), 0.0), a, b

        def force(i: Any, j: Any, c: Any) -> Any:
            pulls = [pull(i, j, *way) for way in ((-1, 0), (1, 0), (0, -1), (0, 1))]
            return 40 * sum(stretch * (at[a, b, c] - at[i, j, c]) for stretch, a, b in pulls) - tl.select(c == 2, 9.8, 0.0)

        forces = tl.compute((n, n, 3), force, name="forces")
        faster = tl.compute(
            (n, n, 3), lambda i, j, c: tl.select(i == 0, 0.0, 0.99 * (speed[i, j, c] + 0.005 * forces[i, j, c])), name="faster"
        )
        return tl.compute((n, n, 3), lambda i, j, c: at[i, j, c] + 0.005 * faster[i, j, c], name="moved"), faster

    rest = np.stack([*np.meshgrid(np.arange(n), np.arange(n), indexing="ij"), np.zeros((n, n))], axis=2).astype("float32")
    start = operand("at", n, n, 3), operand("speed", n, n, 3)
    return tl.scan(step, start, 50, keep="last", name="cloth")[0], (rest + 0.1 * floats(n, n, 3), floats(n, n, 3))


def _cloth(start: Any, speed_of: Any, out: Any) -> None:
    at, speed, n = start.copy(), speed_of.copy(), start.shape[0]
    one, part = np.float32(1), np.float32(0.005)
    for _ in range(50):
        for i in range(n):
            for j in range(n):
                x, y, z = np.float32(0), np.float32(0), np.float32(0)
                for way in range(4):
                    a = max(i - 1, 0) if way == 0 else min(i + 1, n - 1) if way == 1 else i
                    b = max(j - 1, 0) if way == 2 else min(j + 1, n - 1) if way == 3 else j
                    dx, dy, dz = at[a, b, 0] - at[i, j, 0], at[a, b, 1] - at[i, j, 1], at[a, b, 2] - at[i, j, 2]
                    square = dx * dx + dy * dy + dz * dz
                    if square > 0:
                        stretch = one - one / np.sqrt(square)
                        x, y, z = x + stretch * dx, y + stretch * dy, z + stretch * dz
                if i > 0:
                    speed[i, j, 0] = np.float32(0.99) * (speed[i, j, 0] + part * np.float32(40) * x)
                    speed[i, j, 1] = np.float32(0.99) * (speed[i, j, 1] + part * np.float32(40) * y)
                    speed[i, j, 2] = np.float32(0.99) * (speed[i, j, 2] + part * (np.float32(40) * z - np.float32(9.8)))
                else:
                    speed[i, j, 0], speed[i, j, 1], speed[i, j, 2] = np.float32(0), np.float32(0), np.float32(0)
        for i in range(n):
            for j in range(n):
                for c in range(3):
                    at[i, j, c] += part * speed[i, j, c]
    out[:] = at


def both_ways() -> Made:
    """An image smoothed by recursive filters along rows and columns, forwards and backwards (Deriche; PolyBench's deriche)."""
    h, w, a = 256, 320, 0.3
    x = operand("X", h, w)

    def along(x: Any, name: str) -> Any:
        right = tl.recurrence((h, w), lambda i, j, y: a * x[i, j] + (1 - a) * y[i, j - 1], name=f"{name}_right")
        left = tl.recurrence((h, w), lambda i, j, y: (1 - a) * (a * x[i, tl.minimum(w - j, w - 1)] + y[i, j - 1]), name=f"{name}_left")
        return tl.compute((h, w), lambda i, j: right[i, j] + left[i, w - 1 - j], name=name)

    def down(x: Any, name: str) -> Any:
        below = tl.recurrence((h, w), lambda i, j, y: a * x[i, j] + (1 - a) * y[i - 1, j], name=f"{name}_down")
        above = tl.recurrence((h, w), lambda i, j, y: (1 - a) * (a * x[tl.minimum(h - i, h - 1), j] + y[i - 1, j]), name=f"{name}_up")
        return tl.compute((h, w), lambda i, j: below[i, j] + above[h - 1 - i, j], name=name)

    return down(along(x, "across"), "smooth"), (floats(h, w),)


def _both_ways(x: Any, out: Any) -> None:
    h, w = x.shape
    a, across = np.float32(0.3), np.empty_like(x)
    b = np.float32(1) - a
    for i in range(h):
        last = np.float32(0)
        for j in range(w):
            last = a * x[i, j] + b * last
            across[i, j] = last
        last = np.float32(0)
        for j in range(w - 1, -1, -1):
            last = b * (a * x[i, min(j + 1, w - 1)] + last)
            across[i, j] += last
    row = np.zeros(w, np.float32)
    for i in range(h):
        for j in range(w):
            row[j] = a * across[i, j] + b * row[j]
            out[i, j] = row[j]
    row[:] = np.float32(0)
    for i in range(h - 1, -1, -1):
        for j in range(w):
            row[j] = b * (a * across[min(i + 1, h - 1), j] + row[j])
            out[i, j] += row[j]


PROGRAMS: Final = named(
    (jacobi_line, _jacobi_line),
    (waves, _waves),
    (shallow_water, _shallow_water),
    (lattice_gas, _lattice_gas),
    (cloth, _cloth),
    (both_ways, _both_ways),
)
