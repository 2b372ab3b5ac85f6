"""Faults of what makes nests of definitions, and machine code of nests."""

from __future__ import annotations

from typing import Final

from tensorlang import ir
from tensorlang.codegen.emission import access, affine, arithmetic, expression, integers, memory, parallel, storage
from tensorlang.codegen.lowering import lower
from tensorlang.codegen.lowering.passes import bounds, guards, partials, tails, vectors
from tensorlang.ir import Block
from tensorlang.lowering import nests
from tensorlang.schedules.directives import fuse

from .weaken import (
    Fault,
    around,
    as_signed,
    bad_chunks,
    bound_long,
    bound_short,
    chunk_shifted,
    constant,
    else_unmasked,
    every,
    fuse_extent_wrong,
    fuse_swapped,
    guard_dropped,
    guard_too_narrow,
    guard_too_wide,
    heap_too_small,
    in_nest,
    lanes_down,
    last_pair_lost,
    masks_lost,
    offset_of_eight_bits,
    partial_starts_at_one,
    peel_main_too_long,
    rest_of_chunks_lost,
    rest_unguarded,
    rewritten,
    rows_by_first_extent,
    shared_counter_lost,
    shift_start_wrong,
    slow_like_fast,
    split_stride_wrong,
    stack_too_small,
    table_row,
    truncated,
    unmasked_load,
    unmasked_store,
    whole_at_start,
    window_late,
)
from .weaken_places import at_least_once, chosen_or_not, data_conditions_lost, last_copy_lost
from .weaken_steps import fused_too_short, init_lost, simplified_wrongly, starts_at_zero, where_lost

CODE: Final[dict[str, Fault]] = {
    "guard-dropped": ("the condition of a partial tile is lost", around(tails, "_define", guard_dropped)),
    "guard-too-wide": ("the condition of a partial tile lets one iteration too many run", around(tails, "_define", guard_too_wide)),
    "guard-too-narrow": ("the condition of a partial tile stops one iteration early", around(tails, "_define", guard_too_narrow)),
    "skewed-late": ("skewed and shifted loops start one iteration late", around(tails, "_define", window_late)),
    "fuse-swapped": ("the two axes of a fused loop change places", around(tails, "_define", fuse_swapped)),
    "fuse-extent-wrong": ("a fused loop divides by the extent plus one", around(tails, "_define", fuse_extent_wrong)),
    "split-stride-wrong": ("tiles are one element too close together", around(tails, "_define", split_stride_wrong)),
    "shift-start-wrong": ("the last tile of a shift split starts one element early", around(tails, "_define", shift_start_wrong)),
    "divides-always": ("every extent counts as a multiple of its factor", constant(tails, "_divides", value=True)),
    "peel-rest-dropped": ("the remainder of a peeled split is lost", constant(tails, "_inside", Block(()))),
    "peel-rest-unguarded": ("the remainder of a peeled split runs a whole tile", around(tails, "_inside", rest_unguarded)),
    "peel-main-too-long": ("the main part of a peeled split includes the remainder", around(tails, "_peel", peel_main_too_long)),
    "hoist-slow-unguarded": (
        "both versions of a versioned tile run without conditions",
        every(lower, "hoist", lambda stmt: rewritten(stmt, slow_like_fast)),
    ),
    "whole-tile-test-weak": (
        "the test for a whole tile looks at its first element",
        around(guards, "_most", lambda _old, *a: whole_at_start(*a)),
    ),
    "bound-short": ("a condition that becomes a loop bound loses an iteration", around(bounds, "bounded", bound_short)),
    "bound-lost": ("a condition that becomes a loop bound is dropped", around(bounds, "bounded", bound_long)),
    "lanes-last-pair-lost": ("a vector reduction loses a pair of partial results", around(partials, "_vector", last_pair_lost)),
    "lanes-start-at-one": ("the partial results of a vector reduction start at 1", around(partials, "_vector", partial_starts_at_one)),
    "lanes-share-storage": ("storage inside a vector loop is shared by the lanes", around(lower, "privatise", lambda _old, stmt, *_: stmt)),
    "chunk-rest-lost": ("lanes beyond the last whole register are lost", around(vectors, "_chunks", rest_of_chunks_lost)),
    "chunk-shifted": ("registers of a wide vector loop overlap by one lane", around(vectors, "_shifted", chunk_shifted)),
    "masks-lost": ("the innermost mask of a vector statement is lost", around(vectors, "_distributed", masks_lost)),
    "else-unmasked": ("the other side of a masked choice runs under the same mask", around(expression, "unary", else_unmasked)),
    "wrong-stride": ("rows are as long as the first extent", around(affine.PolynomialScope, "offset", rows_by_first_extent)),
    "index-wraps": ("element offsets wrap (as 32-bit ones would in large arrays) at 128", around(access, "address", offset_of_eight_bits)),
    "offset-twice": (
        "the constant of an offset is added twice",
        around(affine.Polynomial, "without_offset", lambda _old, whole: whole),
    ),
    "lanes-reversed": ("lanes count downwards in computed indices", around(access, "_atom", lanes_down)),
    "step-one": (
        "every strided access is contiguous",
        every(access, "classify", lambda found: affine.Strided(1) if isinstance(found, affine.Strided) else found),
    ),
    "store-unmasked": ("masked stores write every lane", around(memory, "store", unmasked_store)),
    "load-unmasked": ("masked loads read every lane", around(memory, "load", unmasked_load)),
    "heap-too-small": ("heap storage has half its extents", around(storage, "_heap", heap_too_small)),
    "stack-too-small": ("a tile on the stack has one row", around(storage, "_allocate", stack_too_small)),
    "division-truncates": ("// rounds towards zero", table_row(integers.SIGNED, "floordiv", truncated)),
    "unsigned-as-signed": ("unsigned comparisons are signed", around(expression, "compare", as_signed)),
    "nan-dropped": ("max ignores NaN", table_row(arithmetic._FLOATING, "max", arithmetic._FLOATING["fmax"])),
    "thread-chunk-short": ("threads leave out the last iteration of a chunk", bad_chunks(-1)),
    "thread-chunk-long": ("threads run one iteration of the next chunk", bad_chunks(1)),
    "thread-counter-lost": ("every thread runs every iteration", around(parallel, "_run_shares", shared_counter_lost)),
    "fused-too-short": ("a fused loop leaves out its last iteration", around(fuse.Fuse, "apply", fused_too_short)),
    "where-lost": ("where= of a reduction is ignored", around(nests._DefinitionLowering, "update", where_lost)),
    "identity-zero": ("every reduction starts at 0", around(nests._DefinitionLowering, "_reduction", starts_at_zero)),
    "init-lost": ("reductions are not initialised", every(lower, "realise", in_nest(init_lost))),
    "lanes-combined-anyway": ("lanes are combined where none of them ran", constant(partials, "_only_sometimes", value=False)),
    "one-slot": ("the states of a scan share one slot", constant(nests, "_slot", ir.const(0))),
    "data-conditions-lost": ("conditions on data are lost in code", every(lower, "realise", in_nest(data_conditions_lost))),
    "chosen-or-not": ("a reduction inside a choice runs whatever was chosen", around(nests._Prelude, "implicit", chosen_or_not)),
    "empty-runs": ("a loop whose extent is one of run time runs at least once", every(lower, "realise", in_nest(at_least_once))),
    "unroll-short": ("an unrolled loop leaves out its last iteration", every(lower, "realise", in_nest(last_copy_lost))),
    "mod-wrong": ("x % 3 simplifies to x", around(tails, "simplify", simplified_wrongly)),
}
