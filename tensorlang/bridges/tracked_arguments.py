"""Arguments of a model's node, of which none may be left out by mistake: what a translation did not ask for may change its result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class TrackedArguments(dict[str, Any]):
    """Arguments by name that remember which of them were asked for."""

    def __init__(self, held: Mapping[str, Any]) -> None:
        super().__init__(held)
        self.asked: set[str] = set()

    def __getitem__(self, name: str) -> Any:
        self.asked.add(name)
        return super().__getitem__(name)

    def __contains__(self, name: object) -> bool:
        self.asked.add(str(name))
        return super().__contains__(name)

    def get(self, name: str, default: Any = None) -> Any:
        """An argument, or what stands for it."""
        self.asked.add(name)
        return super().get(name, default)

    def changed(self, /, **values: Any) -> TrackedArguments:
        """The same with other values of some arguments; what is asked of either is asked of both."""
        made = TrackedArguments(dict.copy(self) | values)
        made.asked = self.asked
        self.asked.update(values)
        return made
