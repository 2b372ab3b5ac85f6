"""Faults in what directives make of the place of a statement: conditions lost, bounds kept, elements left out, storage shared."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tensorlang import ir, lowering
from tensorlang.codegen import lower
from tensorlang.codegen.passes import partials, tails
from tensorlang.rules import TRUE
from tensorlang.schedules import (
    accumulate,
    cache_read,
    cache_write,
    compute_at,
    decompose,
    inside,
    join,
    kinds,
    orders,
    pack,
    peel,
    region,
    reorder,
    reverse_compute_at,
    rfactor,
    skew,
    specialize,
    store_at,
)

from .weaken import around, constant, every, in_nest
from .weaken_places import (
    all_of,
    at_least_once,
    bounds_kept,
    chosen_or_not,
    combined_from_second,
    copied_afterwards,
    data_conditions_lost,
    end_kept,
    first_not_run,
    last_copy_lost,
    lower_sides_lost,
    nest_as_it_is,
    second_first,
    told_by_closure,
    upper_sides_lost,
    versions_swapped,
    window_dropped,
)
from .weaken_steps import init_lost

Consumer = reverse_compute_at.ReverseComputeAt
Write = cache_write.CacheWrite

MISPLACED: Final[dict[str, tuple[str, Callable[[], None]]]] = {
    "tile-unguarded": (
        "the ends of an accumulated tile are loaded and stored without conditions",
        constant(accumulate, "access_guard", None),
    ),
    "partials-by-loops": ("rfactor takes loops for what says where a scatter stores", constant(rfactor.Rfactor, "_scattered", value=False)),
    "index-readable": ("what an index made anew reads counts as inside", constant(inside, "_require_readable", None)),
    "lower-side-lost": ("the lower side of an access made anew is not tested", every(inside, "sides_left", lower_sides_lost)),
    "upper-side-lost": ("the upper side of an access made anew is not tested", every(inside, "sides_left", upper_sides_lost)),
    "tile-covers-all": ("an accumulated tile counts as all of the tensor", constant(accumulate, "covers", value=True)),
    "consumer-covers-all": ("a consumer moved to its producer counts as complete", constant(reverse_compute_at, "left_out", None)),
    "consumer-unconditional": ("a consumer moved to its producer runs everywhere", constant(Consumer, "_within", TRUE)),
    "consumer-early": ("a consumer moves to before its operand is complete", constant(Consumer, "_require_order", None)),
    "slid-start-kept": (
        "a slid start stays where its producer moves again",
        all_of(around(compute_at, "unslid", nest_as_it_is), around(store_at, "unslid", nest_as_it_is)),
    ),
    "told-by-closure": ("an index tells every loop that it is derived from", around(orders, "told", told_by_closure)),
    "lanes-combined-anyway": ("lanes are combined where none of them ran", constant(partials, "_only_sometimes", value=False)),
    "starts-below-zero": ("storage for what begins below 0 is accepted", constant(store_at.StoreAt, "_require_starts", None)),
    "region-from-zero": ("what loops cover starts at 0 wherever they do", constant(region, "whole_start", ir.const(0))),
    "skewed-end-kept": ("a skewed or shifted loop ends where it did", around(skew, "_moved", end_kept)),
    "window-unguarded": ("the condition of skewed and shifted loops is lost", around(tails, "_define", window_dropped)),
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
    "copy-unreached": ("elements that were not computed are copied back", constant(Write, "_require_reached", None)),
    "copy-unconditional": ("a tile is copied back whatever conditions its statement had", constant(Write, "_conditions", ())),
    "producer-stale": ("a producer moves beyond what changes its operands", constant(compute_at.ComputeAt, "_require_unchanged", None)),
    "tile-bounds-vary": (
        "tiles whose bounds vary count as fixed",
        all_of(constant(accumulate, "require_fixed", None), constant(pack, "require_fixed", None)),
    ),
    "peel-first-lost": ("the first iterations that peel splits off are lost", every(peel.Peel, "apply", in_nest(first_not_run))),
    "exchange-bounds-kept": ("loops that change places keep bounds over each other", around(reorder, "exchanged", bounds_kept)),
    "joined-swapped": ("joined loops run the second body first", around(join, "block", second_first)),
    "versions-swapped": ("the versions of specialize change places", every(specialize.Specialize, "apply", versions_swapped)),
    "one-slot": ("the states of a scan share one slot", constant(lowering, "_slot", ir.const(0))),
    "data-conditions-lost": ("conditions on data are lost in code", every(lower, "realise", in_nest(data_conditions_lost))),
    "chosen-or-not": ("a reduction inside a choice runs whatever was chosen", around(lowering._Prelude, "_implicit", chosen_or_not)),
    "empty-runs": ("a loop whose extent is one of run time runs at least once", every(lower, "realise", in_nest(at_least_once))),
    "unroll-short": ("an unrolled loop leaves out its last iteration", every(lower, "realise", in_nest(last_copy_lost))),
    "partials-first-lost": ("the first partial result of rfactor is not combined", around(rfactor.Rfactor, "apply", combined_from_second)),
    "decompose-init-lost": (
        "decompose_reduction drops the initialisation",
        every(decompose.DecomposeReduction, "apply", in_nest(init_lost)),
    ),
    "copy-afterwards": ("cache_read copies after the use", every(cache_read.CacheRead, "apply", in_nest(copied_afterwards))),
    "storage-shared": ("threads may share storage that store_at placed", constant(store_at.StoreAt, "_require_apart", None)),
    "lanes-aligned": ("loops all of whose lanes store to one element may be vectors", constant(kinds, "aligned", None)),
}
