"""The loop nest: its nodes, types and printed form, and how to walk, check and compare them."""

from tensorlang.ir.nodes import (
    BINARY as BINARY,
)
from tensorlang.ir.nodes import (
    COMPARE as COMPARE,
)
from tensorlang.ir.nodes import (
    MOST as MOST,
)
from tensorlang.ir.nodes import (
    UNARY as UNARY,
)
from tensorlang.ir.nodes import (
    Alloc as Alloc,
)
from tensorlang.ir.nodes import (
    Axis as Axis,
)
from tensorlang.ir.nodes import (
    Binary as Binary,
)
from tensorlang.ir.nodes import (
    Block as Block,
)
from tensorlang.ir.nodes import (
    Buffer as Buffer,
)
from tensorlang.ir.nodes import (
    Call as Call,
)
from tensorlang.ir.nodes import (
    Cast as Cast,
)
from tensorlang.ir.nodes import (
    Compare as Compare,
)
from tensorlang.ir.nodes import (
    Const as Const,
)
from tensorlang.ir.nodes import (
    Dim as Dim,
)
from tensorlang.ir.nodes import (
    Expr as Expr,
)
from tensorlang.ir.nodes import (
    For as For,
)
from tensorlang.ir.nodes import (
    Fuse as Fuse,
)
from tensorlang.ir.nodes import (
    If as If,
)
from tensorlang.ir.nodes import (
    Limit as Limit,
)
from tensorlang.ir.nodes import (
    Load as Load,
)
from tensorlang.ir.nodes import (
    LoopKind as LoopKind,
)
from tensorlang.ir.nodes import (
    Memory as Memory,
)
from tensorlang.ir.nodes import (
    Mentions as Mentions,
)
from tensorlang.ir.nodes import (
    Nest as Nest,
)
from tensorlang.ir.nodes import (
    Param as Param,
)
from tensorlang.ir.nodes import (
    Prefetch as Prefetch,
)
from tensorlang.ir.nodes import (
    Reduce as Reduce,
)
from tensorlang.ir.nodes import (
    ReduceAxis as ReduceAxis,
)
from tensorlang.ir.nodes import (
    Reducer as Reducer,
)
from tensorlang.ir.nodes import (
    Relation as Relation,
)
from tensorlang.ir.nodes import (
    Select as Select,
)
from tensorlang.ir.nodes import (
    Source as Source,
)
from tensorlang.ir.nodes import (
    Split as Split,
)
from tensorlang.ir.nodes import (
    Stmt as Stmt,
)
from tensorlang.ir.nodes import (
    Store as Store,
)
from tensorlang.ir.nodes import (
    Tail as Tail,
)
from tensorlang.ir.nodes import (
    Unary as Unary,
)
from tensorlang.ir.nodes import (
    Window as Window,
)
from tensorlang.ir.nodes import (
    allocate as allocate,
)
from tensorlang.ir.nodes import (
    block as block,
)
from tensorlang.ir.nodes import (
    const as const,
)
