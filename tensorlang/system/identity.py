"""Values as keys by what they are, not by what they say.

A statement or a nest is a value whose comparison takes as long as reading it: what is kept for one is found by its identity.
"""

from __future__ import annotations

from operator import is_

from tensorlang.system.frozen import frozen


@frozen
class Identity:
    """Some objects as a key, which keeps them alive: another key is equal that holds the same objects."""

    parts: tuple[object, ...]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Identity) and len(self.parts) == len(other.parts) and all(map(is_, self.parts, other.parts))

    def __hash__(self) -> int:
        return hash(tuple(map(id, self.parts)))
