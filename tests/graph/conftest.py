"""What tests of graphs share."""

import pytest

from tensorlang.graph.execution import compiled, tuning
from tensorlang.graph.fusion.clusters import Clusters
from tensorlang.graph.fusion.group import Group
from tensorlang.graph.ir import Graph


@pytest.fixture
def node_by_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every node is a kernel: for claims of what happens between kernels, whatever fusion decides."""

    def apart(graph: Graph, _: str) -> list[Group]:
        parts = Clusters(graph)
        return [parts.group(part) for part in parts.ordered()]

    for module in (compiled, tuning):
        monkeypatch.setattr(module, "groups", apart)
