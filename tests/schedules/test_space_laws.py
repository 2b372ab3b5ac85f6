"""Over random spaces: what is counted, drawn, listed and reached by moves is what brute force finds."""

import contextlib
import itertools
import json
import math
import subprocess
import sys
from collections import Counter
from functools import partial
from typing import Any

import numpy as np
import pytest
import scipy
from hypothesis import assume, given, strategies as st

from tensorlang.autotune.search.factory import STRATEGIES, searcher
from tensorlang.autotune.search.searcher import Observation
from tensorlang.errors import TensorlangError, TuningError
from tensorlang.schedules.spaces.feasible import feasible
from tensorlang.schedules.spaces.space import Choice, Config, Factors, Flag, Footprint, Knob, Log2, Order, Sizes, Space, TileSize, spelling
from tests.draws import examples


@st.composite
def knobs(draw: Any, depth: int = 2, prefix: str = "k") -> tuple[Knob, ...]:
    found: list[Knob] = []
    for place in range(draw(st.integers(1, 3))):
        name = f"{prefix}{place}"
        kinds = ["flag", "sizes", "split", "order", "factors", *(["tree"] if depth else [])]
        match draw(st.sampled_from(kinds)):
            case "flag":
                found.append(Flag(name))
            case "sizes":
                found.append(Sizes(name, draw(st.sets(st.integers(1, 64), min_size=1, max_size=3))))
            case "split":
                found.append(TileSize(name, draw(st.integers(1, 12)), hi=4, exact=draw(st.booleans())))
            case "order":
                found.append(Order(name, ("i", "j", "k"), draw(st.sampled_from([(), (("i", "k"),), (("i", "j"), ("j", "k"))]))))
            case "factors":
                found.append(Factors(name, draw(st.sampled_from([1, 4, 6])), 2))
            case "tree":
                found.append(Choice(name, {"none": (), "some": draw(knobs(depth - 1, f"{name}."))}))
    return tuple(found)


@st.composite
def spaces(draw: Any) -> Space:
    space = Space(draw(knobs()))
    assume(space.total <= 400)
    for place in range(draw(st.integers(0, 2))):
        names = draw(st.sets(st.sampled_from(sorted(space.at(0))), min_size=1, max_size=2))
        salt, share = draw(st.integers(0, 99)), draw(st.integers(2, 5))

        def holds(config: Config, names: set[str] = names, salt: int = salt, share: int = share) -> bool:
            return (sum(map(ord, spelling([config.get(name) for name in sorted(names)]))) + salt) % share != 0

        space = space.where(holds, f"constraint {place}")
    return space


def brute(space: Space) -> dict[str, Config]:
    points = [space.at(rank) for rank in range(space.total)]
    return {spelling(p): p for p in points if all(c.holds(p) for c in space.constraints)}


@examples(60)
@given(spaces(), st.integers(0, 1000))
def test_count_list_sample_and_containment_agree_with_brute_force(space: Space, seed: int) -> None:
    points = brute(space)
    assert space.count.exact and space.count.feasible == len(points)
    listed = [spelling(p) for p in space]
    assert len(listed) == len(points) and set(listed) == set(points)
    drawn = [spelling(p) for p in space.sample(np.random.default_rng(seed), space.total + 1)]
    assert len(drawn) == len(points) and set(drawn) == set(points)
    assert all(space.contains(space.at(rank)) == (spelling(space.at(rank)) in points) for rank in range(space.total))
    assert all((space.at(rank) in space) == (spelling(space.at(rank)) in points) for rank in range(space.total)) and "k0" not in space


@examples(40)
@given(spaces())
def test_neighbours_are_feasible_and_mutual_where_the_same_knobs_are_active(space: Space) -> None:
    points = brute(space)
    near = {key: {spelling(n) for n in space.neighbours(point)} for key, point in points.items()}
    for key, found in near.items():
        assert found <= points.keys() and key not in found
        assert all(key in near[other] for other in found if points[other].keys() == points[key].keys())


