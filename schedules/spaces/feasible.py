"""Exactly the feasible points of a space: counted, numbered and drawn without rejection, found by asking the constraints what they read.

A constraint is any predicate on points. It is first given a point in which nothing is decided. If it answers, the answer holds for all
points; if it reads a knob, that knob is decided in every possible way, and it is asked again. What comes of it is a decision tree over
the knobs that the constraints really read, and a branch of it ends as soon as the answer is known: a constraint between two tile sizes
costs as many questions as there are pairs, however many points the space has. Constraints that read different knobs have trees of their
own, and the points are their product. A leaf stands for all values of what nobody read, which are counted without being listed. A
constraint that reads everything, or the point as a whole, is asked about each point in turn. What a constraint has read and answered is
kept: where others decide knobs that it does not read, it is not asked again, and what is decided from there on is one sub-tree, however
many branches lead to it.

Questions and answers are bounded; a space whose constraints need more is left to sampling by rejection (`Space.sample`).
"""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from tensorlang.schedules.spaces.knobs import Knob, Value
from tensorlang.system.interruptions import is_interruption

Config: TypeAlias = dict[str, Any]
Predicate: TypeAlias = Callable[[Config], bool]

QUESTIONS: Final = 20_000
"""How often constraints are asked before a space is left to rejection: some tenths of a second."""
ANSWERS: Final = 50_000
"""How often their answers are looked at, those included that are known by then."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """Any values of the `free` knobs, all of them feasible with what the branches above decide."""

    free: tuple[Knob, ...]
    count: int


@dataclass(frozen=True, slots=True)
class Branch:
    """Feasible points one child after the other, one for each of the `values` of a knob that leave any.

    `ends` has the number of points up to the end of each. A child may be that of other branches too.
    """

    knob: str
    values: tuple[Value, ...]
    children: tuple[Leaf | Branch, ...]
    ends: tuple[int, ...]

    @property
    def count(self) -> int:
        """The number of points below."""
        return self.ends[-1] if self.ends else 0


Tree: TypeAlias = Leaf | Branch


@dataclass(frozen=True, slots=True)
class Feasible:
    """The feasible points of a space: every combination of one from each tree, which have no knob in common."""

    trees: tuple[Tree, ...]
    count: int

    def at(self, rank: int) -> Config:
        """The feasible point of this rank, 0 <= rank < count: a bijection."""
        config: Config = {}
        for tree in self.trees:
            rank, at = divmod(rank, tree.count)
            _descend(tree, at, config)
        return config


@dataclass(frozen=True, slots=True)
class Alternatives:
    """The feasible points of a space whose only outermost `knob` opens another space by each of its `values`.

    `ends` has the number of points up to the end of each.
    """

    knob: str
    values: tuple[Value, ...]
    parts: tuple[Feasible | Alternatives, ...]
    ends: tuple[int, ...]

    @property
    def count(self) -> int:
        """The number of points."""
        return self.ends[-1]

    def at(self, rank: int) -> Config:
        """The feasible point of this rank, 0 <= rank < count: a bijection."""
        place = bisect.bisect_right(self.ends, rank)
        return {self.knob: self.values[place], **self.parts[place].at(rank - (self.ends[place - 1] if place else 0))}


def feasible(knobs: Sequence[Knob], constraints: Sequence[Predicate], given: Config | None = None) -> Feasible | Alternatives | None:
    """The feasible points, or None where that takes too much; `given` are values that are decided already.

    What a predicate raises at a whole point is passed on.
    """
    given = given or {}
    if len(knobs) == 1 and knobs[0].opens:  # constraints that read one another's knobs only through this one stay apart
        (root,) = knobs
        parts = [feasible(root.children(value), constraints, {**given, root.name: value}) for value in root.values]
        known = tuple(part for part in parts if part is not None)
        ends = tuple(itertools.accumulate(part.count for part in known))
        return Alternatives(root.name, root.values, known, ends) if len(known) == len(parts) else None
    survey = _Survey()
    try:
        try:
            groups = _groups(survey, tuple(knobs), [_Constraint(holds) for holds in constraints], given)
        except _TooMany:
            raise
        except Exception as error:
            if is_interruption(error):
                raise
            # it relies on an earlier constraint: all together, in order
            groups = [(frozenset(knob.name for knob in knobs), tuple(_Constraint(holds) for holds in constraints))]
        trees = [survey.tree(tuple(knob for knob in knobs if knob.name in read), given, held)[0] for read, held in groups]
    except _TooMany:
        return None
    free = tuple(knob for knob in knobs if not any(knob.name in read for read, _ in groups))
    trees.append(Leaf(free, size(free)))
    return Feasible(tuple(trees), math.prod(tree.count for tree in trees))


def size(knobs: Sequence[Knob]) -> int:
    """The number of points of these knobs, by the sizes of their sub-trees."""
    return math.prod(size_of(knob) for knob in knobs)


def size_of(knob: Knob) -> int:
    """The number of points below one knob."""
    return sum(size(knob.children(value)) for value in knob.values) if knob.opens else len(knob.values)


def unrank(knobs: Sequence[Knob], rank: int, config: Config) -> None:
    """Add the point of this rank, 0 <= rank < size(knobs), to `config`: a bijection."""
    for knob in knobs:
        if not knob.opens:
            rank, at = divmod(rank, len(knob.values))
            config[knob.name] = knob.values[at]
            continue
        rank, at = divmod(rank, size_of(knob))
        for value in knob.values:
            below = size(knob.children(value))
            if at < below:
                config[knob.name] = value
                unrank(knob.children(value), at, config)
                break
            at -= below


_Groups: TypeAlias = "list[tuple[frozenset[str], tuple[_Constraint, ...]]]"


def _groups(survey: _Survey, knobs: tuple[Knob, ...], constraints: Sequence[_Constraint], given: Config) -> _Groups:
    """Constraints that read a knob in common, together and in order, each group with the outermost knobs that it reads."""
    groups: _Groups = []
    for constraint in constraints:
        survey.read.clear()
        survey.tree(knobs, given, (constraint,))
        own = survey.read & {knob.name for knob in knobs}
        joined = [group for group in groups if group[0] & own]
        groups = [group for group in groups if not group[0] & own]
        groups.append((frozenset(own).union(*(read for read, _ in joined)), (*(one for _, held in joined for one in held), constraint)))
    return groups


@dataclass(slots=True, eq=False)
class _Answer:
    """What a constraint says after some reads: its answer, or what it `reads` next, and what it says `after` each value of that.

    None of both: nobody has asked. Values go by their identity, which the knobs keep; None stands for a knob that a point does not have.
    Answers themselves are told apart by identity too.
    """

    reads: str | None = None
    answer: bool | None = None
    after: dict[int | None, _Answer] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Constraint:
    """A predicate, all that it has read and answered so far, and where in that a point stands of which some knobs are decided."""

    holds: Predicate
    first: _Answer = field(default_factory=_Answer)
    here: _Answer | None = None

    def followed(self, config: Config, undecided: tuple[Knob, ...], needs: set[str]) -> tuple[_Constraint, bool | Knob | None]:
        """The same with these values decided, and the answer or the knob to decide next, where that is known; `needs` gets what it read."""
        here = self.here or self.first
        while here.reads is not None:
            knob = None if here.reads in config else _knob_of(here.reads, undecided)
            if knob is not None:
                return _Constraint(self.holds, self.first, here), knob
            needs.add(here.reads)
            here = here.after.setdefault(id(config[here.reads]) if here.reads in config else None, _Answer())
        return _Constraint(self.holds, self.first, here), here.answer

    def ask(self, config: Config, undecided: tuple[Knob, ...], needs: set[str]) -> tuple[_Constraint, bool | Knob]:
        """What the predicate says of all points with these values, or the knob to decide next; as `followed` has them."""
        if not undecided:
            needs.update(config)
            return self, bool(self.holds(dict(config)))
        point = _Undecided(config, undecided)
        try:
            answer = bool(self.holds(point))  # type: ignore[arg-type]  # behaves as the dict would
        except _Reads as read:
            if read.name is None:
                needs.update(config)
                return self, read.knob
            self._keep(point).reads = read.name
        except Exception as error:
            if is_interruption(error):
                raise
            # it wants a real dict: decide one knob after the other until it can be given one
            needs.update(config)
            return self, undecided[0]
        else:
            self._keep(point).answer = answer
        followed, told = self.followed(config, undecided, needs)
        assert told is not None, "it has just been kept"
        return followed, told

    def _keep(self, point: _Undecided) -> _Answer:
        """Where what the predicate read of a point leads."""
        here = self.first
        for name, value in point.read.items():
            here.reads = name
            here = here.after.setdefault(value, _Answer())
        return here


_Place: TypeAlias = tuple[tuple[int, ...], tuple[_Answer, ...]]
"""Where a survey stands: the knobs that are undecided, by identity, and how far each constraint has been followed."""


@dataclass(slots=True)
class _Survey:
    """Builds decision trees; `read` gathers the knobs that were decided.

    A sub-tree depends on the place where it begins and on the values of the knobs that it `needs`, which were decided before: it is
    `known` by both, and built once.
    """

    asked: int = 0
    answered: int = 0
    read: set[str] = field(default_factory=set)
    known: dict[_Place, dict[tuple[str, ...], dict[tuple[int | None, ...], Branch]]] = field(default_factory=dict)

    def tree(self, undecided: tuple[Knob, ...], config: Config, constraints: tuple[_Constraint, ...]) -> tuple[Tree, set[str]]:
        """The feasible points with the values of `config`, and the knobs of these on which they depend."""
        needs = set[str]()
        for place, constraint in enumerate(constraints):
            followed, answer = constraint.followed(config, undecided, needs)
            self.answered += 1
            if answer is None:
                self.asked += 1
                followed, answer = followed.ask(config, undecided, needs)
            if self.answered > ANSWERS or self.asked > QUESTIONS:
                raise _TooMany
            if isinstance(answer, Knob):
                branch, more = self._branch(answer, undecided, config, (followed, *constraints[place + 1 :]))
                return branch, needs.union(more)
            if not answer:
                return _NOTHING, needs
        return Leaf(undecided, size(undecided)), needs

    def _branch(
        self, knob: Knob, undecided: tuple[Knob, ...], config: Config, constraints: tuple[_Constraint, ...]
    ) -> tuple[Branch, Iterable[str]]:
        place = tuple(map(id, undecided)), tuple(constraint.here or constraint.first for constraint in constraints)
        known = self.known.setdefault(place, {})
        for names, found in known.items():
            branch = found.get(_values(config, names))
            if branch is not None:
                return branch, names
        self.read.add(knob.name)
        rest = tuple(other for other in undecided if other is not knob)
        kept, needs = list[tuple[Value, Tree]](), set[str]()
        for value in knob.values:
            child, more = self.tree((*knob.children(value), *rest), {**config, knob.name: value}, constraints)
            needs |= more
            if child.count:
                kept.append((value, child))
        needs.discard(knob.name)
        children = tuple(child for _, child in kept)
        branch = Branch(knob.name, tuple(value for value, _ in kept), children, tuple(itertools.accumulate(one.count for one in children)))
        names = tuple(needs)
        known.setdefault(names, {})[_values(config, names)] = branch
        return branch, names


_NOTHING: Final = Branch("", (), (), ())
"""No points."""


def _values(config: Config, names: tuple[str, ...]) -> tuple[int | None, ...]:
    """The values of knobs by identity; None for a knob that a point does not have."""
    return tuple([id(config[name]) if name in config else None for name in names])


def _descend(tree: Tree, rank: int, config: Config) -> None:
    while isinstance(tree, Branch):
        place = bisect.bisect_right(tree.ends, rank)
        rank -= tree.ends[place - 1] if place else 0
        config[tree.knob] = tree.values[place]
        tree = tree.children[place]
    unrank(tree.free, rank, config)


class _Reads(BaseException):
    """A knob has to be decided: that of what is read by its `name`, or the next one where the point is wanted as a whole."""

    def __init__(self, knob: Knob, name: str | None = None) -> None:
        self.knob = knob
        self.name = name


class _TooMany(Exception):  # noqa: N818 - the ordinary end of a large space
    pass


class _Undecided(Mapping[str, Any]):
    """A point of which only some knobs are decided; reading another one asks for it. `read`: the decided ones, in the order of reading."""

    def __init__(self, config: Config, undecided: tuple[Knob, ...]) -> None:
        self.read: dict[str, int | None] = {}
        self._config = config
        self._undecided = undecided

    def __getitem__(self, name: str) -> Any:
        if name in self._config:
            value = self._config[name]
            self.read[name] = id(value)
            return value
        knob = _knob_of(name, self._undecided)
        if knob is not None:
            raise _Reads(knob, name)
        self.read[name] = None
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        raise _Reads(self._undecided[0])

    def __len__(self) -> int:
        raise _Reads(self._undecided[0])


def _knob_of(name: str, undecided: tuple[Knob, ...]) -> Knob | None:
    """The knob of a name, or the one that may open it."""
    for knob in undecided:
        if knob.name == name or (knob.opens and name in names(knob)):
            return knob
    return None


def names(knob: Knob) -> frozenset[str]:
    """The names of a knob and of all that it can open."""
    if not knob.opens:
        return frozenset((knob.name,))
    return frozenset((knob.name,)).union(*(names(child) for children in knob.opens.values() for child in children))
