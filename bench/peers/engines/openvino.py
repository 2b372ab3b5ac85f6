"""OpenVINO: the ONNX model compiled for one stream; arithmetic is held to the operands' type, as by default this plugin may narrow it."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from bench.peers import onnx_models
from bench.peers.engines import Candidate, Makers, missing
from bench.peers.layouts import in_nchw
from bench.peers.workload import Array, Workload


def available() -> str | None:
    """Why not, if not."""
    return missing("onnx", "openvino")


def make(workload: Workload, operands: Sequence[Array]) -> Makers:
    """One request."""
    return in_nchw(request, workload, operands)


def request(workload: Workload, operands: Sequence[Array]) -> Makers:
    """Of the model, if there is one."""
    return {"": functools.partial(candidate, workload, operands)} if workload.operator in onnx_models.OPERATORS else {}


def candidate(workload: Workload, operands: Sequence[Array]) -> Candidate:
    """Static shapes; inputs and the output are tensors that are there. bfloat16 operands are float32 outside and bfloat16 inside."""
    import openvino  # noqa: PLC0415 - an optional peer

    narrow = workload.types[0] == "bfloat16"
    given = [array.astype("float32") for array in operands] if narrow else list(operands)
    shape, kind = workload.result
    kind = "float32" if narrow else kind
    core = openvino.Core()
    settings: dict[str, Any] = {
        "INFERENCE_NUM_THREADS": workload.threads,
        "NUM_STREAMS": 1,
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": "bf16" if narrow else "f32",
        "ENABLE_CPU_PINNING": False,
    }
    model = attention(given) if workload.operator == "attention" else core.read_model(onnx_models.model_of(workload, given, shape, kind))
    compiled = core.compile_model(model, "CPU", settings)
    asked = compiled.create_infer_request()
    moving = [array for place, array in enumerate(given) if place not in workload.constants]
    held = [moving, *(openvino.Tensor(array, shared_memory=True) for array in moving)]  # a tensor does not keep its array
    for place, tensor in enumerate(held[1:]):
        asked.set_input_tensor(place, tensor)

    def call() -> Any:
        asked.start_async()  # and wait: `infer` also makes a dictionary of results
        asked.wait()
        return asked, held

    return Candidate(call, lambda done: np.asarray(done[0].get_output_tensor(0).data), note="float32 outside" if narrow else "")


def attention(operands: Sequence[Array]) -> Any:
    """The operation that OpenVINO has for it."""
    import openvino  # noqa: PLC0415 - an optional peer
    from openvino import opset13 as ops  # noqa: PLC0415 - an optional peer

    parameters = [ops.parameter(array.shape, np.float32) for array in operands]
    return openvino.Model([ops.scaled_dot_product_attention(*parameters, causal=False)], parameters)
