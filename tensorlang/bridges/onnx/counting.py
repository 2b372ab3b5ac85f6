"""Rows of the table: how often sequences of numbers occur in rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

import tensorlang as tl
from tensorlang.bridges.onnx.call import Call, Translation
from tensorlang.graph import Value


def grams(call: Call) -> Value:
    """Counts of the n-grams of a pool, their elements next to each other or so many apart; or whether they occur; weighted."""
    pool, starts, places = call.get("pool_int64s"), call.needed("ngram_counts"), call.needed("ngram_indexes")
    if pool is None:
        raise tl.GraphError("a pool of words has no translation; one of numbers has")
    value = call[0] if len(call[0].shape) == 2 else call.reshaped(call[0], (1, -1))
    rows, length = call.extents(value)
    found: list[Value] = []
    order: list[int] = []
    ends = (*starts[1:], len(pool))
    done = 0
    for size, (start, end) in enumerate(zip(starts, ends, strict=True), 1):
        table = np.array(pool[start:end], np.int64).reshape(-1, size)
        own = places[done : done + len(table)]
        done += len(table)
        if len(table) and call.needed("min_gram_length") <= size <= call.needed("max_gram_length"):
            skips = range(1 if size == 1 else call.needed("max_skip_count") + 1)
            counts = [_counts(call, value, rows, length, table, skip + 1) for skip in skips]
            total = counts[0]
            for other in counts[1:]:
                total = call("add", total, other)
            found.append(total)
            order += own
    width = max(places, default=-1) + 1
    blank = call("expand", call.builder.scalar(0, "float32"), shape=(rows, 1))
    whole = call.cast(call("cat", *found, dim=1), "float32") if found else blank
    whole = call("cat", whole, blank, dim=1)
    columns = np.full(width, len(order))
    columns[order] = np.arange(len(order))
    made = call("index_select", whole, call.builder.constant(columns), dim=1)
    mode = call.needed("mode")
    if mode != "TF":
        weights = np.ones(width, np.float32)
        weights[list(places)] = call.get("weights") or np.ones(len(places))
        kept = call.builder.constant(weights)
        occurs = call.cast(call("gt", made, call.builder.scalar(0, "float32")), "float32") if mode == "IDF" else made
        made = call("mul", occurs, kept)
    return made if len(call[0].shape) == 2 else call.reshaped(made, (width,))


def _counts(call: Call, value: Value, rows: int, length: int, table: np.ndarray[Any, Any], apart: int) -> Value:
    """How often each row of a table occurs in each row of a value, its elements so many apart."""
    count, size = table.shape
    ways = length - (size - 1) * apart
    if ways < 1:
        return call("expand", call.builder.scalar(0, "int64"), shape=(rows, count))
    at = (np.arange(ways)[:, None] + np.arange(size)[None, :] * apart).reshape(-1)
    seen = call.reshaped(call("index_select", call.cast(value, "int64"), call.builder.constant(at), dim=1), (rows, 1, ways, size))
    same = call("all", call("eq", seen, call.builder.constant(table.reshape(1, count, 1, size))), dim=3)
    return call("sum", call.cast(same, "int64"), dim=2)


ROWS: Final[Mapping[str, Translation]] = {"TfIdfVectorizer": grams}
"""By ONNX's names."""
