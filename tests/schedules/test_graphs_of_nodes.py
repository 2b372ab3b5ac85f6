"""Sums over the neighbours of nodes, in ranges that data tell, take no more steps and no more storage than there are edges."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tensorlang.codegen.compilation import default_schedule
from tensorlang.codegen.target import target
from tensorlang.ir.traverse import statements

NODES, EDGES, HEADS, WIDTH = 60, 400, 4, 16
MACHINE = target("x86-64-v4")
SHAPES = {"ptr": (NODES + 1,), "source": (EDGES,), "z": (NODES, HEADS, WIDTH), "w": (EDGES, HEADS)}


def inputs() -> dict[str, Any]:
    """The placeholders."""
    kinds = {"ptr": "int64", "source": "int32"}
    return {name: tl.placeholder(shape, kinds.get(name, "float32"), name=name) for name, shape in SHAPES.items()}


def edges(ptr: Any, i: Any) -> Any:
    return tl.reduce_axis((ptr[i], ptr[i + 1]), name="e", within=EDGES)


def scores(given: dict[str, Any], i: Any, h: Any, e: Any) -> Any:
    """What a node and its neighbour along an edge say to one another."""
    z, d = given["z"], tl.reduce_axis(WIDTH, name="d")
    return tl.sum(z[i, h, d] * z[tl.clamp(given["source"][e], 0, NODES - 1), h, d], axis=d)


Form = Callable[[dict[str, Any], Any, Any, Any], Any]
FORMS: dict[str, tuple[Form, Callable[[Any, Any], Any]]] = {
    "sum of products": (lambda g, i, h, e: tl.sum(scores(g, i, h, e), axis=e), lambda s, w: s.sum(0)),
    "weighed": (lambda g, i, h, e: tl.sum(g["w"][e, h] * scores(g, i, h, e), axis=e), lambda s, w: (w * s).sum(0)),
    "greatest": (lambda g, i, h, e: tl.max(scores(g, i, h, e), axis=e), lambda s, w: s.max(0, initial=-np.inf)),
    "exponentials": (lambda g, i, h, e: tl.sum(tl.exp(scores(g, i, h, e)), axis=e), lambda s, w: np.exp(s).sum(0)),
}


def arrays() -> dict[str, Any]:
    rng = np.random.default_rng(5)
    ends = np.concatenate([[0], np.sort(rng.integers(0, EDGES + 1, NODES - 1)), [EDGES]]).astype("int64")
    z, w = (rng.random(SHAPES[name], dtype="float32") / 4 for name in "zw")
    return {"ptr": ends, "source": rng.integers(0, NODES, EDGES).astype("int32"), "z": z, "w": w}


@pytest.mark.parametrize("form", list(FORMS))
def test_products_along_edges_are_kept_nowhere(form: str) -> None:
    given = inputs()
    y = tl.compute((NODES, HEADS), lambda i, h: FORMS[form][0](given, i, h, edges(given["ptr"], i)), name="y")
    kernel, data = tl.build(y, inputs=list(given.values())), arrays()
    assert kernel.workspace_bytes == 0
    each = [np.einsum("hd,ehd->eh", data["z"][i], data["z"][data["source"][a:b]]) for i, (a, b) in enumerate(pairwise(data["ptr"]))]
    wanted = [FORMS[form][1](s, data["w"][a:b]) for s, (a, b) in zip(each, pairwise(data["ptr"]), strict=True)]
    np.testing.assert_allclose(kernel(**data), np.array(wanted), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("reduce", ["add", "max", "set"])
@pytest.mark.parametrize("order", ["bec", "bce", "cbe"])
def test_rows_are_scattered_along_their_ranges(order: str, reduce: str) -> None:
    """The loop over ranges stays inside of the one that tells them, though it says where rows go."""
    given, dy = inputs(), tl.placeholder((NODES, WIDTH), name="dy")
    zero = tl.compute((NODES, WIDTH), lambda i, c: tl.cast(0, "float32"), name="zero")
    b, c = tl.reduce_axis(NODES, name="b"), tl.reduce_axis(WIDTH, name="c")
    axes = {"b": b, "e": edges(given["ptr"], b), "c": c}

    def place(*at: Any) -> Any:
        named = dict(zip(order, at, strict=True))
        return tl.clamp(given["source"][named["e"]], 0, NODES - 1), named["c"]

    def value(*at: Any) -> Any:
        named = dict(zip(order, at, strict=True))
        return dy[named["b"], named["c"]] * given["w"][named["e"], 0]

    g = tl.scatter(zero, axes=tuple(axes[name] for name in order), index=place, value=value, reduce=reduce, name="g")
    nest = default_schedule(g, MACHINE, threads=1).nest
    loops = [part.loop for part in statements(nest.body) if hasattr(part, "loop")]
    around = [min(at for at, loop in enumerate(loops) if loop.startswith(f"g.{name}")) for name in "be"]
    assert around[0] < around[1]
    data = arrays() | {"dy": np.random.default_rng(6).random((NODES, WIDTH), dtype="float32")}
    wanted = np.zeros((NODES, WIDTH))
    for i, (first, last) in enumerate(pairwise(data["ptr"])):
        for k in range(first, last):
            row, new = data["source"][k], data["dy"][i] * data["w"][k, 0]
            wanted[row] = {"add": wanted[row] + new, "max": np.maximum(wanted[row], new), "set": new}[reduce]
    np.testing.assert_allclose(tl.build(g, inputs=[*given.values(), dy])(**data), wanted, rtol=1e-4, atol=1e-6)


def test_a_range_is_not_summed_in_blocks_of_what_it_is_within() -> None:
    given, d = inputs(), tl.reduce_axis(WIDTH, name="d")

    def element(i: Any) -> Any:
        e = edges(given["ptr"], i)
        return tl.sum(given["z"][tl.clamp(given["source"][e], 0, NODES - 1), 0, d] * given["z"][i, 0, d], axis=(e, d))

    y = tl.compute((NODES,), element, name="y")
    assert "accumulate" not in repr(default_schedule(y, MACHINE, threads=1))
    data = arrays()
    wanted = [(data["z"][data["source"][a:b], 0] @ data["z"][i, 0]).sum() for i, (a, b) in enumerate(pairwise(data["ptr"]))]
    np.testing.assert_allclose(tl.build(y, inputs=list(given.values()))(**data), np.array(wanted), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dear", [False, True])
def test_elements_that_take_long_have_lanes_in_short_ranges_too(dear: bool) -> None:
    """Six edges a node on the average: a root takes as long for one lane as for all of them."""
    given = inputs()

    def element(i: Any) -> Any:
        e = edges(given["ptr"], i)
        return tl.sum(tl.sqrt(given["w"][e, 0]) if dear else given["w"][e, 0], axis=e)

    y = tl.compute((NODES,), element, name="y")
    vectors = {part.loop for part in statements(default_schedule(y, MACHINE, threads=1).nest.body) if getattr(part, "kind", "") == "vector"}
    assert any(loop.startswith("y.e") for loop in vectors) == dear
    data = arrays()
    wanted = [(np.sqrt(data["w"][a:b, 0]) if dear else data["w"][a:b, 0]).sum() for a, b in pairwise(data["ptr"])]
    np.testing.assert_allclose(tl.build(y, inputs=list(given.values()))(**data), np.array(wanted), rtol=1e-4, atol=1e-6)
