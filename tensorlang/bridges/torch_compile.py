"""`torch.compile(model, backend="tensorlang")`: graphs that torch traces, compiled as ours.

Torch gives functional graphs of its core operators, forward and backward ones apart, with parameters among the inputs: they are passed at
each call, so a model that is trained on is the model that runs. With `options={"freeze": True}` weights of a model in inference are folded
and packed instead. Sizes that vary are dims, so one graph serves them. A node that has no translation runs in torch, between the parts
that have one; `fallbacks()` names each, with the reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import tensorlang as tl
from tensorlang.bridges.packages import required
from tensorlang.bridges.torch_frozen import refreeze
from tensorlang.bridges.torch_functions import fallbacks
from tensorlang.bridges.torch_lowering import lowered

__all__ = ["backend", "fallbacks", "refreeze"]


def backend(module: Any, examples: Sequence[Any], *, options: Mapping[str, Any] | None = None) -> Any:
    """The backend that torch finds by its entry point. Raises `BuildError` for options other than `freeze`, a bool."""
    required("torch", "torch")
    freeze = _freeze(options)
    made = lowered(module, examples, freeze=freeze)
    try:
        saving = import_module("tensorlang.bridges.torch_saving")
    except ImportError:  # torch before 2.9 does not save
        return made
    return saving.SavedCallable(module, made)


def _freeze(options: Mapping[str, Any] | None) -> bool:
    given = dict(options or {})
    freeze = given.pop("freeze", False)
    if given or not isinstance(freeze, bool):
        raise tl.BuildError(f"the backend 'tensorlang' has the option freeze=True or False, and {options!r:.60} was given")
    return freeze
