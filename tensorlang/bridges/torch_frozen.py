"""Weights of a model in inference as constants: folded and packed at the first call, and again when they are seen to have changed.

A weight has changed where it lies elsewhere than before, or counts another version: optimizers, `copy_`, `load_state_dict` and whatever
else torch knows to write are seen. A write through `.data`, by NumPy, or to an inference tensor, which counts no versions, is not: after
it `refreeze()` has every frozen model look at its weights anew.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

from tensorlang.graph import Constant, Graph, passes
from tensorlang.system import forks

_epochs: Final = itertools.count(1)
_epoch = [0]


def refreeze() -> None:
    """Have every frozen model fold and pack its weights again at its next call."""
    _epoch[0] = next(_epochs)


class Frozen:
    """A graph of which some inputs are weights: `frozen(weights)` is the compiled graph of the others, for weights as they are now."""

    def __init__(self, graph: Graph, names: Sequence[str], torch: Any, array: Callable[[Any, Any], Any]) -> None:
        self.graph, self.names, self.torch, self.array = graph, tuple(names), torch, array
        self._state: tuple[Any, Any] = (None, None)
        self.renew()
        forks.anew(self)

    def renew(self) -> None:
        """Nobody folds: in a forked child, who did is not there any more."""
        self._lock = threading.Lock()

    def __call__(self, weights: Sequence[Any]) -> Any:
        """The compiled graph. Raises `TensorlangError` where it cannot be compiled."""
        key = (_epoch[0], *map(_identity, weights))
        known, compiled = self._state
        if known == key:
            return compiled
        with self._lock:
            known, compiled = self._state
            if known != key:
                compiled = self._fold(weights).compile()
                self._state = (key, compiled)
            return compiled

    def _fold(self, weights: Sequence[Any]) -> Graph:
        """The graph with weights as constants, folded."""
        arrays = dict(zip(self.names, (self._kept(weight) for weight in weights), strict=True))
        constants = [Constant(value, arrays[value.name]) for value in self.graph.inputs if value.name in arrays]
        inputs = tuple(value for value in self.graph.inputs if value.name not in arrays)
        bound = replace(self.graph, inputs=inputs, constants=(*self.graph.constants, *constants))
        return passes.apply(bound, passes.dead_code, passes.fold_constants, passes.fold_batch_norm)

    def _kept(self, weight: Any) -> Any:
        """Vectors are copied, so that they change together with what is packed; matrices are not, which would double the model."""
        found = self.array(weight, self.torch)
        return found.copy() if found.ndim < 2 else found


def _identity(weight: Any) -> tuple[int, int]:
    return weight.data_ptr(), -1 if weight.is_inference() else weight._version  # noqa: SLF001 - torch counts versions there
