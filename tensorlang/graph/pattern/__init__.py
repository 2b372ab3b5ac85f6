"""Patterns: which part of a graph is meant, where it is found, and why not.

from tensorlang.graph import pattern as pm

def linear_bn(pm):
    x, weight = pm.Wildcard(), pm.Wildcard().bind("weight")
    bias = pm.Tensor().bind("bias") | pm.Absent()
    linear = pm.Op("linear", args=(x, weight, bias)).bind("linear")
    return pm.Op("batch_norm", args=(linear, ...)).bind("bn")

for match in pm.match_all(graph, linear_bn): match["weight"]; "bias" in match
pm.explain(graph, linear_bn)                             what comes near, and what stands in the way
pm.assert_pass(run, graph, before=linear_bn, after=...)  a pass, tested by patterns
"""

from tensorlang.graph.pattern.asserting import assert_pass
from tensorlang.graph.pattern.explaining import Explanation, NearMiss, explain
from tensorlang.graph.pattern.matches import Match, match_all
from tensorlang.graph.pattern.patterns import Absent, Attr, Chain, Op, Opt, Pattern, Tensor, Wildcard

__all__ = [
    "Absent",
    "Attr",
    "Chain",
    "Explanation",
    "Match",
    "NearMiss",
    "Op",
    "Opt",
    "Pattern",
    "Tensor",
    "Wildcard",
    "assert_pass",
    "explain",
    "match_all",
]
