"""Errors are values: they cross to other processes and back, as themselves."""

from __future__ import annotations

import copy
import inspect
import multiprocessing
import pickle
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import pytest

import tensorlang as tl
from tensorlang import errors

CLASSES = [found for _, found in inspect.getmembers(errors, inspect.isclass) if issubclass(found, Exception)]


def made(kind: type[Exception]) -> Exception:
    """An error of a class."""
    if not issubclass(kind, errors.ScheduleError):
        return kind("the reason")
    return kind("TL-S101", "the reason", stage="Y", loop="Y.i", nest="for i", counterexample={"i": 1}, alternatives=["s.split"])


def refused(factor: Any = 2) -> None:
    """A directive that a schedule does not take."""
    X = tl.placeholder((8,), name="X")
    tl.Schedule(tl.compute((8,), lambda i: X[i] + 1, name="Y")).split("nope", factor)


@pytest.mark.parametrize("kind", CLASSES)
@pytest.mark.parametrize("again", [lambda error: pickle.loads(pickle.dumps(error)), copy.copy, copy.deepcopy])  # noqa: S301 - our own
def test_an_error_is_itself_again(kind: type[Exception], again: Any) -> None:
    error = made(kind)
    error.add_note("seen on a worker")
    other = again(error)
    assert type(other) is kind
    assert (str(other), other.__dict__) == (str(error), error.__dict__)


def test_a_refused_directive_comes_back_from_another_process() -> None:
    """`multiprocessing.Pool` waited for ever for an error that it could not read."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("fork")) as pool, pytest.raises(tl.ScheduleError) as caught:
        pool.submit(refused).result(timeout=60)
    assert (caught.value.code, caught.value.loop) == ("TL-S001", "nope")
    assert "for i in range(8):" in caught.value.nest
