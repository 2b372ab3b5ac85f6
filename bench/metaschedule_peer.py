"""TVM's side of `bench.metaschedule`: runs in a Python that has TVM (nothing of tensorlang is needed there), one operator in a folder.

    python bench/metaschedule_peer.py tune OPERATOR FOLDER TRIALS BATCH SEED     searches; its database stays in FOLDER
    python bench/metaschedule_peer.py serve OPERATOR FOLDER                      runs its best kernel on FOLDER/inputs.npz, then times it

Searching and timing are two processes, so that nothing of a search is alive when its winner is timed. An answer is one line of JSON on
stdout; whatever TVM prints goes to stderr. `serve` answers when FOLDER/output.npy is there, then for each number that it reads the
seconds that so many calls take, until its input ends.
"""

from __future__ import annotations

import json
import math
import os
import sys
import time
import timeit
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, TextIO

import numpy as np
import tvm
import tvm.s_tir.tensor_intrin  # takes many seconds: not on the clock
from tvm import te, topi
from tvm.s_tir import meta_schedule
from tvm.s_tir.transform import RemoveWeightLayoutRewriteBlock
from tvm.target import codegen

DEFINITIONS: Final[Mapping[str, Callable[..., Any]]] = {
    "matmul": topi.matmul,
    "conv2d": lambda x, w: topi.nn.conv2d_nchw(x, w, 1, 1, 1),
    "softmax": topi.nn.fast_softmax,
    "depthwise_conv2d": lambda x, w: topi.nn.depthwise_conv2d_nchw(x, w, 1, 1, 1),
}
"""TVM's own definitions, without a schedule; softmax by the one that is faster, with a vector exponential of its own in place of libm's."""
FAILED_S: Final = 1e9
"""A failed trial has a time above this in TVM's database."""


def inputs(folder: Path) -> list[np.ndarray[Any, Any]]:
    """The operands, in order."""
    with np.load(folder / "inputs.npz") as file:
        return [file[name] for name in file.files]


def program(operator: str, operands: list[np.ndarray[Any, Any]]) -> tuple[Any, tuple[int, ...]]:
    """The module that is tuned, and the shape of its result."""
    tensors = [te.placeholder(array.shape, array.dtype.name, name=f"operand{place}") for place, array in enumerate(operands)]
    result = DEFINITIONS[operator](*tensors)
    function = te.create_prim_func([*tensors, result]).with_attr("global_symbol", "main")
    return tvm.IRModule({"main": function}), tuple(int(extent) for extent in result.shape)


def target() -> Any:
    """This CPU, one thread: both are in the target, as MetaSchedule's rules for vectors and threads ask it."""
    cpu = {"mtriple": codegen.llvm_get_system_triple(), "mcpu": codegen.llvm_get_system_cpu()}
    return tvm.target.Target({"kind": "llvm", "num-cores": 1, **cpu})


def build(module: Any, target: Any, _: object) -> Any:
    """What MetaSchedule's builders do, without loading every processor's intrinsics first.

    Builders are started anew for every batch, and their 16 s of loading, for nothing that these operators need, would count as search
    (and on a busy machine exceed the time that a build may take).
    """
    return tvm.driver.build(RemoveWeightLayoutRewriteBlock(skip_tensor_rewrite=True)(module), target=target)


def tune(operator: str, folder: Path, trials: int, batch: int, seed: int) -> dict[str, Any]:
    """Search, compiling on all cores; the wall time is that of the search alone, without loading TVM."""
    module, _ = program(operator, inputs(folder))
    builder = meta_schedule.builder.LocalBuilder(f_build=build)  # as many processes as cores
    start = time.perf_counter()
    database = meta_schedule.tir_integration.tune_tir(
        module, target(), str(folder), trials, num_trials_per_iter=batch, num_tuning_cores="logical", builder=builder, seed=seed
    )
    wall = time.perf_counter() - start
    times = [sum(map(float, record.run_secs)) / len(record.run_secs) for record in database.get_all_tuning_records() if record.run_secs]
    valid = [seconds for seconds in times if math.isfinite(seconds) and seconds < FAILED_S]
    return {
        "tvm": tvm.__version__,
        "target": str(target()),
        "wall_seconds": wall,
        "trials": len(times),
        "failed": len(times) - len(valid),
        "reported_seconds": min(valid, default=None),
    }


def serve(operator: str, folder: Path, answers: TextIO) -> None:
    """Run the best kernel once, then time it on demand; the result goes to the same array in every call."""
    operands = inputs(folder)
    module, shape = program(operator, operands)
    schedule = meta_schedule.tir_integration.compile_tir(meta_schedule.database.JSONDatabase(work_dir=str(folder)), module, target())
    kernel = tvm.compile(schedule.mod, target())["main"]
    tensors = [tvm.runtime.tensor(array) for array in operands]
    result = tvm.runtime.empty(shape, operands[0].dtype.name)
    kernel(*tensors, result)
    np.save(folder / "output.npy", result.numpy())
    names = [f"operand{place}" for place in range(len(tensors))]
    call = f"kernel({', '.join(names)}, result)"
    timer = timeit.Timer(call, globals={**dict(zip(names, tensors, strict=True)), "kernel": kernel, "result": result})
    print("true", file=answers, flush=True)
    for line in sys.stdin:
        print(json.dumps(timer.timeit(int(line))), file=answers, flush=True)


def main(arguments: list[str]) -> None:
    """Do as the module says."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    match arguments:
        case ["tune", operator, folder, trials, batch, seed]:
            print(json.dumps(tune(operator, Path(folder), int(trials), int(batch), int(seed))), file=answers, flush=True)
        case ["serve", operator, folder]:
            serve(operator, Path(folder), answers)
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