@examples(15)
@given(spaces(), st.sampled_from(["random", "evolutionary", "grid"]), st.integers(0, 99))
def test_no_search_proposes_an_infeasible_point_or_one_twice_and_each_ends(space: Space, strategy: str, seed: int) -> None:
    points = brute(space)
    assume(points)
    search = searcher(strategy, space, next(iter(points.values())), seed=seed)
    asked = []
    while (proposal := search.ask()) is not None:
        asked.append(spelling(proposal.config))
        if len(asked) % 3:  # others stay in flight
            search.tell(Observation(proposal.config, 1.0 + len(asked) % 7))
    assert len(asked) == len(points) and set(asked) == set(points)


@examples(2)
@given(spaces(), st.integers(0, 99))
def test_the_bayesian_search_keeps_the_same_law(space: Space, seed: int) -> None:
    points = brute(space)
    assume(4 < len(points) <= 60)
    search = searcher("bayesian", space, next(iter(points.values())), seed=seed)
    asked = []
    while (proposal := search.ask()) is not None:
        asked.append(spelling(proposal.config))
        search.tell(Observation(proposal.config, None if len(asked) % 5 == 0 else 1.0 + len(asked) % 7))
    assert len(asked) == len(points) and set(asked) == set(points)
    assert set(STRATEGIES) == {"random", "evolutionary", "grid", "bayesian", "uninformed"}


@pytest.mark.parametrize("constrained", [False, True])
def test_every_feasible_point_is_drawn_equally_often(constrained: bool) -> None:
    space = Space((Sizes("a", (1, 2, 3)), Choice("t", {"x": (), "y": (Sizes("b", (1, 2)), Flag("f"))}), Order("o", ("i", "j"))))
    if constrained:
        space = space.where(lambda c: c["a"] != 2 or c.get("b") == 1, "a and b")
    rng = np.random.default_rng(3)
    hits = Counter(spelling(space.sample(rng, 1)[0]) for _ in range(30 * space.count.feasible))
    assert len(hits) == space.count.feasible and scipy.stats.chisquare(list(hits.values())).pvalue > 1e-3


def test_points_drawn_by_rejection_are_uniform_too() -> None:
    space = Space(tuple(Sizes(f"k{i}", range(1, 4)) for i in range(12))).where(lambda c: sum(c.values()) % 2 == 0, "even")
    assert not space.count.exact
    drawn = space.sample(np.random.default_rng(0), 3000)
    for name, value in itertools.product(("k0", "k11"), (1, 3)):
        assert abs(sum(c[name] == value for c in drawn) / 3000 - 1 / 3) < 0.03


def test_a_constraint_is_only_asked_about_what_it_reads() -> None:
    asked: list[int] = []

    def small(config: Config) -> bool:
        asked.append(1)
        return bool(config["a"] * config["b"] <= 8)

    found = feasible([Log2("a", 1, 8), Log2("b", 1, 8), *(Log2(f"k{i}", 1, 128) for i in range(20))], [small])
    assert found is not None and found.count == 10 * 8**20 and len(asked) < 60


def in_order(first: str, second: str, config: Config) -> bool:
    return bool(config[first] <= config[second])


def test_a_chain_of_constraints_is_counted_exactly_however_long_it_is() -> None:
    """What follows a knob depends on that knob alone: 8**20 points, 888,030 of them in order, some hundred questions each."""
    names = [f"k{i:02}" for i in range(20)]
    space = Space(tuple(Sizes(name, range(1, 9)) for name in names))
    for pair in itertools.pairwise(names):
        space = space.where(partial(in_order, *pair), " <= ".join(pair))
    assert space.count.exact and space.count.feasible == math.comb(27, 20)
    assert all(list(point.values()) == sorted(point.values()) for point in space.sample(np.random.default_rng(0), 50))


