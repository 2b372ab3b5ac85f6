"""The threads of parallel loops: a caller hands its loop to those that come, does what they leave, and waits for nobody who has not begun.

Generated code calls `GOMP_parallel(body, data, threads, 0)` and `omp_get_thread_num()`, the entry points of every OpenMP runtime, so that
an object also links where there is one; in this process they are ours. The body takes chunks of work until none is left. So any number
of threads may run it, and it need not be the number that was asked for.

    worker   sleeps in a slot of its own, in which a caller leaves its job; who begins it marks the slot as busy
    caller   leaves its job in free slots, wakes who sleeps there, runs the body itself, takes the job back where nobody has begun it,
             and waits for the others

That is what OpenMP's runtimes cannot do: their teams are of a fixed size, and a call waits for every member. Where the other core is busy,
both threads of a process share one: each spins while the other waits for its slice of time, and a loop of 20 us takes 8 ms. Here such a
loop takes as long as on one thread. Who waits spins for a while, and sleeps at once where the one that it waits for has the same core.

Slots are the process's. Several callers share them; one that finds none free runs its loop alone, as does a parallel loop inside another.
Threads are made when they are first needed, and one that cannot be made is done without. The child of a fork has none, and makes its own:
also where nobody announced the fork, a job that no thread begins is taken back.
"""

from __future__ import annotations

import ctypes
import os
from dataclasses import dataclass
from typing import Final

from tensorlang.codegen.llvm import binding
from tensorlang.codegen.llvm.binding import Library
from tensorlang.codegen.llvm.linked_once import LinkedOnce
from tensorlang.codegen.llvm.pipelines import Passes
from tensorlang.codegen.runtime import c_library, workers_ir
from tensorlang.codegen.target.caches import usable_cores
from tensorlang.errors import BuildError

SYMBOLS: Final = (workers_ir.PARALLEL, workers_ir.THREAD)
"""The entry points that generated code uses."""


@dataclass(frozen=True, slots=True)
class Workers:
    """The entry points of this process, and the code behind them; `together`: are there threads?"""

    library: Library
    together: bool

    def address(self, name: str) -> int:
        """Where an entry point is."""
        return self.library.address(name)

    def forget(self) -> None:
        """Believe in no threads: those of the parent are not in a forked child."""
        if self.together:
            ctypes.CFUNCTYPE(None)(self.address(workers_ir.FORGET))()


@LinkedOnce
def workers() -> Workers:
    """The threads of this process."""
    machine = binding.host()
    arch, system = binding.triple_parts(machine.triple)
    if arch in workers_ir.FUTEX and system == "linux":
        try:
            outside = {name: c_library.address(name) for name in workers_ir.OUTSIDE}
        except BuildError:
            return alone()
        made = binding.compile_module(workers_ir.module(arch), machine, Passes(level=0))  # it waits, or runs others' code
        found = Workers(binding.link(made.object, (*SYMBOLS, workers_ir.BEGIN, workers_ir.FORGET), outside), together=True)
        if ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int64)(found.address(workers_ir.BEGIN))(usable_cores()) == 0:
            return found
    return alone()


def alone() -> Workers:
    """The entry points where there are no threads: the caller runs the body."""
    made = binding.compile_module(workers_ir.ALONE, binding.host(), Passes(level=0))
    return Workers(binding.link(made.object, SYMBOLS, {}), together=False)


def _in_child() -> None:
    if workers.is_made():
        workers().forget()


os.register_at_fork(after_in_child=_in_child)
