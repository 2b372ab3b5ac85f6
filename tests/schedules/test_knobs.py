"""A knob lists feasible values, knows which are close, and keeps what it is when it is edited."""

import math

import pytest
from hypothesis import given, strategies as st

from tensorlang.errors import TuningError
from tensorlang.schedules.spaces.knobs import Choice, Factors, Log2, Order, Sizes, TileSize
from tensorlang.schedules.spaces.serialization import KnobReader


@given(st.integers(1, 400), st.integers(1, 4))
def test_factors_are_all_ordered_ways_to_write_the_extent_as_a_product(extent: int, parts: int) -> None:
    knob = Factors("f", extent, parts)
    assert all(math.prod(value) == extent and len(value) == parts for value in knob.values)
    exponents = [sum(extent % p**e == 0 for e in range(1, 10)) for p in range(2, extent + 1) if all(p % q for q in range(2, p))]
    assert len(knob.values) == math.prod(math.comb(e + parts - 1, parts - 1) for e in exponents)


def test_factors_move_by_a_prime_and_project_from_the_inside_out() -> None:
    knob = Factors("f", 12, 2)
    assert sorted(knob.near([4, 3])) == [[2, 6], [12, 1]]
    assert Factors("f", 24, 3).nearest([9, 2, 4]) == [3, 2, 4]
    assert Factors("f", 24, 2, innermost=4).values == ([24, 1], [12, 2], [8, 3], [6, 4])
    with pytest.raises(TuningError, match="cannot be split"):
        Factors("f", 0, 2)


@given(st.integers(1, 500), st.integers(1, 32))
def test_a_split_without_tails_has_only_divisors(extent: int, hi: int) -> None:
    knob = TileSize("s", extent, hi=hi, exact=True)
    assert knob.values and all(extent % size == 0 and size <= hi for size in knob.values)
    assert knob.values == tuple(size for size in range(1, min(extent, hi) + 1) if extent % size == 0)


def test_a_split_with_tails_tells_what_padding_would_waste() -> None:
    knob = TileSize("s", 10, sizes=(3, 5))
    assert knob.columns() == ("s", "s.tiles", "s.waste")
    assert knob.features(5) == (math.log2(5), 1.0, 0.0) and knob.features(3)[2] == pytest.approx(0.2)


def test_restricting_a_knob_keeps_what_it_is() -> None:
    """The extent of a split was once lost."""
    for knob, kept in ((TileSize("s", 10, hi=8), [2, 4]), (Order("o", "ijk"), [["i", "j", "k"]]), (Factors("f", 6, 2), [[2, 3]])):
        edited = knob.restricted(kept)
        assert edited.columns() == knob.columns() and edited.features(kept[0]) == knob.features(kept[0])
        assert list(edited.values) == kept and KnobReader().knob(edited.to_json(), "knob") == edited


def test_powers_of_two_stay_within_their_bounds() -> None:
    assert Log2("p", 3, 64).values == (4, 8, 16, 32, 64)
    with pytest.raises(TuningError, match="has no value"):
        Log2("p", 9, 15)


def test_orders_keep_precedence_and_exchange_neighbours_only() -> None:
    knob = Order("o", ("i", "j", "k"), before=(("i", "j"),))
    assert len(knob.values) == 3 and knob.near(["i", "j", "k"]) == (["i", "k", "j"],)
    assert knob.columns() == ("o:i<j", "o:i<k", "o:j<k") and knob.features(["k", "i", "j"]) == (1.0, 0.0, 0.0)


def test_a_value_of_another_space_is_compared_by_ratio_or_by_name() -> None:
    assert Sizes("s", (8, 16, 32)).nearest(20) == 16 and Choice("c", ("a", "b")).nearest("z") == "a"
    with pytest.raises(TuningError, match="lists a value twice"):
        Choice("c", ("a", "a"))


@pytest.mark.parametrize("wrong", [0, -2, 2.5, "4"])
def test_sizes_are_positive_integers(wrong: object) -> None:
    with pytest.raises(TuningError, match="no positive integer"):
        Sizes("s", [wrong])  # type: ignore[list-item]
