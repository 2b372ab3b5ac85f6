"""Function, lambda, Einstein: an operator, index expressions, `einsum` and Tensor Comprehensions come to one program and one key."""

import tensorlang as tl
from tensorlang import kernels

A, B = tl.placeholder((8, 4), name="A"), tl.placeholder((4, 6), name="B")
k = tl.reduce_axis(4, name="k")
spellings = {
    "function": tl.ops.matmul(A, B),
    "lambda": tl.compute((8, 6), lambda i, j: tl.sum(A[i, k] * B[k, j], axis=k), name="matmul"),
    "einsum": tl.einsum("ik,kj->ij", A, B),
}
keys = {name: kernels.key(tensor) for name, tensor in spellings.items()}
print(keys)
assert len(set(keys.values())) == 1
