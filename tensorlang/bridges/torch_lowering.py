"""A graph that dynamo traced, lowered: torch takes forward and backward apart, and each becomes a function of ours.

What traces a model and what loads a saved one both come here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from importlib import import_module
from typing import Any, Final

from tensorlang.bridges.aten import TRANSLATIONS
from tensorlang.bridges.packages import required
from tensorlang.bridges.torch_functions import function
from tensorlang.bridges.torch_graphs import packet

_UNCACHED: Final = dict.fromkeys(
    ("enable_autograd_cache", "force_autograd_cache", "bundled_autograd_cache", "strict_autograd_cache"), False
)


def lowered(module: Any, examples: Sequence[Any], *, freeze: bool = False) -> Callable[..., Any]:
    """A graph as dynamo gives it as a function, with torch's own work around forward and backward graphs."""
    torch = required("torch", "torch")
    common = import_module("torch._dynamo.backends.common")
    compiler = common.aot_autograd(
        fw_compiler=partial(_compiled, freeze=False), inference_compiler=partial(_compiled, freeze=freeze), decompositions=_parts()
    )
    with torch._functorch.config.patch(_UNCACHED):  # noqa: SLF001 - torch's cache keeps functions of its own alone
        made: Callable[..., Any] = compiler(module, examples)
    return made


@cache
def _parts() -> dict[Any, Any]:
    """How torch takes calls apart that have no translation."""
    known = required("torch", "torch").export.default_decompositions()
    return {target: known[target] for target in known if packet(target) not in TRANSLATIONS}


def _compiled(module: Any, examples: Sequence[Any], *, freeze: bool) -> Any:
    """A graph of core operators as a function that takes and gives lists."""
    torch = required("torch", "torch")
    weights: frozenset[str] = frozenset()
    if freeze:
        inputs = [node.name for node in module.graph.nodes if node.op == "placeholder"]
        context = torch._guards.TracingContext.try_get()  # noqa: SLF001 - torch says nowhere else which inputs are the model's
        static = context.fw_metadata.static_input_indices if context is not None and context.fw_metadata is not None else ()
        weights = frozenset(inputs[place] for place in static)
    made = function(module, examples, weights, torch)
    return import_module("functorch.compile").make_boxed_func(made)
