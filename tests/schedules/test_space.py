"""A space proposes feasible points only, each at most once, and knows how many there are."""

import itertools
import json
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from tensorlang.errors import TuningError
from tensorlang.schedules.spaces.space import Choice, Config, Flag, Log2, Order, Space, TileSize, spelling, tile_sizes


def tree() -> Space:
    return Space(
        (
            TileSize("mr", 12, hi=8),
            Choice("pack", {"none": (), "B": (Log2("kc", 16, 64), Flag("align"))}),
            Order("order", ("i", "j", "k"), before=(("i", "k"),)),
        )
    )


def brute() -> list[Config]:
    packs: list[Config] = [{"pack": "none"}, *({"pack": "B", "kc": kc, "align": a} for kc in (16, 32, 64) for a in (False, True))]
    orders = [list(p) for p in itertools.permutations("ijk") if p.index("i") < p.index("k")]
    return [{"mr": mr, **pack, "order": order} for mr in (1, 2, 3, 4, 6, 8) for pack in packs for order in orders]


def test_the_count_and_the_points_are_those_of_brute_force() -> None:
    space = tree()
    assert space.total == len(brute()) == space.count.feasible
    assert {spelling(space.at(rank)) for rank in range(space.total)} == {spelling(config) for config in brute()}
    assert {spelling(config) for config in space} == {spelling(config) for config in brute()}


def test_a_constraint_is_counted_sampled_and_iterated_exactly() -> None:
    space = tree().where(lambda c: c["mr"] * c.get("kc", 1) <= 64, "panel fits")
    expected = {spelling(c) for c in brute() if c["mr"] * c.get("kc", 1) <= 64}
    assert space.count.feasible == len(expected) and space.count.exact
    drawn = space.sample(np.random.default_rng(0), 10_000)
    assert len(drawn) == len(expected) and {spelling(c) for c in drawn} == expected
    assert space.sample(np.random.default_rng(0), 5, exclude=expected) == []


def test_samples_are_uniform_over_points_not_over_branches() -> None:
    space = tree()
    rng = np.random.default_rng(1)
    hits = Counter(space.sample(rng, 1)[0]["pack"] for _ in range(3000))
    assert abs(hits["none"] / 3000 - 1 / 7) < 0.03


def test_a_large_space_whose_constraints_read_little_is_counted_exactly_and_sampled_without_duplicates() -> None:
    space = Space(tuple(Log2(f"k{i}", 1, 128) for i in range(30))).where(lambda c: c["k0"] <= 8, "k0").where(lambda c: c["k1"] < c["k2"])
    assert space.total == 8**30
    drawn = space.sample(np.random.default_rng(0), 200)
    assert len({spelling(c) for c in drawn}) == 200 and all(space.contains(c) for c in drawn)
    assert space.count.exact and space.count.feasible == 4 * 28 * 8**27


def test_a_large_space_whose_constraint_reads_everything_is_estimated_and_sampled_by_rejection() -> None:
    space = Space(tuple(Log2(f"k{i}", 1, 128) for i in range(30))).where(lambda c: sum(v > 8 for v in c.values()) % 2 == 0, "even")
    drawn = space.sample(np.random.default_rng(0), 200)
    assert len({spelling(c) for c in drawn}) == 200 and all(space.contains(c) for c in drawn)
    assert not space.count.exact and 0.4 < space.count.feasible / space.total < 0.6


def test_a_large_space_with_almost_no_feasible_point_still_ends() -> None:
    space = Space(tuple(Log2(f"k{i}", 1, 128) for i in range(9))).where(lambda _: False, "nothing")
    assert space.sample(np.random.default_rng(0), 1) == []


@given(st.integers(0, 10_000))
def test_neighbours_and_crossings_stay_in_the_space(seed: int) -> None:
    space = tree().where(lambda c: c["mr"] != 3, "not three")
    rng = np.random.default_rng(seed)
    a, b = space.sample(rng, 2)
    near = space.neighbours(a)
    assert all(space.contains(c) for c in near) and spelling(a) not in {spelling(c) for c in near}
    assert tree().contains(space.mix(rng, a, b))


def test_every_point_is_reached_by_moves() -> None:
    space = tree()
    seen, todo = set(), [space.at(0)]
    while todo:
        config = todo.pop()
        if spelling(config) not in seen:
            seen.add(spelling(config))
            todo += space.neighbours(config)
    assert len(seen) == space.total


@pytest.mark.parametrize(
    "wrong",
    [{}, {"mr": 5}, {"mr": 1, "pack": "none", "order": ["k", "i", "j"]}, {"mr": 1, "pack": "none", "kc": 16, "order": ["i", "j", "k"]}],
)
def test_foreign_points_are_not_contained(wrong: dict[str, Any]) -> None:
    assert not tree().contains(wrong)


def test_true_is_not_one() -> None:
    space = Space((Choice("lanes", (1, 2)),))
    assert space.contains({"lanes": 1}) and not space.contains({"lanes": True})


