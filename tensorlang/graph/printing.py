"""Graphs as text for people: let-bindings, which `parsing` reads back, the language of Graphviz, and a table.

    graph net(x: float32[n, 4]) where 1 <= n <= 64
      let weight: float32[5, 4] = constant("0c7e...")
      let linear: float32[n, 5] = linear(x, weight, None)         # model.py:12 in head
      let relu: float32[n, 5] = relu(linear)                      # model.py:13
      in (relu)

A binding is a Python expression after its name and type: operands by position, then attributes that are not their defaults. Constants of
few elements are written out, others by the digest of what they hold. Where a node comes from is a comment.
"""

from __future__ import annotations

import re
from typing import Final

import numpy as np

from tensorlang.graph.ir import Attribute, Constant, Graph, Node, Value
from tensorlang.graph.operators import find

WRITTEN_OUT: Final = 8
"""Elements of a constant that are written out."""
_COLUMN: Final = 80
_BREAKS: Final = re.compile("[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")


def to_let(graph: Graph) -> str:
    """The graph as let-bindings."""
    lines = [f"graph {graph.name}({', '.join(map(str, graph.inputs))}){_where(graph)}"]
    lines += [f"  let {constant.value} = constant({_held(constant)})" for constant in graph.constants]
    for node in graph.nodes:
        line = f"  let {', '.join(map(str, node.results))} = {call(node)}"
        where = "; ".join(dict.fromkeys(text for origin in node.origins if (text := _on_one_line(str(origin)))))
        lines.append(f"{line:<{_COLUMN}}  # {where}" if where else line)
    return "\n".join([*lines, f"  in ({', '.join(value.name for value in graph.outputs)})"])


def call(node: Node) -> str:
    """A node as a call: its operands, then the attributes that are not their defaults."""
    return f"{node.operator}({', '.join([*(value.name if value else 'None' for value in node.inputs), *told(node)])})"


def told(node: Node) -> list[str]:
    """The attributes of a node that are not what the operator has without them, as keywords."""
    operator = find(node.operator)
    types = [None if value is None else value.type for value in node.inputs]
    given = {}
    for name, value in node.attributes:
        default = operator.attributes[name].default
        if default is operator.attributes[name].empty or repr(operator.spelling(name, default, types)) != repr(value):
            given[name] = value
    return [f"{name}={attribute_text(value)}" for name, value in given.items()]


def attribute_text(value: Attribute) -> str:
    """An attribute as Python: what `parsing` reads."""
    if isinstance(value, tuple):
        return f"({', '.join(map(attribute_text, value))}{',' * (len(value) == 1)})"
    return repr(value)


def _on_one_line(text: str) -> str:
    """A text with its line breaks spelled, all that `str.splitlines` knows: a comment ends with its line."""
    return _BREAKS.sub(lambda found: repr(found[0])[1:-1], text)


def _where(graph: Graph) -> str:
    bounds = {}
    for dim in graph.dims:
        bounds.update(dim.dims)
    parts = [f"{least} <= {name} <= {most}" for name, (least, most) in bounds.items()]
    return f" where {' and '.join(parts)}" if parts else ""


def _held(constant: Constant) -> str:
    if constant.array.size > WRITTEN_OUT:
        return f'"{constant.digest}"'
    array = constant.array.astype(np.float64) if constant.value.dtype.is_floating else constant.array
    entries = array.reshape(-1).tolist()
    return f"[{', '.join(map(repr, entries))}]" if constant.value.shape else repr(entries[0])


def to_dot(graph: Graph) -> str:
    """The graph for Graphviz: boxes are nodes, ellipses inputs, notes constants; edges carry types."""
    lines = [f"digraph {graph.name} {{", "  node [fontname=monospace, shape=box];", "  edge [fontname=monospace];"]
    lines += [f'  "{value.name}" [label="{value.name}", shape=ellipse];' for value in graph.inputs]
    lines += [f'  "{constant.value.name}" [label="{constant.value.name}", shape=note];' for constant in graph.constants]
    for node in graph.nodes:
        lines.append(f'  "{_id(graph, node.results[0])}" [label="{_quoted(chr(10).join([node.operator, *told(node)]))}"];')
        lines += [f'  "{_id(graph, value)}" -> "{_id(graph, node.results[0])}" [label="{value.type}"];' for value in node.read]
    for place, value in enumerate(graph.outputs):
        lines += [f'  "out {place}" [label="output", shape=ellipse];', f'  "{_id(graph, value)}" -> "out {place}" [label="{value.type}"];']
    return "\n".join([*lines, "}"])


def _id(graph: Graph, value: Value) -> str:
    """Of the box that a value comes out of."""
    node = graph.producer(value)
    return value.name if node is None else node.results[0].name


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def table(graph: Graph) -> str:
    """A line for each node: results, operator, operands, attributes, type, origin."""
    rows = [("result", "operator", "operands", "attributes", "type", "origin")]
    for node in graph.nodes:
        read = ", ".join(value.name if value else "None" for value in node.inputs)
        results, types = ", ".join(value.name for value in node.results), ", ".join(str(value.type) for value in node.results)
        rows.append(
            (results, node.operator, read, ", ".join(told(node)), types, _on_one_line(str(node.origins[0])) if node.origins else "")
        )
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows)
