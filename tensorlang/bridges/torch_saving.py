"""Compiled models that torch saves: `torch.compile(model, ..., fullgraph=True).aot_compile((args, kwargs)).save_compiled_function(path)`.

What is saved is the graph as dynamo traced it. One that is loaded is compiled at its first call, and for each further signature of
arguments; kernels come from the folder of kernels, where they were built on this machine before. It takes weights at each call.

Torch names classes of callables in its files, so this one stands in a module, which needs torch from 2.9 on: it is imported on use.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._dynamo import aot_compile_types

from tensorlang.bridges import torch_lowering
from tensorlang.system import forks

_Graph: Any = aot_compile_types.GraphModuleSerializableCallable


class SavedCallable(aot_compile_types.SerializableCallable):  # type: ignore[misc]  # torch has no types here
    """A graph of dynamo's as a function. `lowered` is what it became for the examples of tracing; without it, it is made when called."""

    def __init__(self, module: Any, lowered: Callable[..., Any] | None = None) -> None:
        self.module, self._lowered = module, lowered
        self._by_signature: dict[object, Callable[..., Any]] = {}
        self.renew()
        forks.anew(self)

    def renew(self) -> None:
        """Nobody lowers: in a forked child, who did is not there any more."""
        self._lock = threading.Lock()

    def __call__(self, *arguments: Any) -> Any:
        """The results for these arguments."""
        lowered = self._lowered or self._made(arguments)
        return lowered(*arguments)

    def _made(self, arguments: Sequence[Any]) -> Callable[..., Any]:
        key = (torch.is_grad_enabled(), *map(_signature, arguments))
        with self._lock:
            found = self._by_signature.get(key)
            if found is None:
                found = self._by_signature[key] = torch_lowering.lowered(self.module, arguments)
            return found

    @classmethod
    def serialize_compile_artifacts(cls, fn: Any) -> bytes:
        """The graph as bytes."""
        saved: bytes = _Graph.serialize_compile_artifacts(_Graph(fn.module))
        return saved

    @classmethod
    def deserialize_compile_artifacts(cls, data: bytes) -> Any:
        """The callable of what was saved."""
        module = _Graph.deserialize_compile_artifacts(data).graph_module
        module.meta.clear()  # where its inputs were found, which are arguments now
        return cls(module)


def _signature(one: Any) -> object:
    return (tuple(one.shape), one.stride(), one.dtype, one.requires_grad) if isinstance(one, torch.Tensor) else one
