"""The roofline as one self-contained SVG: operations a byte against operations a second, under what the machine was measured to do.

Each level of memory is a slope, the multiply-add peak the roof. A kernel without arithmetic has no place under it; it is drawn as the
bandwidth that it reaches.
"""

from __future__ import annotations

import math
from html import escape
from typing import Final

from tensorlang.codegen.reports.levels import HOMES, Home
from tensorlang.codegen.reports.machine import Rates
from tensorlang.codegen.reports.spelling import rate, seconds

WIDTH: Final = 640
HEIGHT: Final = 400
LEFT, RIGHT, TOP, BOTTOM = 64, 20, 44, 46
# scoped: in a notebook the style of one picture holds for the whole page
STYLE: Final = (
    ".roofline text{font:12px system-ui,sans-serif;fill:#333;paint-order:stroke;stroke:#fff;stroke-width:3px}"
    ".roofline .title{font-size:14px;font-weight:600}.roofline .grid{stroke:#e3e3e3}.roofline .slope{stroke:#a9b1bf}"
    ".roofline .roof,.roofline .home{stroke:#222;stroke-width:2}.roofline .own{stroke:#d1342f;stroke-dasharray:5 4}"
    ".roofline .dot,.roofline .hot{fill:#d1342f}.roofline .end{text-anchor:end}.roofline .mid{text-anchor:middle}"
)


def picture(name: str, flops: int, size: int, time: float, rates: Rates, home: Home) -> str:
    """The SVG text for a kernel of so many operations and bytes in `time` seconds; `home` is the level that holds its operands."""
    speed, intensity = flops / time, flops / max(size, 1)
    slopes = [(level, rates.bandwidth[level]) for level in HOMES]
    ridges = [rates.flops / bandwidth for _, bandwidth in slopes]
    known = [*ridges, *([intensity] if flops else [])]
    low, high = min(known) / 6, max(known) * 4
    bottom = min([slopes[-1][1] * low, *([speed] if flops else [size / time * low] if size else [])]) / 2
    top = max(rates.flops, speed) * 2.2  # a definition may write more than is done

    def at(x: float, y: float) -> tuple[float, float]:
        across = math.log(x / low) / math.log(high / low)
        up = math.log(y / bottom) / math.log(top / bottom)
        return LEFT + across * (WIDTH - LEFT - RIGHT), HEIGHT - BOTTOM - up * (HEIGHT - TOP - BOTTOM)

    def line(kind: str, *points: tuple[float, float]) -> str:
        (a, b), (c, d) = (at(*point) for point in points)
        return f'<line class="{kind}" x1="{a:.1f}" y1="{b:.1f}" x2="{c:.1f}" y2="{d:.1f}"/>'

    def text(x: float, y: float, words: str, kind: str = "") -> str:
        return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}">{escape(words)}</text>'

    marks = [
        text(LEFT, 22, f"{name}: {seconds(time)}", "title"),
        text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, "operations for each byte in and out", "mid"),
    ]
    for power in range(math.ceil(math.log10(low)), math.floor(math.log10(high)) + 1):
        marks += [
            line("grid", (10.0**power, bottom), (10.0**power, top)),
            text(at(10.0**power, bottom)[0], HEIGHT - 28, f"{10.0**power:g}", "mid"),
        ]
    for power in range(math.ceil(math.log10(bottom)), math.floor(math.log10(top)) + 1):
        marks += [
            line("grid", (low, 10.0**power), (high, 10.0**power)),
            text(LEFT - 6, at(low, 10.0**power)[1] + 4, f"{10.0 ** (power - 9):g}", "end"),
        ]
    marks.append(text(LEFT, 38, "GFLOP/s", "end"))
    for (level, bandwidth), ridge in zip(slopes, ridges, strict=True):
        start = max(low, bottom / bandwidth)
        marks.append(line("home" if level == home else "slope", (start, bandwidth * start), (ridge, rates.flops)))
        x, y = at(max(start, low) * 1.06, bandwidth * max(start, low) * 1.06)
        marks.append(text(x, y - 6, f"{level} {rate(bandwidth, 'B')}"))
    marks.append(line("roof", (min(ridges), rates.flops), (high, rates.flops)))
    x, y = at(high, rates.flops)
    marks.append(
        text(x, y - 7, f"{rates.kind} multiply-adds {rate(rates.flops, 'FLOP')}, {rates.threads} thread{'s' * (rates.threads > 1)}", "end")
    )
    if flops:
        x, y = at(intensity, speed)
        marks += [line("own", (intensity, bottom), (intensity, speed)), f'<circle class="dot" cx="{x:.1f}" cy="{y:.1f}" r="6"/>']
        right = x < WIDTH * 0.7
        marks.append(
            text(x + (11 if right else -11), y + 16, f"{rate(speed, 'FLOP')}, {intensity:.3g} a byte", "hot" if right else "hot end")
        )
    elif size:
        reach = size / time
        marks.append(
            line(
                "own",
                (max(low, bottom / reach), reach * max(low, bottom / reach)),
                (min(high, rates.flops / reach), min(rates.flops, reach * high)),
            )
        )
        x, y = at(math.sqrt(low * high), min(reach * math.sqrt(low * high), top))
        marks.append(text(x + 12, y + 12, f"no arithmetic; {rate(reach, 'B')} in and out", "hot"))
    else:
        marks.append(text((LEFT + WIDTH - RIGHT) / 2, HEIGHT / 2, "nothing to compute, and nothing to move", "hot mid"))
    extent = f'viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" class="roofline" {extent} role="img">'
    return (
        f'{head}<title>{escape(name)}</title><style>{STYLE}</style><rect width="100%" height="100%" fill="#fff"/>{"".join(marks)}</svg>\n'
    )
