"""Two layers of long short-term memory (Hochreiter and Schmidhuber 1997) over time, and a classifier of the last state."""

from __future__ import annotations

from typing import Any

from tests.models.base import Module, nn


class Recurrent(Module):  # type: ignore[misc]
    """(N, T, inputs) -> (N, classes)."""

    def __init__(self, inputs: int = 64, width: int = 256, layers: int = 2, classes: int = 10) -> None:
        super().__init__()
        self.recurrent = nn.LSTM(inputs, width, layers, batch_first=True)
        self.classify = nn.Linear(width, classes)

    def forward(self, x: Any) -> Any:
        states, _ = self.recurrent(x)
        return self.classify(states[:, -1])
