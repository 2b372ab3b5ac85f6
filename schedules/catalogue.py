"""Every directive by the name of the method that makes it: the one table that traces, schedules and their tests read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tensorlang.schedules.accumulate import Accumulate
from tensorlang.schedules.cache_read import CacheRead
from tensorlang.schedules.cache_write import CacheWrite
from tensorlang.schedules.compute_at import ComputeAt
from tensorlang.schedules.compute_root import ComputeRoot
from tensorlang.schedules.decompose import DecomposeReduction
from tensorlang.schedules.directive import Directive
from tensorlang.schedules.fission import Fission
from tensorlang.schedules.fold_storage import FoldStorage
from tensorlang.schedules.fuse import Fuse
from tensorlang.schedules.inline import ComputeInline
from tensorlang.schedules.join import FuseLoops
from tensorlang.schedules.kinds import Parallel, Unroll, Vectorize
from tensorlang.schedules.layout import TransformLayout
from tensorlang.schedules.pack import Pack
from tensorlang.schedules.peel import Peel
from tensorlang.schedules.reorder import Reorder
from tensorlang.schedules.reverse_compute_at import ReverseComputeAt
from tensorlang.schedules.reverse_inline import ReverseComputeInline
from tensorlang.schedules.rfactor import Rfactor
from tensorlang.schedules.skew import Shift, Skew
from tensorlang.schedules.specialize import Specialize
from tensorlang.schedules.split import Split
from tensorlang.schedules.storage import Align, PadTo, SetMemory
from tensorlang.schedules.store_at import StoreAt
from tensorlang.schedules.store_root import StoreRoot
from tensorlang.schedules.tensorize import Tensorize
from tensorlang.schedules.traffic import PrefetchRegion, StreamStores

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
    "skew": Skew,
    "shift": Shift,
    "fission": Fission,
    "fuse_loops": FuseLoops,
    "specialize": Specialize,
    "rfactor": Rfactor,
    "decompose_reduction": DecomposeReduction,
}
NAMES: Final[Mapping[type[Directive], str]] = {kind: name for name, kind in DIRECTIVES.items()}