def test_points_survive_json() -> None:
    assert all(tree().contains(json.loads(json.dumps(config))) for config in tree())


def test_encoding_has_one_number_for_each_column_and_tells_points_apart() -> None:
    space = Space(tree().knobs, derived=lambda c: {"panel": float(c["mr"] * c.get("kc", 1))})
    rows = [tuple(space.encode(config)) for config in space]
    assert {len(row) for row in rows} == {len(space.columns)} and space.columns[-1] == "panel"
    assert len(set(rows)) == len(rows)


def test_a_point_of_another_shape_is_projected_to_the_nearest_feasible_one() -> None:
    small = Space((TileSize("mr", 8), Flag("pack"))).where(lambda c: c["mr"] != 8, "not eight")
    assert small.project({"mr": 4, "pack": True}) == {"mr": 4, "pack": True}
    assert (small.project({"mr": 64, "pack": True, "gone": 3}) or {})["mr"] in (4, 6)
    assert small.where(lambda _: False, "never").project({"mr": 4}) is None


def test_editing_gives_a_smaller_space_and_leaves_the_first_alone() -> None:
    space = tree()
    fixed = space.fix("kc", 32).restrict("mr", [1, 2])
    assert fixed.total == 2 * 3 * 3 and space.total == len(brute())
    assert all(c.get("kc", 32) == 32 for c in fixed)
    with pytest.raises(TuningError, match="no knob 'mc'; there are align"):
        space.fix("mc", 1)
    with pytest.raises(TuningError, match="has no value 5; it has 1 2 3 4 6 8"):
        space.fix("mr", 5)


def test_the_fingerprint_depends_on_knobs_values_and_constraints_only() -> None:
    assert tree().fingerprint == tree().fingerprint
    others = [tree().fix("mr", 1), tree().where(lambda _: True, "always"), Space(tree().knobs[:2])]
    assert len({tree().fingerprint, *(space.fingerprint for space in others)}) == 4


def test_a_space_prints_as_a_tree_with_its_size() -> None:
    text = str(tree().where(lambda c: c["mr"] > 1, "mr > 1"))
    assert text.splitlines()[0] == "105 feasible points of 126"
    assert "  mr: 1 2 3 4 6 8" in text and "      kc: 16 32 64" in text and text.endswith("where mr > 1")


@given(st.integers(1, 300), st.integers(1, 40), st.sampled_from([1, 4, 16]))
def test_tile_sizes_are_multiples_within_bounds_and_never_none(extent: int, lo: int, multiple: int) -> None:
    sizes = tile_sizes(extent, lo=lo, hi=lo + 64, multiple=multiple)
    assert sizes and all(size % multiple == 0 and size <= -(-extent // multiple) * multiple for size in sizes)
    assert len(sizes) == 1 or all(lo <= size <= lo + 64 for size in sizes)


def test_a_name_may_stand_in_several_branches_but_not_twice_in_a_point() -> None:
    """Two knobs of one name were once counted as two, while the points that they gave were the same."""
    flag = Flag("a")
    assert Space((Choice("t", {"x": (flag,), "y": (flag, Flag("b"))}),)).total == 6
    for knobs in ((flag, Flag("a")), (flag, Choice("t", {"x": (Flag("a"),)})), (Choice("a", {"x": (Flag("a"),)}),)):
        with pytest.raises(TuningError, match="two knobs of one point are called 'a'"):
            Space(knobs)


def test_a_constraint_that_reads_a_knob_which_a_point_does_not_have_is_named() -> None:
    for space in (tree().where(lambda c: c["kc"] > 16, "deep"), tree().where(lambda c: c["kc"] > 16 and c["mr"] > 1, "deep")):
        for use in (lambda s: s.count, list, lambda s: s.contains(brute()[0]), lambda s: s.sample(np.random.default_rng(0), 1)):
            with pytest.raises(TuningError, match=r"constraint 'deep' reads 'kc'.*write .get\('kc'"):
                use(space)
    assert tree().where(lambda c: c.get("kc", 99) > 16, "deep").count.feasible == len(brute()) * 5 // 7
    with pytest.raises(TuningError, match="a constraint is a function of a point, not 3"):
        tree().where(3)  # type: ignore[arg-type]


def test_edits_compose_and_every_search_space_that_comes_of_them_is_exact() -> None:
    edited = tree().restrict("mr", [2, 4, 8]).where(lambda c: c["mr"] * c.get("kc", 1) <= 128, "small").fix("order", ["j", "i", "k"])
    expected = [c for c in brute() if c["mr"] in (2, 4, 8) and c["mr"] * c.get("kc", 1) <= 128 and c["order"] == ["j", "i", "k"]]
    assert edited.count.exact and {spelling(c) for c in edited} == {spelling(c) for c in expected}
    assert all(tree().contains(c) for c in edited) and edited.fix("mr", 4).count.feasible == sum(c["mr"] == 4 for c in expected)
    assert str(edited).startswith(f"{len(expected)} feasible points of {edited.total}")
