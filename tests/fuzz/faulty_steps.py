"""Faults of directives: proofs left out, conditions lost, bounds kept, elements left out, storage shared."""

from __future__ import annotations

from typing import Final

from tensorlang import ir
from tensorlang.algebra.rules import FALSE, TRUE
from tensorlang.schedules import schedule, trace
from tensorlang.schedules.directives import (
    accumulate,
    cache_read,
    cache_write,
    compute_at,
    compute_inline,
    decompose_reduction,
    fission,
    fuse_loops,
    loop_kinds,
    pack,
    peel,
    reorder,
    reverse_compute_at,
    rfactor,
    skew,
    specialize,
    split,
    store_at,
)
from tensorlang.schedules.legality import accesses, dependences, fused_loops, in_bounds, orders, refilled
from tensorlang.schedules.placement import sliding_window
from tensorlang.schedules.rewriting import region

from .weaken import Fault, around, constant, every, in_nest
from .weaken_places import (
    all_of,
    bounds_kept,
    combined_from_second,
    copied_afterwards,
    end_kept,
    first_not_run,
    lower_sides_lost,
    nest_as_it_is,
    second_first,
    told_by_closure,
    upper_sides_lost,
    versions_swapped,
)
from .weaken_proofs import choices_swapped, outer_counts_short, reads_unconditional, remainders_apart, storage_of
from .weaken_steps import (
    always_first,
    applied_anyway,
    axes_swapped,
    expansion_short,
    init_lost,
    last_not_run,
    last_step_lost,
    never_first,
    outer_tiles_floored,
    partials_not_cleared,
    reads_after_only,
    reducers_alike,
    span_late,
    span_short,
    store_back_lost,
    tail_lost,
    window_never_whole,
    window_too_far,
    writes_only,
)

