"""A failing case made small: steps, stages, outputs, extents and expressions go as long as the same failure stays."""

from __future__ import annotations

import copy
import re
import time
from collections.abc import Iterator
from typing import Any

from .case import Case, Node, bounds_of, children, extents_in, labels_of, tensors_of
from .program import Builder
from .worker import Worker


def signature(answer: dict[str, Any]) -> str:
    """What kind of failure an answer is: its oracle and the shape of its text."""
    text = str(answer.get("text", ""))
    if answer["done"] in ("directive", "refusal", "accepted", "can"):
        text = re.sub(r"'args': \[.*?\](?=[,}])", "", text)
        text = re.sub(r"'(named|fields)': \{.*?\}", "", text)
    elif answer["done"] not in ("build", "verify", "exception"):
        text = ""
    text = re.sub(r": Buffer\(.*|; there are .*|outside \[.*", "", text)
    text = re.sub(r"(at|after) \{.*?\}+", "", text).splitlines()[0] if text else ""
    text = re.sub(r"[%\"']?\b[A-Z](_\w+)?\.[\w.]+|\b[A-Z]_\w+|\d+", "_", text)
    return f"{answer['done']} {text[:110]}".strip()


def shrink(worker: Worker, case: Case, wanted: str, seconds: float = 60.0) -> Case:
    """The smallest case found in about `seconds` with the same signature."""
    end = time.monotonic() + seconds
    grew = True
    while grew and time.monotonic() < end:
        grew = False
        for candidate in candidates(case):
            if time.monotonic() > end:
                break
            answer = worker.ask({"case": candidate}, limit=20.0)
            if answer["done"] is not None and signature(answer) == wanted:
                case, grew = candidate, True
                break
    return case


def candidates(case: Case) -> Iterator[Case]:
    """Smaller cases, the boldest first."""
    yield from fewer_steps(case)
    yield from fewer_stages(case)
    yield from smaller_extents(case)
    yield from simpler_bodies(case)
    yield from simpler_steps(case)


def fewer_steps(case: Case) -> Iterator[Case]:
    """Without some of the steps."""
    steps = case["steps"]
    size = len(steps)
    while size >= 1:
        for start in range(0, len(steps), size):
            yield {**case, "steps": steps[:start] + steps[start + size :]}
        size //= 2


def fewer_stages(case: Case) -> Iterator[Case]:
    """Without an output, or with an operand instead of a stage."""
    for name in case["outputs"] if len(case["outputs"]) > 1 else ():
        yield reachable({**case, "outputs": [other for other in case["outputs"] if other != name]})
    if case["stages"]:
        try:
            tensors = Builder(case).program().tensors
        except Exception:  # noqa: BLE001 - then there is nothing to try
            return
        for place, stage in enumerate(case["stages"]):
            labels = [label for label in tensors if label in labels_of(stage)]
            operands = [{"name": label, "shape": stage["shape"], "dtype": str(tensors[label].dtype)} for label in labels]
            rest = case["stages"][:place] + case["stages"][place + 1 :]
            outputs = [name for name in case["outputs"] if name not in labels]
            if outputs and rest:
                yield reachable({**case, "stages": rest, "inputs": [*case["inputs"], *operands], "outputs": outputs})
        last = case["stages"][-2:-1]
        if last and labels_of(last[0]) & tensors.keys() == {last[0]["name"]}:
            yield reachable({**case, "stages": case["stages"][:-1], "outputs": [last[0]["name"]]})


def reachable(case: Case) -> Case:
    """Without what no output needs."""
    needed, stages = set(case["outputs"]), []
    for stage in reversed(case["stages"]):
        if labels_of(stage) & needed:
            stages.append(stage)
            needed |= tensors_of(stage)
    inputs = [entry for entry in case["inputs"] if entry["name"] in needed]
    used = extents_in([stages, inputs])
    return {
        **case,
        "stages": stages[::-1],
        "inputs": inputs,
        "extents": {name: value for name, value in case["extents"].items() if name in used},
        "symbolic": [name for name in case["symbolic"] if name in used],
    }


def smaller_extents(case: Case) -> Iterator[Case]:
    """With literal extents, fewer calls, smaller values."""
    if case.get("more"):
        yield {**case, "more": []}
        yield {**case, "more": case["more"][:1]}
        for entry in case["more"]:
            yield {**case, "extents": {**case["extents"], **entry}, "more": []}
    if case.get("bounds"):
        yield {**case, "bounds": {}}
    for name in case["symbolic"]:
        yield {**case, "symbolic": [other for other in case["symbolic"] if other != name]}
    for name, value in case["extents"].items():
        for smaller in sorted({0, 1, 2, 3, value // 2, value - 1}):
            if 0 <= smaller < value:
                yield {**case, "extents": {**case["extents"], name: smaller}}
    if case.get("fill") != "small":
        yield {**case, "fill": "small"}


def simpler_bodies(case: Case) -> Iterator[Case]:
    """With a node replaced by one of its parts, or by 1."""
    for place, stage in enumerate(case["stages"]):
        for component, body in enumerate(stage["body"]):
            for simpler in simpler_nodes(body, stage["type"]):
                changed = copy.deepcopy(stage)
                changed["body"][component] = simpler
                yield reachable({**case, "stages": [*case["stages"][:place], changed, *case["stages"][place + 1 :]]})


def simpler_nodes(node: Node, of: str) -> Iterator[Node]:
    """Variants of a tree with one node simplified."""
    if not isinstance(node, list) or node[0] in ("ax", "ext"):
        return
    if node[0] == "red" and node[4] is not None:
        yield [*node[:4], None, node[5]]
    if node[0] == "red" and any(bounds_of(axis) for axis in node[2]):
        yield [*node[:2], [[axis[0], 0, axis[3]] if bounds_of(axis) else axis for axis in node[2]], *node[3:]]
    if node[0] not in ("ld", "self", "red"):
        yield from children(node)
        if node[0] != "cast" or isinstance(node[2], list):
            yield ["cast", of, 1]
    for place, part in enumerate(node):
        if node[0] in ("ld", "self") and isinstance(part, list):
            for at, index in enumerate(part):
                if isinstance(index, list) and index[0] != "ax":
                    for simpler in [*children(index), 0]:
                        yield [*node[:place], [*part[:at], simpler, *part[at + 1 :]], *node[place + 1 :]]
        elif isinstance(part, list) and not (node[0] == "red" and place == 2):
            for simpler in simpler_nodes(part, of):
                yield [*node[:place], simpler, *node[place + 1 :]]


def simpler_steps(case: Case) -> Iterator[Case]:
    """With smaller factors and plainer tails."""
    for place, step in enumerate(case["steps"]):
        variants = []
        if step.get("named", {}).get("tail", "guard") != "guard":
            variants.append({**step, "named": {**step["named"], "tail": "guard"}})
        if step.get("call") == "split" and isinstance(step["args"][1], int) and step["args"][1] > 2:
            variants.append({**step, "args": [step["args"][0], 2]})
        for variant in variants:
            yield {**case, "steps": [*case["steps"][:place], variant, *case["steps"][place + 1 :]]}