def test_a_constraint_that_relies_on_an_earlier_one_is_asked_after_it() -> None:
    space = (
        Space((Choice("a", (0, 1, 2)), Choice("b", (1, 2)))).where(lambda c: c["a"] != 0, "not 0").where(lambda c: 2 // c["a"] == c["b"])
    )
    assert space.count.exact and [c for c in space.sample(np.random.default_rng(0), 9) if not space.contains(c)] == []
    assert space.count.feasible == 2


def test_a_fingerprint_is_the_same_in_another_process() -> None:
    program = (
        "from tensorlang.schedules.spaces.space import *\n"
        "space = Space((TileSize('a', 12), Choice('t', {'x': (), 'y': (Flag('f'),)}), Factors('g', 8, 3)))\n"
        "print(space.where(lambda c: c['a'] > 1, 'a > 1').fingerprint)"
    )
    found = {subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout for _ in range(2)}
    space = Space((TileSize("a", 12), Choice("t", {"x": (), "y": (Flag("f"),)}), Factors("g", 8, 3))).where(lambda c: c["a"] > 1, "a > 1")
    assert found == {space.fingerprint + "\n"}


@examples(30)
@given(knobs())
def test_a_space_survives_json(found: tuple[Knob, ...]) -> None:
    space = Space(found, footprints=(Footprint("tile", ("k0",), 64, 1 << 15),) if isinstance(found[0], Sizes) else ())
    again = Space.from_json(json.loads(json.dumps(space.to_json())))
    assert again == space and again.fingerprint == space.fingerprint and again.columns == space.columns
    np.testing.assert_array_equal(again.encode(space.at(0)), space.encode(space.at(0)))


def test_what_is_no_space_is_refused() -> None:
    for wrong in ({}, {"knobs": 3, "footprints": []}, {"knobs": [{"kind": "Nothing"}], "footprints": []}):
        with pytest.raises(TuningError, match="not a search space"):
            Space.from_json(wrong)


def test_only_keeps_the_listed_points() -> None:
    space = Space((Sizes("a", range(1, 9)), Flag("f")))
    kept = space.only([{"a": 3, "f": True}, {"a": 4, "f": False}, {"a": 99, "f": True}])
    assert sorted(map(spelling, kept)) == ['{"a":3,"f":true}', '{"a":4,"f":false}']
    assert kept.neighbours({"a": 3, "f": True}) == [] and kept.fingerprint != space.fingerprint


def test_footprints_are_features_relative_to_a_capacity_and_are_printed() -> None:
    panel = Footprint("panel in L1", ("depth", "vectors"), each=64, capacity=1 << 15)
    space = Space((Log2("depth", 64, 256), Sizes("vectors", (1, 2, 4))), footprints=(panel,))
    assert space.columns[-1] == "panel in L1"
    assert space.encode({"depth": 256, "vectors": 2})[-1] == 0 and space.encode({"depth": 256, "vectors": 4})[-1] == 1
    assert "panel in L1: 64 x depth x vectors of 32768 bytes" in str(space)
    with pytest.raises(TuningError, match="positive"):
        Footprint("nothing", (), 0, 1)


ODD: tuple[Any, ...] = (
    None, -1, 1.5, float("nan"), "x", b"x", [], {}, np.zeros(2), np.array(5), [3],
    {"mr": object()}, {"mr": 1}, {1: 2}, object(), np.float32(1), [[]], len, Ellipsis, {3},
    {"mr": [2]}, {"mr": 2, "pack": "B"}, {"order": 3},
)  # fmt: skip
RIGHT: dict[str, tuple[Any, ...]] = {
    "fix": ("mr", 2), "restrict": ("mr", [2]), "sample": (np.random.default_rng(0), 2, ()), "mix": (np.random.default_rng(0), {}, {}),
    "at": (3,), "where": (bool, "any"), "only": ([],), "contains": ({},), "neighbours": ({},), "complete": ({},), "project": ({},),
    "encode": ({},), "encode_all": ([{}],),
}  # fmt: skip


@pytest.mark.parametrize("method", RIGHT)
def test_whatever_a_space_is_asked_it_answers_or_raises_an_error_of_ours(method: str) -> None:
    space = Space((TileSize("mr", 12, hi=8), Choice("pack", {"none": (), "B": (Flag("align"),)}), Order("order", ("i", "j"))))
    for place, wrong in itertools.product(range(len(RIGHT[method])), ODD):
        asked = [*RIGHT[method]]
        asked[place] = wrong
        with contextlib.suppress(TensorlangError):
            getattr(space, method)(*asked)


def test_values_of_any_kind_make_a_space_or_an_error_of_ours() -> None:
    for first, second in itertools.product(ODD, ODD):
        with contextlib.suppress(TensorlangError):
            str(Space.of(a=first, b=[second]))  # type: ignore[arg-type]
        with contextlib.suppress(TensorlangError):
            str(Space(first, second))


def test_a_point_that_leaves_out_a_knob_has_no_neighbours() -> None:
    with pytest.raises(TuningError, match=r"does not say what 'b' is; complete\(\)"):
        Space.of(a=(1, 2), b=(3, 4)).neighbours({"a": 1})


def nearly_empty() -> tuple[Space, Config]:
    """A space as that of a program of forty stages, of which few may be elsewhere, and a point of it."""
    names = [f"stage{place}" for place in range(40)]
    space = Space(tuple(Choice(name, ("whole", "strip", "inlined")) for name in names))

    def alike(one: str, other: str, config: Config) -> bool:
        return all(config[name] != "strip" for name in names) or config[one] == config[other]

    for pair in itertools.pairwise(names):  # too many questions to be answered beforehand
        space = space.where(partial(alike, *pair), pair[0])
    space = space.where(lambda c: sum(c[name] != "whole" for name in names) <= 3, "few are elsewhere")
    return space, dict.fromkeys(names, "whole")


def test_points_of_a_space_that_is_nearly_empty_are_drawn_around_one_that_is_known() -> None:
    """A program of sixty stages has some points in 1e69, and tuning it had the default alone to try."""
    space, known = nearly_empty()
    assert not space.count.exact and space.count.feasible == 0
    around = space.around(known)
    assert around == space and around.fingerprint == space.fingerprint
    assert around.count is space.count  # what is counted is not counted again
    points = around.sample(np.random.default_rng(0), 20)
    assert len(points) == 20 and all(map(space.contains, points))
    assert points == around.sample(np.random.default_rng(0), 20)
    assert any(sum(value != "whole" for value in point.values()) > 1 for point in points)


def test_so_are_those_of_which_one_in_two_thousand_is_feasible() -> None:
    """Thirty of them would take sixty thousand draws, and a question to each."""
    names = [f"stage{place}" for place in range(22)]
    asked = [0]

    def few(config: Config) -> bool:
        asked[0] += 1
        return bool(sum(config[name] for name in names) <= 4)

    space = Space(tuple(Choice(name, (False, True)) for name in names)).where(few, "few are elsewhere")
    known = dict.fromkeys(names, False)
    assert not space.count.exact and 0 < space.count.feasible < space.total / 300
    around = space.around(known)
    before = asked[0]
    points = around.sample(np.random.default_rng(0), 30)
    assert len(points) == 30 and all(map(space.contains, points))
    assert asked[0] - before < 5_000


@pytest.mark.parametrize("strategy", sorted({*STRATEGIES} - {"grid"}))
def test_searches_of_a_space_that_is_nearly_empty_begin_around_the_default(strategy: str) -> None:
    space, known = nearly_empty()
    found = searcher(strategy, space, known)
    points = [proposal.config for proposal in (found.ask() for _ in range(4)) if proposal is not None]
    assert len({spelling(point) for point in points}) == 4 and all(map(space.contains, points))
