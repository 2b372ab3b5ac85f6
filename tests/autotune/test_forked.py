"""What a child was forked for comes back, and what keeps it from answering is written down."""

from typing import Any

import pytest
from msgspec import Struct

from tensorlang.autotune.workers.forked import Forked, Lost


class Asked(Struct, frozen=True):
    """A number."""

    number: int


class Answer(Struct, frozen=True):
    """What is made of it."""

    made: Any


def test_an_answer_that_cannot_be_sent_is_told_by_the_child(capfd: pytest.CaptureFixture[str]) -> None:
    calls = Forked(lambda asked: Answer(asked.number or object()), Asked, Answer)
    assert calls.call(Asked(3), 30.0) == Answer(3)
    assert capfd.readouterr().err == ""
    with pytest.raises(Lost, match="exit code 1"):
        calls.call(Asked(0), 30.0)
    assert "NotImplementedError: object in a message" in capfd.readouterr().err
    assert calls.call(Asked(4), 30.0) == Answer(4)
    calls.close()
    assert capfd.readouterr().err == ""
