"""What the handler of a signal raises goes to the caller: no search for speed takes it for a fault of its own."""

from __future__ import annotations

import functools
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import tensorlang as tl
from tensorlang.codegen import compilation
from tensorlang.schedules.spaces.knobs import Choice
from tensorlang.schedules.spaces.space import Space
from tensorlang.system.interruptions import is_interruption

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[1])}


class LateError(Exception):
    """A limit of the caller's."""


class Limit:
    """Handlers of all kinds."""

    def method(self, *_: object) -> None:
        raise LateError

    def __call__(self, *_: object) -> None:
        raise RuntimeError("late")


def function(*_: object) -> None:
    raise TimeoutError


HANDLERS: dict[str, Callable[..., None]] = {
    "function": function,
    "method": Limit().method,
    "partial": functools.partial(functools.partial(function, 1), 2),
    "object": Limit(),
}


@pytest.fixture(params=HANDLERS)
def alarm(request: pytest.FixtureRequest) -> Iterator[None]:
    """One of the handlers is that of the alarm."""
    before = signal.signal(signal.SIGALRM, HANDLERS[request.param])
    yield
    signal.signal(signal.SIGALRM, before)


def rung(*_: object, **__: object) -> Any:
    """The alarm rings while this runs."""
    signal.raise_signal(signal.SIGALRM)


@pytest.mark.usefixtures("alarm")
def test_a_limit_while_a_schedule_is_chosen_goes_to_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was logged as a fault of ours, and the plain loops stayed in the folder of kernels."""
    monkeypatch.setattr(compilation, "choose", rung)
    with pytest.raises((LateError, RuntimeError, TimeoutError)) as caught:
        tl.build(tl.compute((8,), lambda i: i, name="C"))
    assert is_interruption(caught.value)
    monkeypatch.undo()
    assert not compilation.default_schedule(tl.compute((8,), lambda i: i, name="C"), tl.target("native")).faults


@pytest.mark.usefixtures("alarm")
def test_a_limit_while_a_constraint_is_asked_goes_to_the_caller() -> None:
    space = Space((Choice("a", (1, 2)), Choice("b", (1, 2)))).where(rung, "it never answers")
    with pytest.raises((LateError, RuntimeError, TimeoutError)):
        space.count  # noqa: B018 - it is asked now


def test_what_nobody_handles_is_no_interruption() -> None:
    with pytest.raises(TimeoutError) as caught:
        function()
    assert not is_interruption(caught.value)


BROKEN_OFF = """
import enum, signal, sys, threading
import tensorlang as tl

class LateError(Exception):
    pass

def late(*_):
    raise LateError

signal.signal(signal.SIGALRM, late)
rung = []

def profile(frame, event, argument):
    if not rung and event == "call" and frame.f_code.co_filename == enum.__file__ and "islpy._isl" in sys.modules:
        rung.append(True)
        signal.raise_signal(signal.SIGALRM)

sys.setprofile(profile)
threading.setprofile(profile)
n = tl.dim("n", 1)
A = tl.placeholder((n, n), name="A")

def asked():
    return tl.compute((n, n), lambda i, j: A[(i * 3 + j) % n, (i + j * 5) % n], name="C")

try:
    asked()
    print("went on", bool(rung))
except LateError:
    print("late")
asked()
print("again")
"""


def test_an_import_that_a_limit_meets_is_not_broken_off() -> None:
    """The next one ended the process: `refusing to add duplicate key`."""
    done = subprocess.run([sys.executable, "-c", BROKEN_OFF], capture_output=True, text=True, check=False, timeout=120, env=ENVIRONMENT)
    assert (done.returncode, done.stdout.split()) == (0, ["late", "again"]), done.stdout + done.stderr
