"""Machine code: lowering, LLVM, kernels, threads."""
