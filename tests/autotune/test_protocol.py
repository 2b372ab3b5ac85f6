"""Messages arrive whole, bytes included, and whatever is not a message is an error of the other side."""

import socket
import threading
import time
from collections.abc import Iterator

import pytest

from tensorlang.autotune.workers.protocol import Broken, Channel, Closed, Late

Pair = tuple[Channel, Channel, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    left, right = socket.socketpair()
    ends = Channel(left), Channel(right, longest=1 << 20)
    yield *ends, left
    for end in ends:
        end.close()


def test_objects_and_bytes_arrive_as_they_were_sent(pair: Pair) -> None:
    ours, theirs, _ = pair
    blobs = [b"", bytes(range(256)), b"x" * 1000]
    ours.send({"a": [1, None, "e"], "blobs": blobs})
    ours.send({"b": 2})
    assert theirs.receive() == {"a": [1, None, "e"], "blobs": blobs}
    assert theirs.arrived() == {"b": 2} and theirs.arrived() is None


def test_more_than_a_socket_holds_is_sent_while_the_other_side_reads(pair: Pair) -> None:
    ours, theirs, _ = pair
    blob = b"y" * (8 << 20)
    reader = threading.Thread(target=lambda: theirs.send({"blobs": [blob]}))
    reader.start()
    assert ours.receive(time.monotonic() + 20)["blobs"] == [blob]
    reader.join()


def test_a_reader_that_stands_still_makes_sending_late_and_one_that_is_gone_closed(pair: Pair) -> None:
    ours, theirs, _ = pair
    with pytest.raises(Late):
        ours.send({"blobs": [b"z" * (8 << 20)]}, time.monotonic() + 0.05)
    theirs.close()
    with pytest.raises(Closed):
        ours.send({"blobs": [b"z" * (8 << 20)]})


@pytest.mark.parametrize("garbage", [b"garbage" * 100, bytes(16) + b"{}", b"\xff" * 16])
def test_what_is_no_frame_is_broken(pair: Pair, garbage: bytes) -> None:
    _, theirs, raw = pair
    raw.sendall(garbage)
    with pytest.raises(Broken):
        theirs.receive(time.monotonic() + 1)


def test_a_changed_byte_and_a_frame_that_is_too_long_are_broken(pair: Pair) -> None:
    ours, theirs, raw = pair
    ours.send({"n": 1, "blobs": [b"abc"]})
    frame = theirs._end.recv(1000)
    raw.sendall(frame[:-1] + b"X")
    with pytest.raises(Broken, match="checksum"):
        theirs.receive(time.monotonic() + 1)
    raw.sendall((2).to_bytes(4, "little") + (1 << 40).to_bytes(8, "little") + bytes(4))
    with pytest.raises(Broken, match="a frame of"):
        theirs.receive(time.monotonic() + 1)


def test_silence_is_late_and_a_hang_up_is_closed(pair: Pair) -> None:
    ours, theirs, _ = pair
    with pytest.raises(Late):
        theirs.receive(time.monotonic() + 0.02)
    ours.close()
    with pytest.raises(Closed):
        theirs.receive()
