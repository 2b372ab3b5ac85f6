"""A `torch.export.ExportedProgram` as a graph: parameters and buffers become constants, symbolic sizes dims with their ranges.

Inputs are those of the user, in order; what the signature calls a parameter, a buffer or a constant is there if anything reads it.
`torch.export` writes `aten.linear` and `aten.conv2d`; its core decomposition `addmm` and `convolution`. Both come to the same operators.
A program that writes into tensors is made functional first, by torch.
"""

from __future__ import annotations

from typing import Any, Final

import tensorlang as tl
from tensorlang.bridges.aten import TRANSLATIONS
from tensorlang.bridges.packages import required
from tensorlang.bridges.torch_graphs import CHECKS, Reader, packet
from tensorlang.graph import Graph, Value
from tensorlang.graph.passes import dead_code, with_indices_inside

_ROUNDS: Final = 4
"""How often torch is asked to take calls apart: what they are made of may have no translation either."""


def graph_of(program: Any) -> Graph:
    """The graph of an exported program. Raises `GraphError`, naming node and origin, for what has no translation."""
    torch = required("torch", "torch")
    if not isinstance(program, torch.export.ExportedProgram):
        raise tl.GraphError(f"from_torch takes what torch.export.export gives, not a {type(program).__name__}")
    program = _functional(program, torch)
    changed = [*program.graph_signature.buffers_to_mutate.values(), *program.graph_signature.user_inputs_to_mutate.values()]
    if changed:
        raise tl.GraphError(f"the program changes {', '.join(changed)} at each call; export the model after model.eval()")
    return _Import(program, torch).graph()


def _functional(program: Any, torch: Any) -> Any:
    """The program without writes, and without calls that have no translation where torch knows what they are made of."""
    for _ in range(_ROUNDS):
        targets = {node.target for node in program.graph.nodes if node.op == "call_function" and hasattr(node.target, "_schema")}
        unknown = {target for target in targets if packet(target) not in {*TRANSLATIONS, *CHECKS}}
        known = torch.export.default_decompositions() if unknown else {}
        parts = {target: known[target] for target in unknown if target in known}
        if not parts and not any(target._schema.is_mutable for target in targets):  # noqa: SLF001 - torch shows it nowhere else
            break
        program = program.run_decompositions(parts)
    return program


def _names(program: Any, torch: Any) -> dict[str, str]:
    """What the user called sizes, as `torch.export.Dim` does, by symbol: torch keeps it where it traced, and in no file."""
    known = (node.meta.get("val") for node in program.graph.nodes if node.op == "placeholder")
    sizes = (size for value in known if isinstance(value, torch.Tensor) for size in value.shape if isinstance(size, torch.SymInt))
    first = next(sizes, None)
    environment = None if first is None else first.node.shape_env
    called, symbols = (getattr(environment, kept, None) or {} for kept in ("source_name_to_debug_name", "source_to_var"))
    return {str(symbols[source]): name for source, name in called.items() if source in symbols and name.isidentifier()}


class _Import(Reader):
    """A program that is read."""

    def __init__(self, program: Any, torch: Any) -> None:
        super().__init__(torch, type(program.graph_module).__name__, program.range_constraints.__getitem__, _names(program, torch))
        self.program = program

    def graph(self) -> Graph:
        """All of it."""
        placeholders = [node for node in self.program.graph.nodes if node.op == "placeholder"]
        outputs: list[Any] = []
        for spec, node in zip(self.program.graph_signature.input_specs, placeholders, strict=True):
            self.placeholder(spec, node)
        for node in self.program.graph.nodes:
            if node.op == "call_function":
                self.became[node.name] = self.call(node)
            elif node.op == "output":
                outputs = [self.became[entry.name] for entry in node.args[0] if entry is not None]
        for value in outputs:
            if not isinstance(value, Value):
                raise tl.GraphError(f"an output of the program is {value!r:.60}, and not a tensor")
        return with_indices_inside(dead_code(self.builder.finish(*outputs)))

    def placeholder(self, spec: Any, node: Any) -> None:
        """An input, or a tensor that the program holds."""
        kind = spec.kind.name
        if kind == "USER_INPUT":
            known = node.meta.get("val")
            if isinstance(known, self.torch.Tensor):
                self.input(node, spec.arg.name)
            elif isinstance(known, self.torch.SymInt):
                raise tl.GraphError(f"the input {node.name} is a number; a graph takes tensors")
        elif node.users and kind != "TOKEN":  # a token is an order of calls that have effects, none of which has a translation
            held = self.program.constants if spec.target in self.program.constants else self.program.state_dict
            if not isinstance(held.get(spec.target), self.torch.Tensor):
                raise tl.GraphError(f"the program holds {spec.target!r} ({kind.lower()}), which is no tensor")
            self.became[node.name] = self.builder.constant(self.array(held[spec.target]), spec.target)

    def array(self, tensor: Any) -> Any:
        """The elements of a tensor that the program holds, copied: a graph does not change when a model is trained on."""
        found = tensor.detach().cpu().contiguous()
        if found.dtype == self.torch.bfloat16:
            return found.view(self.torch.int16).numpy().view(tl.dtype("bfloat16").numpy).copy()
        return found.numpy().copy()
