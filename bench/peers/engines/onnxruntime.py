"""ONNX Runtime: a session of the model, bound to arrays that are there."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from bench.peers import onnx_models
from bench.peers.engines import Candidate, Makers, kept, missing
from bench.peers.layouts import in_nchw
from bench.peers.workload import Array, Workload, blank


def available() -> str | None:
    """Why not, if not."""
    return missing("onnx", "onnxruntime")


def make(workload: Workload, operands: Sequence[Array]) -> Makers:
    """One session; it has no bfloat16 product on CPUs."""
    return in_nchw(session, workload, operands)


def session(workload: Workload, operands: Sequence[Array]) -> Makers:
    """Of the model, if there is one."""
    if workload.operator not in onnx_models.OPERATORS or workload.types[0] == "bfloat16":
        return {}
    return {"": functools.partial(candidate, workload, operands)}


def candidate(workload: Workload, operands: Sequence[Array]) -> Candidate:
    """The runtime writes into our array, so it allocates nothing that we could spare it."""
    import onnxruntime  # noqa: PLC0415 - an optional peer

    shape, kind = workload.result
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = workload.threads, 1
    options.log_severity_level = 3
    model = onnx_models.model_of(workload, operands, shape, kind)
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    out = blank(shape, kind)
    binding = session.io_binding()
    for argument in session.get_inputs():
        array = operands[int(argument.name.removeprefix("operand"))]
        binding.bind_input(argument.name, "cpu", 0, array.dtype, array.shape, array.ctypes.data)
    binding.bind_output(session.get_outputs()[0].name, "cpu", 0, out.dtype, out.shape, out.ctypes.data)
    return Candidate(functools.partial(session.run_with_iobinding, binding), kept(out))
