"""What may be given to a space, checked where it comes from a user."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Mapping, Sequence, Set as AbstractSet
from typing import Any, TypeVar

import numpy as np

from tensorlang.errors import TuningError
from tensorlang.schedules.spaces.knobs import Knob

T = TypeVar("T")


def point(config: object) -> Mapping[str, Any]:
    """A point as it was given. Raises `TuningError` for what is no mapping from names of knobs."""
    if not isinstance(config, Mapping) or not all(isinstance(name, str) for name in config):
        raise TuningError(f"a point is a mapping from names of knobs to values, and not {config!r:.80}")
    return config


def values(name: object, given: object) -> tuple[Any, ...]:
    """The values of a knob as they were given. Raises `TuningError` for what lists none."""
    if isinstance(given, Iterable) and not isinstance(given, (str, bytes)):
        with contextlib.suppress(TypeError):  # an array without axes
            return tuple(given)
    raise TuningError(f"the knob {name!r:.60} takes a list of values, and not {given!r:.60}")


def points(configs: object) -> Sequence[Any]:
    """Points as they were given. Raises `TuningError` for what is no list of them."""
    if not isinstance(configs, Sequence) or isinstance(configs, (str, bytes)):
        raise TuningError(f"points are mappings in a list, and not {configs!r:.60}")
    for config in configs:
        point(config)
    return configs


def parts(given: object, kind: type[T]) -> tuple[T, ...]:
    """What a space is made of: knobs, constraints or footprints. Raises `TuningError` for anything else."""
    if not isinstance(given, (tuple, list)) or not all(isinstance(one, kind) for one in given):
        what = f"{kind.__name__.lower()}s"
        raise TuningError(f"{what} of a space come in a tuple, not as {given!r:.60}; Space.of(rows=(2, 4)) is made of values")
    return tuple(given)


def whole(number: object, what: str) -> int:
    """A number of points, or the place of one. Raises `TuningError` for what is none."""
    if not isinstance(number, (int, np.integer)) or isinstance(number, bool):
        raise TuningError(f"{what} is a whole number, and not {number!r:.60}")
    return int(number)


def spellings(exclude: object) -> Collection[str]:
    """The spellings of points that are not wanted. Raises `TuningError` for what is no collection."""
    if not isinstance(exclude, (tuple, list, AbstractSet, Mapping)):
        raise TuningError(f"exclude= takes the spellings of points, and not {exclude!r:.60}")
    return exclude


def features(knob: Knob, value: object) -> tuple[float, ...]:
    """What a model sees of a value of another shape. Raises `TuningError` for a value that no knob of this kind has."""
    try:
        return knob.features(value)
    except (TypeError, ValueError, LookupError, ArithmeticError):
        raise TuningError(f"{value!r:.60} is no value of a knob such as {knob.name!r}, which has {knob.listing()}") from None


def generator(rng: object) -> np.random.Generator:
    """What draws. Raises `TuningError` for anything but a generator of NumPy."""
    if not isinstance(rng, np.random.Generator):
        raise TuningError(f"points are drawn by a generator, as np.random.default_rng(0), and not {rng!r:.60}")
    return rng


def present(config: Mapping[str, Any], active: Sequence[str]) -> None:
    """Raise `TuningError` where a point leaves out a knob that it has to decide."""
    missing = [name for name in active if name not in config]
    if missing:
        raise TuningError(f"the point {dict(config)!r:.80} does not say what {missing[0]!r} is; complete() fills in what is missing")
