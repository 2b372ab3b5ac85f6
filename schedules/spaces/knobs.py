"""The knobs of a search space: a name, the values it can take, and the further knobs that a value opens.

A knob lists its values, all of them feasible by themselves, so that counting, uniform sampling and containment need no search, and a
point of a space is a plain JSON object from knob names to values. What a value means to a model (`features`) and which values are
close to it (`near`) depend on the kind of knob: tile sizes are compared by ratio, orders by the pairs they exchange.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Self, TypeAlias

from tensorlang.errors import TuningError

Value: TypeAlias = Any
"""A JSON value: bool, int, float, str, None, or a list of these."""

INACTIVE: Final = -1.0
"""The feature of a knob that the point does not have."""

MOST_VALUES: Final = 50_000


_ENCODER: Final = json.JSONEncoder(sort_keys=True, separators=(",", ":"))


def spelling(value: Value) -> str:
    """One text for one JSON value (or point), whatever the order of its keys: what equality and hashing go by.

    Raises `TuningError` for what is none.
    """
    if type(value) is int:
        return str(value)
    try:
        return _ENCODER.encode(value)
    except (TypeError, ValueError, RecursionError):
        raise TuningError(f"{value!r:.60} is no value of a knob: these are true or false, numbers, text, and lists of them") from None


@dataclass(frozen=True, slots=True)
class Knob:
    """A decision: its name, its values in order, and for some values (by `spelling`) the knobs they open."""

    name: str
    values: tuple[Value, ...]
    opens: Mapping[str, tuple[Knob, ...]] = field(default_factory=dict)
    places: Mapping[str, int] = field(init=False, repr=False, compare=False)
    extras: ClassVar[tuple[str, ...]] = ()
    kind: ClassVar[str] = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "places", {spelling(value): place for place, value in enumerate(self.values)})
        if not self.values:
            raise TuningError(f"knob {self.name!r} has no value")
        if len(self.places) != len(self.values):
            raise TuningError(f"knob {self.name!r} lists a value twice")

    def children(self, value: Value) -> tuple[Knob, ...]:
        """The knobs that this value opens."""
        return self.opens.get(spelling(value), ()) if self.opens else ()

    def has(self, value: Value) -> bool:
        """Is it one of the values?  1 and True differ, as in JSON."""
        return spelling(value) in self.places

    def restricted(self, values: Iterable[Value]) -> Self:
        """The same knob with only those of its values.

        Raises `TuningError` for a value that it does not have, or if none is left.
        """
        wanted = {spelling(value) for value in values}
        unknown = wanted - self.places.keys()
        if unknown or not wanted:
            raise TuningError(f"knob {self.name!r} has no value {' or '.join(sorted(unknown)) or '(none given)'}; it has {self.listing()}")
        return self._with("values", tuple(value for value in self.values if spelling(value) in wanted))

    def opening(self, opens: Mapping[str, tuple[Knob, ...]]) -> Self:
        """The same knob with other sub-trees."""
        return self._with("opens", opens)

    @classmethod
    def recorded(cls, name: str, values: tuple[Value, ...], opens: Mapping[str, tuple[Knob, ...]], extras: Mapping[str, Any]) -> Self:
        """The knob that had these fields, which were checked (see `serialization`)."""
        knob = object.__new__(cls)
        for field_name, value in {"name": name, "values": values, "opens": opens, **extras}.items():
            object.__setattr__(knob, field_name, value)
        Knob.__post_init__(knob)
        return knob

    def _with(self, field: str, value: Any) -> Self:
        clone = object.__new__(type(self))
        for name in ("name", "values", "opens", *self.extras):
            object.__setattr__(clone, name, value if name == field else getattr(self, name))
        Knob.__post_init__(clone)
        return clone

    def columns(self) -> tuple[str, ...]:
        """Names of the features."""
        return (self.name,)

    def features(self, value: Value) -> tuple[float, ...]:
        """The value as numbers, one for each column."""
        return (float(value),)

    def near(self, value: Value) -> tuple[Value, ...]:
        """The values one move away: here all others."""
        text = spelling(value)
        return tuple(other for other in self.values if spelling(other) != text)

    def nearest(self, value: Value) -> Value:
        """The value that comes closest to one of another space; the first if nothing is comparable."""
        return value if self.has(value) else self.values[0]

    def to_json(self) -> dict[str, Any]:
        """The knob as plain JSON; `recorded.Reader` reads it."""
        below = {text: [child.to_json() for child in children] for text, children in self.opens.items()}
        own = {name: list(value) if isinstance(value := getattr(self, name), tuple) else value for name in self.extras}
        return {"kind": self.kind, "name": self.name, "values": list(self.values), "opens": below, **own}

    def listing(self) -> str:
        """The values, for printing."""
        shown = " ".join(value if isinstance(value, str) else json.dumps(value) for value in self.values[:16])
        return shown + (f" ... ({len(self.values)})" if len(self.values) > 16 else "")


class Choice(Knob):
    """Alternatives without an order; given as a mapping, each opens a sub-tree: `{"none": (), "B": (TileSize(...),)}`."""

    __slots__ = ()
    kind = "Choice"

    def __init__(self, name: str, options: Sequence[Value] | Mapping[Value, Sequence[Knob]]) -> None:
        opens = {spelling(value): tuple(knobs) for value, knobs in options.items() if knobs} if isinstance(options, Mapping) else {}
        super().__init__(name, tuple(options), opens)

    def columns(self) -> tuple[str, ...]:
        """One column if the values are numbers, else one for each."""
        return (self.name,) if self._numeric() else tuple(f"{self.name}={value}" for value in self.values)

    def features(self, value: Value) -> tuple[float, ...]:
        """The logarithm of a number, else one-hot."""
        if self._numeric():
            return (math.copysign(math.log2(1 + abs(value)), value),)
        text = spelling(value)
        return tuple(float(text == spelling(known)) for known in self.values)

    def _numeric(self) -> bool:
        return all(isinstance(value, int | float) and not isinstance(value, bool) for value in self.values)


class Flag(Knob):
    """On or off."""

    __slots__ = ()
    kind = "Flag"

    def __init__(self, name: str) -> None:
        super().__init__(name, (False, True))


class Sizes(Knob):
    """Increasing positive integers, compared by ratio."""

    __slots__ = ()
    kind = "Sizes"

    def __init__(self, name: str, sizes: Iterable[int]) -> None:
        super().__init__(name, tuple(sorted(set(sizes))))
        if not all(isinstance(size, int) and size >= 1 for size in self.values):
            raise TuningError(f"knob {name!r} has a size that is no positive integer: {self.listing()}")

    def features(self, value: Value) -> tuple[float, ...]:
        """The logarithm to base 2."""
        return (math.log2(value),)

    def near(self, value: Value) -> tuple[Value, ...]:
        """Up to two steps down and up."""
        at = self.places.get(spelling(value))
        if at is None:
            return (self.nearest(value),)
        return tuple(self.values[i] for i in (at - 1, at + 1, at - 2, at + 2) if 0 <= i < len(self.values))

    def nearest(self, value: Value) -> Value:
        """The size at the least ratio."""
        if not isinstance(value, int | float) or isinstance(value, bool) or value <= 0:
            return self.values[len(self.values) // 2]
        return min(self.values, key=lambda size: abs(math.log(size / value)))


class Log2(Sizes):
    """The powers of two from `lo` to `hi`."""

    __slots__ = ()
    kind = "Log2"

    def __init__(self, name: str, lo: int, hi: int) -> None:
        super().__init__(name, (1 << power for power in range(max(hi, 0).bit_length()) if lo <= 1 << power <= hi))


class TileSize(Sizes):
    """A tile size for a loop of `extent` iterations: see `tile_sizes`; without tails (`exact`) its divisors; or the `sizes` given."""

    __slots__ = ("extent",)
    kind = "Split"
    extras = ("extent",)
    extent: int | None

    def __init__(
        self,
        name: str,
        extent: int | None,
        *,
        lo: int = 1,
        hi: int | None = None,
        multiple: int = 1,
        exact: bool = False,
        sizes: Iterable[int] | None = None,
    ) -> None:
        found = tile_sizes(extent, lo=lo, hi=hi, multiple=multiple) if sizes is None else tuple(sizes)
        if exact and extent is not None:
            most = extent if hi is None else hi
            whole = tuple(size for size in (found if sizes is not None else _divisors(extent)) if size and extent % size == 0)
            found = tuple(size for size in whole if sizes is not None or (lo <= size <= most and size % multiple == 0)) or whole[:1]
        super().__init__(name, found)
        object.__setattr__(self, "extent", extent)

    def columns(self) -> tuple[str, ...]:
        """The size; for a known extent also the number of tiles and the share of iterations that a padded tail would waste."""
        return (self.name,) if self.extent is None else (self.name, f"{self.name}.tiles", f"{self.name}.waste")

    def features(self, value: Value) -> tuple[float, ...]:
        """Logarithms, and the waste as a share of the extent."""
        if self.extent is None:
            return (math.log2(value),)
        extent = max(self.extent, 1)
        tiles = -(-extent // value)
        return (math.log2(value), math.log2(tiles), tiles * value / extent - 1)


class Factors(Knob):
    """A loop of `extent` iterations split into a nest of `parts` loops without tails: factors, outermost first, whose product it is."""

    __slots__ = ("extent",)
    kind = "Factors"
    extras = ("extent",)
    extent: int

    def __init__(self, name: str, extent: int, parts: int, *, innermost: int | None = None) -> None:
        values = tuple(list(found) for found in itertools.islice(_factorisations(extent, parts, innermost), MOST_VALUES + 1))
        if len(values) > MOST_VALUES:
            raise TuningError(f"knob {name!r} has more than {MOST_VALUES} factorisations; split in fewer parts")
        super().__init__(name, values)
        object.__setattr__(self, "extent", extent)

    def columns(self) -> tuple[str, ...]:
        """One column for each part."""
        return tuple(f"{self.name}.{part}" for part in range(len(self.values[0])))

    def features(self, value: Value) -> tuple[float, ...]:
        """Logarithms of the factors."""
        return tuple(math.log2(factor) for factor in value)

    def near(self, value: Value) -> tuple[Value, ...]:
        """The factorisations that move one prime from a part to another."""
        found = []
        for a, b in itertools.permutations(range(len(value)), 2):
            for prime in _primes(value[a]):
                moved = list(value)
                moved[a], moved[b] = moved[a] // prime, moved[b] * prime
                found.append(moved)
        return tuple(moved for moved in found if self.has(moved))

    def nearest(self, value: Value) -> Value:
        """The factorisation at the least ratios, compared from the innermost part on."""
        if not isinstance(value, list) or not all(type(factor) is int and factor > 0 for factor in value):
            return self.values[len(self.values) // 2]
        return min(self.values, key=lambda own: sum(abs(math.log(a / b)) for a, b in zip(own[:0:-1], value[:0:-1], strict=False)))


class Order(Knob):
    """The permutations of `items` in which, for each pair (a, b) of `before`, a comes earlier than b."""

    __slots__ = ("items",)
    kind = "Order"
    extras = ("items",)
    items: tuple[str, ...]

    def __init__(self, name: str, items: Sequence[str], before: Iterable[tuple[str, str]] = ()) -> None:
        orders = itertools.islice(_orders(tuple(items), frozenset(before)), MOST_VALUES + 1)
        values = tuple(list(order) for order in orders)
        if len(values) > MOST_VALUES:
            raise TuningError(f"knob {name!r} has more than {MOST_VALUES} orders; state more precedences")
        super().__init__(name, values)
        object.__setattr__(self, "items", tuple(items))

    def columns(self) -> tuple[str, ...]:
        """One column for each pair."""
        return tuple(f"{self.name}:{a}<{b}" for a, b in itertools.combinations(self.items, 2))

    def features(self, value: Value) -> tuple[float, ...]:
        """1 where the first of a pair comes earlier."""
        place = {item: i for i, item in enumerate(value)}
        return tuple(float(place[a] < place[b]) for a, b in itertools.combinations(self.items, 2))

    def near(self, value: Value) -> tuple[Value, ...]:
        """The feasible orders that exchange two neighbours."""
        swapped = ([*value[:i], value[i + 1], value[i], *value[i + 2 :]] for i in range(len(value) - 1))
        return tuple(order for order in swapped if self.has(order))


def tile_sizes(extent: int | None, *, lo: int = 1, hi: int | None = None, multiple: int = 1) -> tuple[int, ...]:
    """Sizes worth trying for a loop: `multiple` times a power of two, 3 times one, or a divisor of what is left; within [lo, hi].

    A size is at most the extent (rounded up to `multiple`). Where nothing lies in the range, the size closest to it stands alone.
    """
    most = -(-max(extent, 1) // multiple) if extent is not None else max((hi or 4096) // multiple, 1)
    powers = {base << shift for base in (1, 3) for shift in range(most.bit_length()) if base << shift <= most}
    sizes = sorted(multiple * size for size in powers.union(_divisors(most)))
    kept = tuple(size for size in sizes if lo <= size and (hi is None or size <= hi))
    return kept or (min(sizes, key=lambda size: abs(size - lo)),)


KINDS: Final[Mapping[str, type[Knob]]] = {knob.kind: knob for knob in (Choice, Factors, Flag, Log2, Order, Sizes, TileSize)}
"""The kinds of knobs by the names that they have in logs."""


def _divisors(number: int) -> tuple[int, ...]:
    low = [d for d in range(1, math.isqrt(max(number, 0)) + 1) if number % d == 0]
    return tuple(sorted({*low, *(number // d for d in low)})) or (1,)


def _primes(number: int) -> tuple[int, ...]:
    """The distinct prime divisors."""
    return tuple(d for d in _divisors(number)[1:] if all(d % p for p in range(2, math.isqrt(d) + 1)))


def _factorisations(number: int, parts: int, innermost: int | None) -> Iterator[tuple[int, ...]]:
    """The ordered ways to write a number as a product, the last factor at most `innermost`."""
    if parts < 1 or number < 1:
        raise TuningError(f"{number} iterations cannot be split into {parts} loops")
    for last in _divisors(number):
        if innermost is None or last <= innermost:
            if parts == 1:
                if last == number:
                    yield (number,)
            else:
                yield from ((*outer, last) for outer in _factorisations(number // last, parts - 1, None))


def _orders(items: tuple[str, ...], before: frozenset[tuple[str, str]]) -> Iterable[tuple[str, ...]]:
    if not items:
        yield ()
    for item in items:
        if not any(b == item and a in items for a, b in before):
            rest = tuple(other for other in items if other != item)
            yield from ((item, *tail) for tail in _orders(rest, before))