STEPS: Final[dict[str, Fault]] = {
    "no-dependences": ("no two accesses ever conflict", constant(dependences, "conflict", None)),
    "no-races": ("parallel and vector loops never race", constant(loop_kinds, "race", None)),
    "no-order": ("loops may always change places", constant(reorder, "reordered", None)),
    "writes-only": ("only pairs of writes conflict", around(dependences, "pairs", writes_only)),
    "no-anti-dependences": ("a write after a read does not conflict", around(dependences, "pairs", reads_after_only)),
    "apart-always": ("indices of different iterations always differ", constant(dependences, "_identity_apart", value=True)),
    "accumulator-race": ("a parallel reduction is taken for safe", around(loop_kinds, "race", reducers_alike)),
    "shift-of-anything": ("tail='shift' recomputes reductions", constant(split.Split, "_require_idempotent", None)),
    "tiles-floored": ("a split leaves out its partial tile", around(split.Split, "apply", outer_tiles_floored)),
    "region-short": ("the region that a copy or a producer covers lacks its last element", every(region, "_span", span_short)),
    "region-late": ("the region that a copy or a producer covers starts one element late", every(region, "_span", span_late)),
    "region-beyond": ("regions at the border are not cut", around(compute_at, "may_exceed", lambda *_: False)),
    "copy-beyond": ("copies at the border are not cut", around(cache_read, "may_exceed", lambda *_: False)),
    "window-too-far": ("a sliding window leaves out a row that is new", around(sliding_window, "_after", window_too_far)),
    "window-never-whole": ("a sliding window is not computed whole at first", every(sliding_window, "_after", window_never_whole)),
    "window-of-anything": ("values that change between iterations are kept", constant(sliding_window, "_steady", value=True)),
    "expansion-short": ("storage between the parts of a fission lacks the last iteration", around(fission, "_widened", expansion_short)),
    "fission-unordered": ("statements are taken apart whatever they need", constant(fission, "overtaken", None)),
    "joined-unordered": ("loops are joined whatever their statements need", constant(fuse_loops, "overtaken", None)),
    "pack-unguarded": ("packing copies what lies outside", constant(pack, "access_guard", None)),
    "inline-axes-swapped": ("inlining swaps the axes of the producer", around(compute_inline, "substitute", axes_swapped)),
    "tile-always-fresh": ("an accumulated tile starts from the identity each time", every(accumulate.Accumulate, "_first", always_first)),
    "tile-never-fresh": ("an accumulated tile is never initialised", every(accumulate.Accumulate, "_first", never_first)),
    "tile-not-stored": ("an accumulated tile is not stored", every(accumulate.Accumulate, "apply", in_nest(store_back_lost))),
    "partials-not-cleared": (
        "the partial results of rfactor are not initialised",
        every(rfactor.Rfactor, "apply", in_nest(partials_not_cleared)),
    ),
    "peel-last-lost": ("the last iterations that peel splits off are lost", every(peel.Peel, "apply", in_nest(last_not_run))),
    "refusal-changes": ("a refused directive is recorded", around(schedule.Schedule, "_error", applied_anyway)),
    "json-last-step": ("JSON leaves out the last step", around(trace, "to_json", last_step_lost)),
    "json-tail": ("JSON leaves out the tail of a split", around(trace, "fields", tail_lost)),
    "tile-unguarded": (
        "the ends of an accumulated tile are loaded and stored without conditions",
        constant(accumulate, "access_guard", None),
    ),
    "partials-by-loops": ("rfactor takes loops for what says where a scatter stores", constant(rfactor.Rfactor, "_scattered", value=False)),
    "index-readable": ("what an index made anew reads counts as inside", constant(in_bounds, "_require_readable", None)),
    "lower-side-lost": ("the lower side of an access made anew is not tested", every(in_bounds, "sides_left", lower_sides_lost)),
    "upper-side-lost": ("the upper side of an access made anew is not tested", every(in_bounds, "sides_left", upper_sides_lost)),
    "tile-covers-all": ("an accumulated tile counts as all of the tensor", constant(accumulate, "covers", value=True)),
    "consumer-covers-all": ("a consumer moved to its producer counts as complete", constant(reverse_compute_at, "left_out", None)),
    "consumer-unconditional": (
        "a consumer moved to its producer runs everywhere",
        constant(reverse_compute_at.ReverseComputeAt, "_within", TRUE),
    ),
    "consumer-early": (
        "a consumer moves to before its operand is complete",
        constant(reverse_compute_at.ReverseComputeAt, "_require_order", None),
    ),
    "slid-start-kept": (
        "a slid start stays where its producer moves again",
        all_of(around(compute_at, "unslid", nest_as_it_is), around(store_at, "unslid", nest_as_it_is)),
    ),
    "told-by-closure": ("an index tells every loop that it is derived from", around(orders, "told", told_by_closure)),
    "starts-below-zero": ("storage for what begins below 0 is accepted", constant(store_at.StoreAt, "_require_starts", None)),
    "region-from-zero": ("what loops cover starts at 0 wherever they do", constant(region, "whole_start", ir.const(0))),
    "skewed-end-kept": ("a skewed or shifted loop ends where it did", around(skew, "_moved", end_kept)),
    "partials-twice": ("partial results may be combined twice", constant(rfactor, "repeated", None)),
    "tile-not-apart": (
        "tiles and copies of different iterations may share elements",
        all_of(constant(accumulate, "require_distinct", None), constant(cache_write, "require_distinct", None)),
    ),
    "tile-visited-again": ("a tile that is visited again starts anew", constant(accumulate, "repeated", None)),
    "places-change": (
        "copies are made though what says where changes meanwhile",
        all_of(*(constant(module, "require_early", None) for module in (pack, cache_read, cache_write, accumulate))),
    ),
    "copy-unreached": ("elements that were not computed are copied back", constant(cache_write.CacheWrite, "_require_reached", None)),
    "copy-unconditional": (
        "a tile is copied back whatever conditions its statement had",
        constant(cache_write.CacheWrite, "_conditions", ()),
    ),
    "producer-stale": ("a producer moves beyond what changes its operands", constant(compute_at, "require_unchanged", None)),
    "tile-bounds-vary": (
        "tiles whose bounds vary count as fixed",
        all_of(constant(accumulate, "require_fixed", None), constant(pack, "require_fixed", None)),
    ),
    "peel-first-lost": ("the first iterations that peel splits off are lost", every(peel.Peel, "apply", in_nest(first_not_run))),
    "exchange-bounds-kept": ("loops that change places keep bounds over each other", around(reorder, "exchanged", bounds_kept)),
    "joined-swapped": ("joined loops run the second body first", around(fuse_loops, "block", second_first)),
    "versions-swapped": ("the versions of specialize change places", every(specialize.Specialize, "apply", versions_swapped)),
    "partials-first-lost": ("the first partial result of rfactor is not combined", around(rfactor.Rfactor, "apply", combined_from_second)),
    "decompose-init-lost": (
        "decompose_reduction drops the initialisation",
        every(decompose_reduction.DecomposeReduction, "apply", in_nest(init_lost)),
    ),
    "copy-afterwards": ("cache_read copies after the use", every(cache_read.CacheRead, "apply", in_nest(copied_afterwards))),
    "storage-shared": ("threads may share storage that store_at placed", constant(store_at.StoreAt, "_require_private", None)),
    "last-write-anywhere": ("the last write of an element may be another one", constant(orders, "none_last", [FALSE])),
    "told-always": ("an element tells all that is stored in it, whatever its index", constant(orders, "told", value=True)),
    "read-before-write": ("a read may come before the only write of what it reads", constant(dependences, "written_before", [FALSE])),
    "storage-new-always": ("all storage counts as overwritten first by each iteration", around(orders, "refilled", storage_of)),
    "refilled-in-part": ("a store counts as filling elements that it leaves out", constant(refilled, "uncovered", None)),
    "unread-always": ("no element that two stores write counts as read", constant(dependences, "unread", value=True)),
    "fused-outer-short": ("a fused loop has one outer iteration less in proofs", every(fused_loops, "_most_rows", outer_counts_short)),
    "fused-inner-apart": (
        "iterations of a fused loop count as apart along the inner axis",
        around(fused_loops, "_of_two", remainders_apart),
    ),
    "choices-swapped": ("proofs take the two sides of a choice for each other", around(accesses, "_reads", choices_swapped)),
    "conditions-unread": ("what conditions read is overlooked by proofs", around(accesses, "_reads", reads_unconditional)),
    "lanes-bounds-vary": ("loops inside lanes may have bounds that depend on the lane", constant(loop_kinds, "closure", frozenset())),
}
