"""The default of a product blocks it by what leaves which cache, and computes what NumPy does at every point that it may name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tensorlang.codegen.target import target
from tensorlang.definition.tensor import Tensor
from tensorlang.schedules.strategies import choose


def product(m: int, k: int, n: int, *, relu: bool = False) -> Tensor:
    """A B, with a rectifier if wanted."""
    c = tl.ops.matmul(tl.placeholder((m, k), name="A"), tl.placeholder((k, n), name="B"))
    return tl.compute((m, n), lambda i, j: tl.maximum(c[i, j], 0), name="R") if relu else c


def default(m: int, k: int, n: int, *, threads: int = 1, relu: bool = False) -> dict[str, Any]:
    """The default on a processor with 32 vector registers of 16 lanes."""
    strategy = choose(product(m, k, n, relu=relu), target("znver5"), threads)
    assert strategy.space.contains(strategy.default)
    return strategy.default


def copied_from(k: int, n: int) -> int:
    """The least power of two of rows for which the default copies panels of the other operand; for more it does so, too."""
    found = [default(1 << power, k, n).get("pack_vector", False) for power in range(3, 15)]
    assert found == sorted(found) and not found[0] and found[-1]
    return 8 << found.index(True)


def test_a_panel_is_copied_where_its_reuse_pays_and_rows_of_it_that_lie_whole_pages_apart_are_sooner() -> None:
    assert copied_from(1000, 1024) < copied_from(1000, 1000)


def test_rows_that_share_a_set_of_the_first_level_cache_make_lower_tiles() -> None:
    assert default(2048, 2048, 2048)["rows"] < default(2048, 2000, 2048)["rows"]


@pytest.mark.parametrize("rows", [16, 32, 64])
def test_an_operand_that_is_read_once_from_memory_is_not_copied_and_read_in_runs_longer_than_the_tile_is_high(rows: int) -> None:
    config = default(rows, 4096, 4096)
    assert not config["pack_vector"] and config["vectors"] >= config["rows"]


def test_the_rows_of_a_block_stay_in_the_second_level_cache_where_the_panel_is_not_copied() -> None:
    machine = target("znver5")
    for m, k, n in ((32, 4096, 4096), (128, 3072, 768), (64, 5000, 1000)):
        config = default(m, k, n)
        assert not config["pack_vector"] and 4 * m * config["depth"] < machine.l2


def test_rows_that_outgrow_the_last_level_are_packed_in_blocks_for_the_second_unless_sums_must_be_whole() -> None:
    machine = target("znver5")
    for m, k, n in ((8192, 8192, 512), (20000, 3000, 1000)):
        for threads in (1, 2):
            config = default(m, k, n, threads=threads)
            assert (config["order"], config["pack_row"], config["pack_vector"]) == ("kbji", True, True)
            assert 4 * config["vectors"] * 16 * config["depth"] < machine.l2
        assert default(m, k, n, relu=True)["order"] == "jki"
    assert default(1024, 1024, 1024)["order"] == "jki"


def test_threads_share_the_blocks_of_rows() -> None:
    assert default(8192, 8192, 512, threads=2)["parallel"] == "block"


def test_blocks_are_alike() -> None:
    for k in (768, 3072):
        assert k % default(128, k, 768)["depth"] == 0


@pytest.mark.parametrize(
    ("shape", "relu"),
    [
        ((33, 70, 45), True),
        ((16, 1200, 1040), False),
        ((6, 530, 1024), True),
        pytest.param((701, 700, 45), False, marks=pytest.mark.slow),
        ((1500, 300, 45), False),
    ],
)
def test_blocks_compute_the_product(shape: tuple[int, int, int], relu: bool) -> None:
    m, k, n = shape
    rng = np.random.default_rng(0)
    a, b = rng.integers(-4, 5, (m, k)).astype("float32"), rng.integers(-4, 5, (k, n)).astype("float32")
    want = np.maximum(a @ b, 0) if relu else a @ b
    outputs = product(m, k, n, relu=relu)
    machine = target("native")
    strategy = choose(outputs, machine, 1)
    blocked = {"order": "kbji", "pack_row": True, "pack_vector": True}
    for changes in ({}, {"depth": 64, "order": "kji", "unroll": 2}, {"depth": 64, **blocked}, blocked):
        config = {**strategy.default, **changes, **({"epilogue": "apart"} if relu and changes else {})}
        if strategy.space.contains(config):
            np.testing.assert_array_equal(tl.build(strategy.schedule(config), machine)(a, b), want)
