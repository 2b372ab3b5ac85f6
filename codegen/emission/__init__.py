"""LLVM IR of a lowered nest, written as text that LLVM compiles as it stands."""
