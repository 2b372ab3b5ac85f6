"""`bench.programs.expressions` as arrays."""

from __future__ import annotations

from typing import Any, Final


def centred(xp: Any, d: Any) -> Any:
    """Means along both axes."""
    return d - xp.mean(d, axis=1)[:, None] - xp.mean(d, axis=0)[None, :] + xp.mean(d)


def recalled(xp: Any, query: Any, key: Any, value: Any) -> Any:
    """A square of scores, of which half is masked."""
    length, width = query.shape[1:]
    scores = query @ xp.swapaxes(key, 1, 2) * width**-0.5
    at = xp.arange(length)
    scores = xp.where(at[None, :] <= at[:, None], scores, xp.full_like(scores, -xp.inf))
    weights = xp.exp(scores - xp.max(scores, axis=2)[:, :, None])
    return weights @ value / xp.sum(weights, axis=2)[:, :, None]


def neighbourhoods(xp: Any, x: Any, a: Any, b: Any, near: Any) -> Any:
    """All pairs, masked."""
    score = (x @ a)[:, None] + (x @ b)[None, :]
    weights = xp.where(near, xp.exp(xp.where(score > 0, score, 0.2 * score)), xp.zeros_like(score))
    return weights @ x / xp.sum(weights, axis=1)[:, None]


def stretched(xp: Any, x: Any) -> Any:
    """Twice through the image."""
    least = xp.min(x)
    return (x - least) / (xp.max(x) - least)


FORMS: Final = (centred, recalled, neighbourhoods, stretched)
