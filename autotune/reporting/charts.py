"""Charts as SVG text: a frame with two scales, and marks that stay inside it.

Own, and small, because the page must open offline and without a plotting library, follow the reader's light or dark scheme, and stay
small for ten thousand trials. Colours are classes of the page's style sheet; every chart has a title and a description for readers who do
not see it. Many marks are thinned, but the extremes are always drawn.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Final

from markupsafe import Markup

TOLD: Final = 400
"""Up to this many marks each carries its own tooltip."""


@dataclass(frozen=True, slots=True)
class Scale:
    """From values to 0 .. 1; `spell` writes a tick."""

    low: float
    high: float
    log: bool = False
    spell: Callable[[float], str] = "{:g}".format

    @classmethod
    def over(cls, values: Iterable[float], *, log: bool = False, spell: Callable[[float], str] = "{:g}".format, pad: float = 0.04) -> Scale:
        """The scale that holds these values with some room; positive ones where it is logarithmic."""
        held = [value for value in values if math.isfinite(value) and (value > 0 or not log)] or [1.0]
        low, high = min(held), max(held)
        if log:
            room = max((high / low) ** pad, 1.01)
            return cls(low / room, high * room, log, spell)
        size = max(abs(low), abs(high))
        room = (high - low) * pad if high - low > 1e-6 * size else size * 0.05 or 1.0
        return cls(low - room, high + room, log, spell)

    def at(self, value: float) -> float:
        """Where a value lies, held within the frame."""
        low, high = (math.log(self.low), math.log(self.high)) if self.log else (self.low, self.high)
        place = (math.log(max(value, self.low)) if self.log else value) - low
        return min(max(place / (high - low), 0.0), 1.0) if high > low else 0.5

    def ticks(self, most: int = 6) -> list[float]:
        """Round values within the scale."""
        if self.log and self.high / self.low > 5:
            decades = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
            for digits in ((1, 1.5, 2, 3, 4, 5, 7), (1, 2, 5), (1, 3), (1,)):
                found = [digit * 10.0**decade for decade in decades for digit in digits if self.low <= digit * 10.0**decade <= self.high]
                if len(found) <= most + 2:
                    break
            else:
                found = found[:: math.ceil(len(found) / most)]
            return found if len(found) > 1 else [self.low, self.high]
        span = self.high - self.low
        raw = span / most
        power = 10.0 ** math.floor(math.log10(raw)) if raw > 0 else 1.0
        step = next((power * digit for digit in (1, 2, 2.5, 5, 10) if power * digit >= raw), power)
        first = math.ceil(self.low / step - 1e-9)
        return [float(f"{count * step:.12g}") for count in range(first, math.floor(self.high / step + 1e-9) + 1)]


@dataclass(slots=True)
class Chart:
    """A frame of `width` by `height` with margins (top, right, bottom, left), its scales, and what was drawn into it so far."""

    title: str
    about: str
    x: Scale
    y: Scale
    width: int = 560
    height: int = 300
    margins: tuple[int, int, int, int] = (14, 14, 40, 64)
    _marks: list[str] = field(default_factory=list)

    def place(self, x: float, y: float) -> tuple[float, float]:
        """The point of the drawing for these values."""
        top, right, bottom, left = self.margins
        return (
            left + self.x.at(x) * (self.width - left - right),
            top + (1 - self.y.at(y)) * (self.height - top - bottom),
        )

    def axes(
        self, x_label: str, y_label: str = "", *, x_ticks: Sequence[float] | None = None, y_ticks: Sequence[float] | None = None
    ) -> None:
        """Grid lines, ticks and labels."""
        top, right, bottom, left = self.margins
        base, end = self.height - bottom, self.width - right
        for value in self.y.ticks(5) if y_ticks is None else y_ticks:
            _, at = self.place(self.x.low, value)
            self._marks.append(f'<line class="grid" x1="{left}" x2="{end}" y1="{at:.1f}" y2="{at:.1f}"/>')
            self.text(left - 7, at + 4, self.y.spell(value), "tick end")
        for value in self.x.ticks() if x_ticks is None else x_ticks:
            at, _ = self.place(value, self.y.low)
            self._marks.append(f'<line class="grid" x1="{at:.1f}" x2="{at:.1f}" y1="{top}" y2="{base}"/>')
            self.text(min(max(at, 12), self.width - 18), base + 16, self.x.spell(value), "tick mid")
        self._marks.append(f'<line class="axis" x1="{left}" x2="{end}" y1="{base}" y2="{base}"/>')
        self.text((left + end) / 2, self.height - 6, x_label, "label mid")
        if y_label:
            middle = (top + base) / 2
            self._marks.append(f'<text class="label mid" transform="translate(13 {middle:.0f}) rotate(-90)">{escape(y_label)}</text>')

    def text(self, x: float, y: float, text: str, kind: str = "label", full: str = "") -> None:
        """Text at a point of the drawing; `full` is shown on pointing at it."""
        told = f"<title>{escape(full)}</title>" if full else ""
        self._marks.append(f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}">{told}{escape(text)}</text>')

    def line(self, points: Sequence[tuple[float, float]], kind: str, *, step: bool = False) -> None:
        """A line through these values; stepped, it keeps each value until the next."""
        if not points:
            return
        (x, y), *rest = (self.place(*point) for point in points)
        path = [f"M{x:.1f} {y:.1f}", *(f"H{a:.1f}V{b:.1f}" if step else f"L{a:.1f} {b:.1f}" for a, b in rest)]
        self._marks.append(f'<path class="{kind}" d="{"".join(path)}"/>')

    def band(self, low: Sequence[tuple[float, float]], high: Sequence[tuple[float, float]], kind: str) -> None:
        """The area between two lines."""
        places = [self.place(*point) for point in (*low, *reversed(high))]
        if places:
            self._marks.append(f'<path class="{kind}" d="M{"L".join(f"{x:.1f} {y:.1f}" for x, y in places)}Z"/>')

    def level(self, y: float, kind: str, text: str = "") -> None:
        """A line across at this value, named at its right end."""
        (left, at), (right, _) = self.place(self.x.low, y), self.place(self.x.high, y)
        self._marks.append(f'<line class="{kind}" x1="{left:.1f}" x2="{right:.1f}" y1="{at:.1f}" y2="{at:.1f}"/>')
        if text:
            self.text(right - 4, at - 5 if at > self.margins[0] + 16 else at + 13, text, "note end")

    def dots(self, points: Sequence[tuple[float, float]], kind: str, told: Sequence[str] = (), size: float = 3.2) -> None:
        """A dot for each pair of values; with their tooltips where they are few."""
        places = [self.place(*point) for point in points]
        if told and len(places) <= TOLD:
            self._marks += [
                f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="{size}"><title>{escape(text)}</title></circle>'
                for (x, y), text in zip(places, told, strict=True)
            ]
        elif places:
            path = "".join(f"M{x:.1f} {y:.1f}h0" for x, y in dict.fromkeys((round(x, 1), round(y, 1)) for x, y in places))
            self._marks.append(f'<path class="{kind} many" stroke-width="{2 * size - 1:.1f}" d="{path}"/>')

    def mark(self, x: float, y: float, kind: str, told: str, size: float = 6.5) -> None:
        """A diamond, for what must be seen."""
        a, b = self.place(x, y)
        path = f"M{a:.1f} {b - size:.1f}l{size} {size}l{-size} {size}l{-size} {-size}z"
        self._marks.append(f'<path class="{kind}" d="{path}"><title>{escape(told)}</title></path>')

    def box(self, x: float, y: float, width: float, height: float, kind: str, told: str, strength: float = 1.0) -> None:
        """A rectangle in the drawing's own units."""
        self._marks.append(
            f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="2" opacity="{strength:.2f}">'
            f"<title>{escape(told)}</title></rect>"
        )

    def stroke(self, x: float, y: float, up: float, kind: str, told: str) -> None:
        """A short upright line in the drawing's own units."""
        self._marks.append(
            f'<line class="{kind}" x1="{x:.1f}" x2="{x:.1f}" y1="{y - up:.1f}" y2="{y + up:.1f}"><title>{escape(told)}</title></line>'
        )

    def svg(self) -> Markup:
        """The chart. What came from a log was escaped when it was drawn."""
        head = f'<svg viewBox="0 0 {self.width} {self.height}" role="img" aria-label="{escape(self.title + ". " + self.about)}">'
        body = f"{head}<title>{escape(self.title)}</title><desc>{escape(self.about)}</desc>{''.join(self._marks)}</svg>"
        return Markup(body)  # noqa: S704 - see above


