"""Messages arrive as the values that were sent, bytes included, and whatever is not a message is an error of the other side."""

import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, strategies as st

from tensorlang.autotune.log.status import STATUSES, Failure
from tensorlang.autotune.measurement.measure import Policy
from tensorlang.autotune.workers.channel import Broken, Channel, Closed, Late
from tensorlang.autotune.workers.protocol import (
    Answer,
    Blob,
    Build,
    Candidate,
    Compiling,
    Facts,
    Hello,
    Measure,
    Outcome,
    Paired,
    Request,
    Running,
    Spans,
    Take,
    encode,
    read_answer,
    read_request,
)
from tests.autotune import stand_ins

Pair = tuple[Channel[Answer], Channel[Request], socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    left, right = socket.socketpair()
    ours, theirs = Channel(left, read_answer), Channel(right, read_request, longest=1 << 20)
    yield ours, theirs, left
    for end in (ours, theirs):
        end.close()


numbers = st.floats(allow_nan=False, allow_infinity=False)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
blobs = st.binary(max_size=8).map(Blob)
configs = st.dictionaries(texts, st.none() | st.booleans() | st.integers() | texts, max_size=3)
candidates = st.builds(Candidate, st.none() | configs, st.none() | texts, st.none() | numbers, st.booleans())
facts = st.builds(
    Facts, schedule=st.none() | texts, compile_s=st.none() | numbers, samples=st.lists(numbers, max_size=3).map(tuple),
    number=st.none() | st.integers(0), censored=st.booleans(), runs=st.lists(st.integers(0), max_size=2).map(tuple),
    kernel=st.none() | blobs,
)  # fmt: skip
faults = st.builds(Failure, texts, texts, st.none() | st.integers(1, 64))
outcomes = st.builds(
    Outcome, st.sampled_from((*STATUSES, "error")), facts, st.none() | faults, st.integers(0, 3), st.lists(facts, max_size=3).map(tuple)
)


@given(st.builds(Build, candidates) | st.builds(Measure, candidates, st.none() | blobs) | st.builds(Paired, st.tuples(candidates)))
def test_requests_arrive_as_they_were_sent(request: Request) -> None:
    assert read_request(*encode(request)) == request


@given(st.builds(Hello, st.integers(0)) | st.builds(Compiling, st.integers(0)) | st.builds(Running, facts) | outcomes)
def test_answers_arrive_as_they_were_sent(answer: Answer) -> None:
    assert read_answer(*encode(answer)) == answer


def test_a_task_arrives_with_its_types_and_arrays() -> None:
    task = stand_ins.task(Policy(cache="cold"), "m:f", bound={1: Blob(b"two")}, at=(((0, 1), (2, 3)),), cores=(1,), dims={"n": 4})
    assert read_request(*encode(Take(task))) == Take(task)
    assert read_request(*encode(Take(task.for_builder()))).task.expected == ()


def test_what_is_known_later_counts_and_what_is_not_said_does_not() -> None:
    built, measured = Facts(schedule="s", compile_s=1.0, kernel=Blob(b"k")), Facts(compile_s=2.0, samples=(3.0, 2.0))
    assert built.then(measured) == Facts(schedule="s", compile_s=2.0, samples=(3.0, 2.0), kernel=Blob(b"k"))
    assert measured.time == 2.0 and built.time is None and built.without_kernel().kernel is None


def test_numbers_of_numpy_and_half_a_character_arrive_as_plain_values() -> None:
    answer = Outcome("ok", Facts(run_s=np.float64(0.5)), Failure("OSError", "caf\udce9"), spans=Spans(build=(1.0, 2.0)))
    assert read_answer(*encode(answer)) == Outcome("ok", Facts(run_s=0.5), Failure("OSError", "caf?"), spans=Spans(build=(1.0, 2.0)))


def test_either_all_finalists_bring_a_kernel_or_none_does() -> None:
    with pytest.raises(ValueError, match="either all candidates bring a kernel or none does"):
        Paired((Candidate({}), Candidate({})), (Blob(b"one"),))


def test_messages_and_bytes_come_through_the_channel_in_order(pair: Pair) -> None:
    ours, theirs, _ = pair
    kernel = Measure(Candidate({"a": [1, None, "e"]}), Blob(bytes(range(256))))
    ours.send(kernel)
    ours.send(Build(Candidate(schedule="{}")))
    assert theirs.receive() == kernel
    assert theirs.arrived() == Build(Candidate(schedule="{}")) and theirs.arrived() is None


def test_more_than_a_socket_holds_is_sent_while_the_other_side_reads(pair: Pair) -> None:
    ours, theirs, _ = pair
    answer = Outcome("ok", Facts(kernel=Blob(b"y" * (8 << 20))))
    reader = threading.Thread(target=lambda: theirs.send(answer))
    reader.start()
    assert ours.receive(time.monotonic() + 20) == answer
    reader.join()


def test_a_reader_that_stands_still_makes_sending_late_and_one_that_is_gone_closed(pair: Pair) -> None:
    ours, theirs, _ = pair
    large = Measure(Candidate({}), Blob(b"z" * (8 << 20)))
    with pytest.raises(Late):
        ours.send(large, time.monotonic() + 0.05)
    theirs.close()
    with pytest.raises(Closed):
        ours.send(large)


@pytest.mark.parametrize("garbage", [b"garbage" * 100, bytes(16) + b"{}", b"\xff" * 16])
def test_what_is_no_frame_is_broken(pair: Pair, garbage: bytes) -> None:
    _, theirs, raw = pair
    raw.sendall(garbage)
    with pytest.raises(Broken):
        theirs.receive(time.monotonic() + 1)


def test_a_changed_byte_and_a_frame_that_is_too_long_are_broken(pair: Pair) -> None:
    ours, theirs, raw = pair
    ours.send(Measure(Candidate({}), Blob(b"abc")))
    frame = theirs._end.recv(1000)
    raw.sendall(frame[:-1] + b"X")
    with pytest.raises(Broken, match="checksum"):
        theirs.receive(time.monotonic() + 1)
    raw.sendall((2).to_bytes(4, "little") + (1 << 40).to_bytes(8, "little") + bytes(4))
    with pytest.raises(Broken, match="a frame of"):
        theirs.receive(time.monotonic() + 1)


@pytest.mark.parametrize(
    ("message", "why"),
    [
        ({"type": "outcome", "status": "splendid"}, r"Invalid enum value 'splendid' - at `\$\.status`"),
        (
            {"type": "outcome", "status": "ok", "facts": {"samples": ["fast"]}},
            r"Expected `float`, got `str` - at `\$\.facts\.samples\[0\]`",
        ),
        ({"type": "outcome", "status": "ok", "facts": {"kernel": 0}}, r"0 is no Blob - at `\$\.facts\.kernel`"),
        ({"type": "outcome"}, "missing required field `status`"),
        ({"type": "build", "candidate": {}}, "Invalid value 'build'"),
        ({}, "missing required field `type`"),
        ([1], "Expected `object`, got `array`"),
    ],
)
def test_a_frame_whose_message_is_not_of_its_type_is_broken_and_says_in_which_field(pair: Pair, message: object, why: str) -> None:
    ours, theirs, _ = pair
    theirs.send(message)
    with pytest.raises(Broken, match=f"a frame that is not a message: .*{why}"):
        ours.receive(time.monotonic() + 1)


def test_silence_is_late_and_a_hang_up_is_closed(pair: Pair) -> None:
    ours, theirs, _ = pair
    with pytest.raises(Late):
        theirs.receive(time.monotonic() + 0.02)
    ours.close()
    with pytest.raises(Closed):
        theirs.receive()


def test_a_worker_starts_without_records_reports_and_libraries_of_the_search() -> None:
    """Every worker pays for what it imports, in a job hundreds of times."""
    heavy = (
        "jinja2",
        "matplotlib",
        "pandas",
        "platformdirs",
        "rich",
        "scipy",
        "skopt",
        "typer",
        "statistics",
        "tensorlang.autotune.log.record",
    )
    modules = "tensorlang.autotune.workers.worker, tensorlang.autotune.workers.candidate, tensorlang.autotune.workers.measurer"
    code = f"import sys, {modules}; sys.exit(' '.join(name for name in {heavy} if name in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False).stderr.strip() == ""


def test_a_process_that_measures_starts_without_what_schedules() -> None:
    modules = "tensorlang.autotune.workers.worker, tensorlang.autotune.workers.measurer, tensorlang.codegen.kernel.kernel"
    heavy = ("islpy", "numpy.ma", "tensorlang.codegen.compilation", "tensorlang.schedules.catalogue", "tensorlang.schedules.schedule")
    code = f"import sys, {modules}; sys.exit(' '.join(name for name in {heavy} if name in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False).stderr.strip() == ""
