"""An instruction of one's own: tell the compiler what it computes, and how to ask LLVM for it.

`pmaddwd` multiplies pairs of 16-bit integers and adds each pair into 32 bits. As an instruction it is a definition of a tile, a function
that builds its code (or the name of an LLVM intrinsic), and the CPU features that it needs. `tensorize` proves that the loops compute
exactly that definition. Where the CPU lacks the feature the loops run instead, with the same result.

    python examples/own_instruction.py
"""

from typing import Any

import numpy as np

import tensorlang as tl
from tensorlang.schedules.directives.instructions import Register

LANES, PAIR = 8, 2
M, N, K = 16, 32, 64

a, b = tl.placeholder((PAIR,), "int16", name="a"), tl.placeholder((LANES, PAIR), "int16", name="b")
p = tl.reduce_axis(PAIR, name="p")
tile = tl.compute((LANES,), lambda i: tl.sum(tl.cast(a[p], "int32") * tl.cast(b[i, p], "int32"), axis=p), name="c")


def multiply_pairs(builder: Any, c: Any, x: Any, y: Any) -> Any:
    """`c + pmaddwd(x, y)` by an llvmlite builder."""
    from llvmlite import ir  # noqa: PLC0415 - needed only where the code is made

    name = "llvm.x86.avx2.pmadd.wd"
    function = builder.module.globals.get(name) or ir.Function(builder.module, ir.FunctionType(c.type, [x.type, y.type]), name)
    return builder.add(c, builder.call(function, [x, y]))


pmaddwd = tl.Instruction(
    "pmaddwd",
    tile,
    multiply_pairs,
    (Register("c", "i32", LANES), Register("a", "i16", LANES * PAIR, repeat=LANES), Register("b", "i16", LANES * PAIR)),
    frozenset({"avx2"}),
)

# A product of 16-bit integers whose loops are those of the instruction, inside the loops over its tiles.
A, B = tl.placeholder((M, K), "int16", name="A"), tl.placeholder((N, K), "int16", name="B")
k = tl.reduce_axis(K, name="k")
C = tl.compute((M, N), lambda i, j: tl.sum(tl.cast(A[i, k], "int32") * tl.cast(B[j, k], "int32"), axis=k), name="C")

s = tl.Schedule(C)
j_o, j_i = s.split("C.j", LANES)
k_o, k_i = s.split("C.k", PAIR)
s.reorder(j_o, "C.i", k_o, j_i, k_i)

# As `B` lies in memory, the pairs of eight rows are far apart: the instruction would read something else, and that is noticed.
refused = s.can("tensorize", j_i, pmaddwd).error
assert refused is not None
print(f"not yet: {refused.reason}\n")

s.pack("B", at=j_o)
s.tensorize("C.j_i", pmaddwd)
print(s)

multiply = tl.build(s)
x, y = np.random.default_rng(0).integers(-1000, 1000, (2, 64, K), "int16")
np.testing.assert_array_equal(multiply(x[:M], y[:N]), x[:M].astype("int32") @ y[:N].astype("int32").T)
print(f"\nas NumPy; vpmaddwd is {'' if 'pmaddwd' in multiply.inspect('asm') else 'not '}in the code for {multiply.target.name}")
