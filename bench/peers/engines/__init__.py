"""How each library computes a workload: one module for each, imported only where its worker runs.

A module has `available() -> str | None`, the reason why it cannot be used here, and `make(workload, operands)`, which gives for each
variant ("" for the plain one) a function that builds a `Candidate`. An operator that it has no equivalent of is simply not in the answer.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Final, TypeAlias

from bench.peers.workload import Array

OURS: Final = "tensorlang"
ENGINES: Final = (OURS, "numpy", "numba", "torch", "onnxruntime", "openvino", "jax", "halide")


@dataclass(frozen=True, slots=True)
class Candidate:
    """What takes turns: `call` computes, `result` turns what it returned into an array of the workload's layout.

    `before` runs ahead of a sample, off the clock. `allocates`: each call makes its result anew. `aside` says why a candidate is shown
    but not compared: it is given, or gives, another layout than the workload's, which saves it work that the others do.
    """

    call: Callable[[], Any]
    result: Callable[[Any], Array]
    before: Callable[[], None] | None = None
    allocates: bool = False
    aside: str = ""
    note: str = ""


Makers: TypeAlias = Mapping[str, Callable[[], Candidate]]


def loaded(name: str, package: str = __name__) -> ModuleType:
    """The module of an engine."""
    return importlib.import_module(f"{package}.{name}")


def missing(*modules: str) -> str | None:
    """Which of these modules cannot be imported, and why."""
    for module in modules:
        try:
            importlib.import_module(module)
        except Exception as error:  # noqa: BLE001 - a broken installation may raise anything
            return f"{module}: {type(error).__name__}: {error}".splitlines()[0]
    return None


def returned(outcome: Any) -> Array:
    """The result of a call that returns its array."""
    array: Array = outcome
    return array


def kept(array: Array) -> Callable[[Any], Array]:
    """The result of a call that writes into an array."""
    return lambda _: array
