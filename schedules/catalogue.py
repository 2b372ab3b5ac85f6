"""Every directive by the name of the method that makes it: the one table that traces, schedules and their tests read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tensorlang.schedules.directive import Directive
from tensorlang.schedules.directives.accumulate import Accumulate
from tensorlang.schedules.directives.by_cases import ByCases
from tensorlang.schedules.directives.cache_read import CacheRead
from tensorlang.schedules.directives.cache_write import CacheWrite
from tensorlang.schedules.directives.compute_at import ComputeAt
from tensorlang.schedules.directives.compute_inline import ComputeInline
from tensorlang.schedules.directives.compute_root import ComputeRoot
from tensorlang.schedules.directives.decompose_reduction import DecomposeReduction
from tensorlang.schedules.directives.fission import Fission
from tensorlang.schedules.directives.fold_storage import FoldStorage
from tensorlang.schedules.directives.fuse import Fuse
from tensorlang.schedules.directives.fuse_loops import FuseLoops
from tensorlang.schedules.directives.hoist import Hoist
from tensorlang.schedules.directives.join_reductions import JoinReductions
from tensorlang.schedules.directives.loop_kinds import Parallel, Unroll, Vectorize
from tensorlang.schedules.directives.memory_traffic import PrefetchRegion, StreamStores
from tensorlang.schedules.directives.narrow import Narrow
from tensorlang.schedules.directives.pack import Pack
from tensorlang.schedules.directives.partition import Partition
from tensorlang.schedules.directives.peel import Peel
from tensorlang.schedules.directives.reorder import Reorder
from tensorlang.schedules.directives.reuse import Reuse
from tensorlang.schedules.directives.reverse_compute_at import ReverseComputeAt
from tensorlang.schedules.directives.reverse_compute_inline import ReverseComputeInline
from tensorlang.schedules.directives.rfactor import Rfactor
from tensorlang.schedules.directives.scatter import Scatter
from tensorlang.schedules.directives.separate import Separate
from tensorlang.schedules.directives.share import Share
from tensorlang.schedules.directives.skew import Shift, Skew
from tensorlang.schedules.directives.specialize import Specialize
from tensorlang.schedules.directives.split import Split
from tensorlang.schedules.directives.storage import Align, PadTo, SetMemory
from tensorlang.schedules.directives.store_at import StoreAt
from tensorlang.schedules.directives.store_root import StoreRoot
from tensorlang.schedules.directives.tensorize import Tensorize
from tensorlang.schedules.directives.transform_layout import TransformLayout
from tensorlang.schedules.directives.trim import Trim

DIRECTIVES: Final[Mapping[str, type[Directive]]] = {
    "split": Split,
    "fuse": Fuse,
    "reorder": Reorder,
    "unroll": Unroll,
    "vectorize": Vectorize,
    "parallel": Parallel,
    "compute_at": ComputeAt,
    "compute_inline": ComputeInline,
    "cache_read": CacheRead,
    "pack": Pack,
    "accumulate": Accumulate,
    "compute_root": ComputeRoot,
    "store_at": StoreAt,
    "store_root": StoreRoot,
    "fold_storage": FoldStorage,
    "reverse_compute_at": ReverseComputeAt,
    "reverse_compute_inline": ReverseComputeInline,
    "cache_write": CacheWrite,
    "set_memory": SetMemory,
    "transform_layout": TransformLayout,
    "pad_to": PadTo,
    "align": Align,
    "prefetch": PrefetchRegion,
    "stream_stores": StreamStores,
    "tensorize": Tensorize,
    "peel": Peel,
    "partition": Partition,
    "skew": Skew,
    "shift": Shift,
    "fission": Fission,
    "fuse_loops": FuseLoops,
    "specialize": Specialize,
    "rfactor": Rfactor,
    "decompose_reduction": DecomposeReduction,
    "join_reductions": JoinReductions,
    "narrow": Narrow,
    "hoist": Hoist,
    "scatter": Scatter,
    "separate": Separate,
    "share": Share,
    "reuse": Reuse,
    "trim": Trim,
    "by_cases": ByCases,
}
NAMES: Final[Mapping[type[Directive], str]] = {kind: name for name, kind in DIRECTIVES.items()}
