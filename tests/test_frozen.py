"""A frozen dataclass that is made quickly is as dataclasses made it, in all that a user of it can see."""

from __future__ import annotations

import inspect
import pickle
from dataclasses import FrozenInstanceError, dataclass, field, replace

import pytest

from tensorlang.system.frozen import frozen


@dataclass(frozen=True, slots=True)
class Slow:
    """One of each kind of field."""

    name: str
    number: int = 3
    parts: list[int] = field(default_factory=list)
    kept: str | None = field(default=None, init=False, compare=False)


@frozen
class Quick:
    """The same."""

    name: str
    number: int = 3
    parts: list[int] = field(default_factory=list)
    kept: str | None = field(default=None, init=False, compare=False)


def test_it_has_the_signature_and_the_values_that_it_would_have() -> None:
    assert inspect.signature(Quick) == inspect.signature(Slow)
    for args, named in (("a",), {}), (("a", 4), {}), (("a",), {"parts": [1]}), ((), {"number": 0, "name": "b"}):
        quick, slow = Quick(*args, **named), Slow(*args, **named)
        assert repr(quick).replace("Quick", "Slow") == repr(slow)
        assert quick == replace(quick) == pickle.loads(pickle.dumps(quick))  # noqa: S301 - our own bytes
    assert Quick("a").parts is not Quick("a").parts


def test_it_is_frozen_and_refuses_what_it_would_refuse() -> None:
    with pytest.raises(FrozenInstanceError):
        Quick("a").number = 4  # type: ignore[misc]
    with pytest.raises(TypeError, match="__init__"):
        Quick()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="__init__"):
        Quick("a", 1, [], "kept")  # type: ignore[call-arg]


def test_a_class_that_does_more_when_it_is_made_is_refused() -> None:
    class Checked:
        def __post_init__(self) -> None: ...

    with pytest.raises(TypeError, match="Checked does more than set its fields"):
        frozen(Checked)


def test_a_tree_is_hashed_once_and_its_hash_is_in_no_copy() -> None:
    asked = []

    class Leaf:
        def __hash__(self) -> int:
            asked.append(self)
            return 7

    @frozen
    class Pair:
        left: object
        right: object

    leaf = Leaf()
    tree: object = Pair(leaf, 1)
    for _ in range(20):
        tree = Pair(tree, tree)
        assert {tree: 1}[tree] == 1
    assert asked == [leaf]
    kept = Quick("a", 4, ())  # type: ignore[arg-type]
    assert hash(kept) == hash(replace(kept)) == hash(pickle.loads(pickle.dumps(kept)))  # noqa: S301 - our own bytes
    assert set(kept.__getstate__()) == {"a", 4, (), None}  # type: ignore[misc]
    with pytest.raises(TypeError, match="unhashable"):
        hash(Quick("a"))


def test_a_hash_of_its_own_is_kept_too() -> None:
    @frozen
    class Odd:
        name: str

        def __hash__(self) -> int:
            return 3

    assert hash(Odd("a")) == hash(Odd("b")) == 3
