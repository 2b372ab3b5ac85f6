"""What follows from loops: the axes that a split, a fused loop or a window gives, and which of them the lanes of a vector move."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from tensorlang.ir import Relation, SplitRelation
from tensorlang.ir.relations import sides


class DerivedAxes(NamedTuple):
    """What follows from loops: the splits by their outer loops, and the relations that each axis is the end of."""

    splits: Mapping[str, SplitRelation]
    above: Mapping[str, Sequence[Relation]]

    @classmethod
    def of(cls, relations: Iterable[Relation]) -> DerivedAxes:
        """Those of relations."""
        splits: dict[str, SplitRelation] = {}
        above: dict[str, list[Relation]] = {}
        for relation in relations:
            if isinstance(relation, SplitRelation):
                splits[relation.outer] = relation
            for axis in sides(relation)[0]:
                above.setdefault(axis, []).append(relation)
        return cls(splits, above)

    def of_loops(self, names: Collection[str]) -> tuple[Relation, ...]:
        """The relations of axes that follow from loops, each once."""
        found: dict[Relation, None] = {}
        waiting = sorted(self.above.keys() & names) if self.above else []
        for axis in waiting:
            for relation in self.above.get(axis, ()):
                if relation not in found:
                    found[relation] = None
                    waiting += sides(relation)[1]
        return tuple(found)

    def across(self, lanes: str) -> tuple[frozenset[str], frozenset[str]]:
        """The axes that differ between lanes, and of these the ones that are one more in each next lane."""
        moved, beside, waiting = {lanes}, {lanes}, [lanes]
        for axis in waiting:
            for relation in self.above.get(axis, ()):
                for made in sides(relation)[1]:
                    if axis in beside and relation.inner in (axis, made):
                        beside.add(made)
                    if made not in moved:
                        moved.add(made)
                        waiting.append(made)
        return frozenset(moved), frozenset(beside)
