"""Models of ONNX as graphs, and ONNX's own interface to whoever runs models.

importing     a model as a graph, node by node
functions     what ONNX defines by other operators, inlined
call          a node that is translated
table         from ONNX's operators to the canonical ones; a family in a file
control       If, Loop and Scan, taken or unrolled while the model is read
backend       `Backend`, for ONNX's tests and tools
conformance   ONNX's node tests, compared with the list of those that are expected to pass
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tensorlang.bridges.onnx.backend import Backend, Prepared

__all__ = ["Backend", "Prepared"]


def __getattr__(name: str) -> Any:
    """What extends ONNX's classes is loaded on use: reading a model reports a missing onnx by itself."""
    if name in __all__:
        from tensorlang.bridges.onnx import backend  # noqa: PLC0415 - as said

        return getattr(backend, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
