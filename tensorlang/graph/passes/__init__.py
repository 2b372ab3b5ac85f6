"""Passes: plain functions from graph to graph. None changes what it is given, and what it gives is verified.

    dead_code                 nodes and constants that reach no output are left out
    common_subexpressions     what is computed twice from the same is computed once
    fold_constants            what reads constants alone is a constant
    simplify                  algebra that changes no bit; `simplify_fast` more of it
    fold_batch_norm           a batch norm goes into the layer before it
    sink_permutes             permutations go through pointwise nodes, meet and cancel, and end in products
    channels_last             convolutions of images with channels last, where that is estimated faster
    winograd                  convolutions of 3 x 3 by fewer products, where that is estimated faster
    partition                 the parts of a graph that named targets take
    with_indices_inside       the same graph; refuses one that holds indices outside of what they index

`passes.apply(graph, passes.standard, mine)` runs several, and says by its name which one broke a graph. `standard` is what
`Graph.compile` runs unless it is told otherwise.
"""

from __future__ import annotations

from typing import Final

from tensorlang.graph.passes.algebra import simplify, simplify_fast
from tensorlang.graph.passes.batch_norm import fold_batch_norm
from tensorlang.graph.passes.cleaning import common_subexpressions, dead_code
from tensorlang.graph.passes.convolutions import winograd
from tensorlang.graph.passes.folding import fold_constants
from tensorlang.graph.passes.images import channels_last
from tensorlang.graph.passes.indices import with_indices_inside
from tensorlang.graph.passes.layout import sink_permutes
from tensorlang.graph.passes.manager import Application, Pass, Pipeline, Trace, apply, trace
from tensorlang.graph.passes.partitioning import Part, Partition, partition

standard: Final = Pipeline(
    (dead_code, common_subexpressions, fold_constants, simplify, fold_batch_norm, sink_permutes, fold_constants, common_subexpressions),
    "standard",
)
"""What can be done without a question: results have the same bits but for folded batch norms, and for constants computed beforehand."""
fast: Final = Pipeline((*standard.passes[:-2], simplify_fast, *standard.passes[-2:]), "fast")
"""The same, and algebra that holds for real numbers: results may differ in their last digits, and where something is NaN or infinite."""

__all__ = [
    "Application",
    "Part",
    "Partition",
    "Pass",
    "Pipeline",
    "Trace",
    "apply",
    "channels_last",
    "common_subexpressions",
    "dead_code",
    "fast",
    "fold_batch_norm",
    "fold_constants",
    "partition",
    "simplify",
    "simplify_fast",
    "sink_permutes",
    "standard",
    "trace",
    "winograd",
    "with_indices_inside",
]
