"""Two ways to run a graph: by the reference evaluator, which is what it means, and as kernels of the library."""
