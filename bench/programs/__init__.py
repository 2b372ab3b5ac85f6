"""Programs as researchers write them, without a line of schedule, beside loops that Numba compiles with fastmath, JAX and `torch.compile`.

    python -m bench.programs                      all of them, by their default schedules, on one thread
    python -m bench.programs viterbi unsharp      some of them
    python -m bench.programs --tune 60            each tuned as well, for at most a minute
    python -m bench.programs --peers all          beside whole-array forms in JAX and torch as well
    python -m bench.programs --threads            what two threads gain, of those that take more than a millisecond
    python -m bench.programs --page               the table of this machine in docs/performance.md

Those of `linear`, `pictures`, `fronts` and `outside` were written later, to find what the first do not show. So were parts of models
(`models`, `attention`, `convolutions`, `sequences`), of solvers and tables (`solvers`, `fields`, `matrices`, `counts`); and pipelines that
Halide is known for (`photographs`, `pyramids`, `cameras`), beside which it takes part (`halide`), by hand and by two autoschedulers.

Each program is a definition, operands, and the loops that someone would write by hand for it: fused where that is natural, and no more;
`whole` has it once more as arrays. What all compute is compared. They take turns in one process, in its time, and a row is the median of
the ratios of the turns.
"""
