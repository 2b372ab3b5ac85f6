"""The style sheet of the report's page.

Two schemes, chosen by the reader's system: every colour is a variable, and charts take theirs by class.
"""

from typing import Final

STYLE: Final = """
:root { color-scheme: light dark; --paper: #fbfaf8; --card: #ffffff; --ink: #1c2127; --soft: #5b6570; --line: #e3e1dc; --grid: #ecebe7;
  --blue: #1f6fb4; --teal: #14866d; --amber: #b36a00; --red: #c0392b; --plum: #8a4fa3; --band: #8b95a1; --wash: #eef4fa; }
@media (prefers-color-scheme: dark) {
  :root { --paper: #14171b; --card: #1b1f25; --ink: #e6e9ec; --soft: #9aa5b1; --line: #2d333b; --grid: #272c33;
    --blue: #6cb2f0; --teal: #4cc9a4; --amber: #eba94a; --red: #f0766a; --plum: #c897e0; --band: #75808c; --wash: #1d2a37; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
main { max-width: 76rem; margin: 0 auto; padding: 2rem 1.25rem 4rem; }
h1 { font-size: 1.05rem; font-weight: 600; margin: 0 0 .25rem; color: var(--soft); letter-spacing: .02em; }
h2 { font-size: 1.75rem; line-height: 1.2; margin: 0 0 .35rem; letter-spacing: -.01em; }
h3 { font-size: 1.1rem; margin: 2.25rem 0 .5rem; }
p { margin: .4rem 0; max-width: 52rem; }
.soft, figcaption, dt { color: var(--soft); }
small, .small, figcaption { font-size: .86rem; }
a { color: var(--blue); }
code, pre { font-family: ui-monospace, "SFMono-Regular", Menlo, "DejaVu Sans Mono", monospace; font-size: .84rem; }
section.study { border-top: 1px solid var(--line); padding-top: 2rem; margin-top: 2rem; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(11rem, 1fr)); gap: .75rem; margin: 1.1rem 0; }
.tile { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: .7rem .9rem; }
.tile b { display: block; font-size: 1.3rem; white-space: nowrap; line-height: 1.25; font-weight: 650; font-variant-numeric: tabular-nums; }
.tile span { color: var(--soft); font-size: .82rem; display: block; }
.tile.main { background: var(--wash); border-color: var(--blue); }
dl.facts { display: grid; grid-template-columns: max-content 1fr; gap: .1rem 1rem; margin: .6rem 0; font-size: .88rem; }
dl.facts dd { margin: 0; overflow-wrap: anywhere; }
.row { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 27rem), 1fr)); gap: 1rem; align-items: start; }
.row.knobs { grid-template-columns: repeat(auto-fill, minmax(min(100%, 22rem), 1fr)); }
figure { margin: 0; background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: .7rem .8rem .6rem;
  min-width: 0; }
figure h4 { margin: 0 0 .3rem; font-size: .95rem; font-weight: 600; display: flex; justify-content: space-between; gap: .7rem;
  align-items: baseline; }
figure h4 span:last-child:not(:first-child) { color: var(--soft); font-weight: 400; font-size: .84rem; white-space: nowrap; }
svg { display: block; width: 100%; height: auto; font-family: inherit; }
svg text { fill: var(--soft); font-size: 11.5px; }
svg .label { font-size: 12px; }
svg .note { font-size: 11.5px; fill: var(--ink); paint-order: stroke; stroke: var(--card); stroke-width: 3px; }
svg .mid { text-anchor: middle; }
svg .end { text-anchor: end; }
svg .mono { font-family: ui-monospace, Menlo, "DejaVu Sans Mono", monospace; }
svg .grid { stroke: var(--grid); }
svg .axis { stroke: var(--soft); opacity: .6; }
svg path, svg line { fill: none; }
svg .best { stroke: var(--blue); stroke-width: 2.2; stroke-linejoin: round; }
svg .expected { stroke: var(--band); stroke-width: 1.8; stroke-dasharray: 6 4; }
svg .band { fill: var(--band); opacity: .17; stroke: none; }
svg .base { stroke: var(--ink); stroke-dasharray: 2 4; opacity: .65; }
svg .middle { stroke: var(--ink); stroke-width: 2.4; }
svg .roof { stroke: var(--ink); stroke-width: 2; }
svg .fail { stroke: var(--red); stroke-width: 1.8; }
svg circle, svg path.mark { stroke: var(--card); stroke-width: .8; }
svg .many { stroke-linecap: round; opacity: .75; }
svg .default { fill: var(--ink); }
svg .random { fill: var(--band); }
svg .seed { fill: var(--amber); }
svg .model { fill: var(--blue); }
svg .neighbour { fill: var(--teal); }
svg .grid-walk { fill: var(--plum); }
svg .other { fill: var(--soft); }
svg .winner { fill: var(--amber); }
svg .many.default { stroke: var(--ink); }
svg .many.random { stroke: var(--band); }
svg .many.seed { stroke: var(--amber); }
svg .many.model { stroke: var(--blue); }
svg .many.neighbour { stroke: var(--teal); }
svg .many.grid-walk { stroke: var(--plum); }
svg .many.other { stroke: var(--soft); }
svg .cell { fill: var(--blue); }
svg .untried { fill: none; stroke: var(--line); }
svg .bar { fill: var(--red); }
.key { display: flex; flex-wrap: wrap; gap: .2rem 1rem; font-size: .82rem; color: var(--soft); margin: .3rem 0 0; padding: 0;
  list-style: none; }
.key svg { display: inline-block; width: 22px; height: 12px; vertical-align: -1px; margin-right: .3rem; }
figure.narrow { max-width: 44rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .86rem; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .2rem .9rem .2rem 0; border-bottom: 1px solid var(--grid); vertical-align: top; }
th { color: var(--soft); font-weight: 600; white-space: nowrap; }
td.n, th.n { text-align: right; white-space: nowrap; }
td.long { overflow-wrap: break-word; }
details { margin-top: .4rem; }
summary { cursor: pointer; color: var(--soft); font-size: .84rem; }
pre { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: .8rem 1rem; overflow-x: auto;
  line-height: 1.45; margin: .5rem 0; }
.warn { border-left: 3px solid var(--amber); padding-left: .8rem; }
.meter { height: 10px; border-radius: 5px; background: var(--grid); overflow: hidden; max-width: 32rem; }
.meter i { display: block; height: 100%; background: var(--blue); }
@media print { body { background: none; } figure, .tile { break-inside: avoid; } }
"""