def spread(count: int) -> list[float]:
    """Offsets in -0.5 .. 0.5 that keep equal marks apart, the same each time (the golden ratio's fractions)."""
    return [(place * 0.6180339887 + 0.5) % 1 - 0.5 for place in range(count)]


def thinned(points: Sequence[tuple[float, float]], most: int) -> list[int]:
    """The places of at most about `most` of these points, in order: in each of many columns the lowest and the highest, others evenly."""
    if len(points) <= most:
        return list(range(len(points)))
    left, right = min(x for x, _ in points), max(x for x, _ in points)
    columns = max(most // 4, 1)
    lowest: dict[int, int] = {}
    highest: dict[int, int] = {}
    for place, (x, y) in enumerate(points):
        column = min(int((x - left) / (right - left) * columns), columns - 1) if right > left else 0
        if column not in lowest or y < points[lowest[column]][1]:
            lowest[column] = place
        if column not in highest or y > points[highest[column]][1]:
            highest[column] = place
    stride = math.ceil(2 * len(points) / most)
    return sorted({*lowest.values(), *highest.values(), *range(0, len(points), stride)})


def ranked(values: Sequence[float], most: int) -> list[float]:
    """At most `most` of these values, least and greatest among them, evenly by rank: the distribution stays."""
    held = sorted(values)
    if len(held) <= most:
        return held
    return [held[round(place * (len(held) - 1) / (most - 1))] for place in range(most)]
