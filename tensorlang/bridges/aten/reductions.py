"""Reductions, statistics and norms along axes, and what runs along one: torch names the axis, or axes, or none for all."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tensorlang.bridges.aten.call import Call, Translation
from tensorlang.bridges.aten.elements import converted
from tensorlang.graph import Value


def reduction(operator: str) -> Translation:
    """A reduction over the axes that are named, or all."""

    def translation(call: Call) -> Value:
        dims = call.arguments.get("dim")
        options = {"dtype": str(call.type.dtype)} if operator in ("sum", "prod", "mean") and call["self"].dtype != call.type.dtype else {}
        if dims is not None:  # in one order: torch's two spellings differ in it
            dims = tuple(sorted(dim % max(len(call["self"].shape), 1) for dim in (dims if isinstance(dims, tuple) else (dims,))))
        source = call.as_type(call["self"], "bool") if operator in ("any", "all") else call["self"]
        return call(operator, source, dim=dims, keepdim=call.arguments.get("keepdim", False), **options)

    return translation


def variance(call: Call) -> Value:
    """`correction` is 1 unless it is given; torch's older form says whether it is."""
    correction = call.arguments.get("correction", 1 if call.arguments.get("unbiased", True) else 0)
    options = {"correction": 1 if correction is None else correction, "keepdim": call.arguments.get("keepdim", False)}
    return call("var", call["self"], dim=call.arguments.get("dim"), **options)


def variance_and_mean(call: Call) -> tuple[Value, Value]:
    """Both."""
    return variance(call), call("mean", call["self"], dim=call["dim"], keepdim=call.arguments.get("keepdim", False))


def extremum(operator: str) -> Translation:
    """The place of an extremum; along all axes, of the flat tensor."""

    def translation(call: Call) -> Value:
        source, dim = call["self"], call["dim"]
        if dim is None:
            source, dim = call.flat(source), 0
        return call.reshaped(call(operator, source, dim=dim, keepdim=call["keepdim"]), call.type.shape)

    return translation


def largest(operator: str, place: str, element: str) -> Translation:
    """`max` and `min`: of all, along an axis with the places, or of two tensors at each place."""

    def translation(call: Call) -> Any:
        if "other" in call.arguments:
            return converted(element, "self", "other")(call)
        if "dim" not in call.arguments:
            return call(operator, call["self"], dim=None)
        options = {"dim": call["dim"], "keepdim": call["keepdim"]}
        return call(operator, call["self"], **options), call(place, call["self"], **options)

    return translation


def both_ends(call: Call) -> tuple[Value, Value]:
    """`aminmax`."""
    options = {"dim": call["dim"], "keepdim": call["keepdim"]}
    return call("amin", call["self"], **options), call("amax", call["self"], **options)


def vector_norm(call: Call) -> Value:
    """`sum(|x| ** ord) ** (1 / ord)` along axes, or the largest or least distance from 0, or the number of what is not 0."""
    order, source = call["ord"], call.as_type(call["self"], call.type.dtype)
    options = {"dim": call["dim"], "keepdim": call["keepdim"]}
    b = call.builder
    if order == 2:
        return call("sqrt", b("sum", b("square", source), **options))
    if order == 0:
        return call("sum", b("to", b("ne", source, b.scalar(0, source.dtype)), dtype=str(source.dtype)), **options)
    distances = b("abs", source)
    if math.isinf(order):
        return call("amax" if order > 0 else "amin", distances, **options)
    if order == 1:
        return call("sum", distances, **options)
    total = b("sum", b("pow", distances, b.scalar(order, source.dtype)), **options)
    return call("pow", total, b.scalar(1 / order, source.dtype))


def distances(call: Call) -> Value:
    """`cdist`: norms of the differences of all rows of one tensor from all of another."""
    one, other, order = call["x1"], call["x2"], call["p"]
    b = call.builder
    left = b("reshape", one, shape=(*one.shape[:-1], 1, one.shape[-1]))
    right = b("reshape", other, shape=(*other.shape[:-2], 1, *other.shape[-2:]))
    return vector_norm(call.changed(self=b("sub", left, right), ord=order, dim=-1, keepdim=False, compute_mode=None))


def running(operator: str) -> Translation:
    """The extremum up to each place of an axis, and the last place where it is found, which is that of the last one that is no number."""

    def translation(call: Call) -> tuple[Value, Value | None]:
        source, b = call["self"], call.builder
        if not source.shape:
            return source, b.scalar(0, "int64")
        dim = call["dim"] % len(source.shape)
        values, extent = call(operator, source, dim=dim), source.shape[dim]
        if not isinstance(extent, int):
            return values, None
        places = b.constant(np.arange(extent).reshape((-1, *(1,) * (len(source.shape) - dim - 1))))
        met = b("eq", source, values)
        if source.type.dtype.is_floating:
            met = b("logical_or", met, b("isnan", source))
        return values, call("cummax", b("where", met, places, b.scalar(0, "int64")), dim=dim)

    return translation


def largest_few(call: Call) -> tuple[Value, ...]:
    """`topk`."""
    return call.builder.node("topk", [call["self"]], {"k": call["k"], "dim": call["dim"], "largest": call["largest"]}, call.name)


def sorted_along(call: Call) -> tuple[Value, ...]:
    """All elements of an axis in order, and where they were; equal ones stay in theirs."""
    return _in_order(call, call["self"], call["dim"], call["descending"])


def _in_order(call: Call, source: Value, dim: int, descending: bool = False) -> tuple[Value, ...]:
    if not source.shape:
        return source, call.builder.scalar(0, "int64")
    extent = source.shape[dim]
    if not isinstance(extent, int):
        raise call.refuse("an order of elements whose number is known only at a call has no translation")
    ordered = call.as_type(source, "uint8") if source.dtype == "bool" else source
    values, places = call.builder.node("topk", [ordered], {"k": extent, "dim": dim, "largest": descending}, call.name)
    return call.as_type(values, source.dtype), places


def median(call: Call) -> Any:
    """The element in the middle, the lower one of two; along an axis, with its place."""
    if "dim" not in call.arguments:
        return _at_rank(call, call.flat(call["self"]), 0, (math.prod(call["self"].shape) + 1) // 2, ())[0]
    dim = call["dim"] % max(len(call["self"].shape), 1)
    count = call["self"].shape[dim] if call["self"].shape else 1
    return _at_rank(call, call["self"], dim, (count + 1) // 2, call.told("keepdim").shape)


def ranked(call: Call) -> tuple[Value, Value]:
    """`kthvalue`: the k-th least element, and its place."""
    return _at_rank(call, call["self"], call["dim"] % max(len(call["self"].shape), 1), call["k"], call.told("keepdim").shape)


def _at_rank(call: Call, source: Value, dim: int, rank: int, shape: Sequence[Any]) -> tuple[Value, Value]:
    if not source.shape:
        return source, call.builder.scalar(0, "int64")
    found = (call.builder("slice", one, dim=dim, start=rank - 1, end=rank) for one in _in_order(call, source, dim))
    value, place = (call.reshaped(one, shape) for one in found)
    return value, place
