"""XLA: what a compiled program costs is asked for, operations, bytes and workspace, before and without running it."""

from tensorlang import kernels

product = kernels.Spec("matmul", ((128, 64), (64, 32)))
kernel = kernels.compile(product)
cost = kernel.cost()
print(cost)
assert cost["flops"] == 2 * 128 * 64 * 32

estimate = kernels.estimate(product)  # nothing is compiled for this
print(estimate)
assert kernel.workspace_bytes >= 0
