"""How the messages of `protocol` travel: text and the bytes beside it, in frames on a private socket, each with its lengths and a CRC-32.

A candidate may print, or write through a wild file descriptor. Frames that do not add up, and messages that are not of the type that is
listened for, are therefore expected, and are an error of the worker, never of the parent: `Broken` says so, and the worker is replaced.
Nothing is ever unpickled, and nothing lies in files that a killed job would leave behind.
"""

from __future__ import annotations

import select
import socket
import struct
import time
import zlib
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from tensorlang.autotune.workers.protocol import encode

Heard = TypeVar("Heard")

_HEAD: Final = struct.Struct("<IQI")
_SIZE: Final = struct.Struct("<Q")
LONGEST: Final = 256 << 20


class Broken(Exception):  # noqa: N818 - a state of the channel, handled where it is read
    """What arrived is not a frame."""


class Closed(Exception):  # noqa: N818 - the ordinary end of a conversation
    """The other side is gone."""


class Late(Exception):  # noqa: N818 - the ordinary end of a wait
    """Nothing arrived, or nothing could be sent, before the deadline."""


class Channel(Generic[Heard]):
    """One end of the conversation; `read` makes a message of what arrives, or raises `ValueError`.

    `longest` bounds the bytes of a frame that is taken (None: the other side is trusted).
    """

    def __init__(self, end: socket.socket, read: Callable[[bytes, list[bytes]], Heard], longest: int | None = LONGEST) -> None:
        self._end = end
        self._message = read
        self._longest = longest
        self._buffer = bytearray()

    def fileno(self) -> int:
        """The descriptor to wait for."""
        return self._end.fileno()

    def send(self, message: object, deadline: float | None = None) -> None:
        """Send one message. Raises `Closed` if nobody listens, `Late` if nobody reads in time."""
        text, beside = encode(message)
        parts = [text, *(part for data in beside for part in (_SIZE.pack(len(data)), data))]
        crc = 0
        for part in parts:
            crc = zlib.crc32(part, crc)
        self._put(_HEAD.pack(len(text), sum(map(len, parts)) - len(text), crc) + text, deadline)
        for part in parts[1:]:
            self._put(part, deadline)

    def receive(self, deadline: float | None = None) -> Heard:
        """The next message, waited for until `deadline` (of `time.monotonic`), for ever if None.

        Raises `Late`, `Closed` or `Broken`.
        """
        while (message := self._taken()) is None:
            if not self._ready(select.POLLIN, deadline):
                raise Late
            self._read()
        return message

    def arrived(self) -> Heard | None:
        """A message that is already here, without waiting; None if there is none yet. Raises `Closed` or `Broken`."""
        while (message := self._taken()) is None:
            if not self._ready(select.POLLIN, 0):
                return None
            self._read()
        return message

    def close(self) -> None:
        """Hang up."""
        self._end.close()

    def _taken(self) -> Heard | None:
        """The message at the start of the buffer, if it is complete."""
        if len(self._buffer) < _HEAD.size:
            return None
        length, extra, crc = _HEAD.unpack_from(self._buffer)
        if self._longest is not None and length + extra > self._longest:
            raise Broken(f"a frame of {length + extra} bytes")
        end = _HEAD.size + length + extra
        if len(self._buffer) < end:
            return None
        frame = bytes(memoryview(self._buffer)[_HEAD.size : end])
        del self._buffer[:end]
        if zlib.crc32(frame) != crc:
            raise Broken("a frame whose checksum does not match")
        try:
            return self._message(frame[:length], _pieces(frame, length))
        except ValueError as error:
            raise Broken(f"a frame that is not a message: {error}") from None

    def _read(self) -> None:
        try:
            chunk = self._end.recv(1 << 20)
        except OSError:
            chunk = b""
        if not chunk:
            raise Closed
        self._buffer += chunk

    def _put(self, data: bytes, deadline: float | None) -> None:
        left = memoryview(data)
        while left:
            if not self._ready(select.POLLOUT, deadline):
                raise Late
            try:
                left = left[self._end.send(left, socket.MSG_DONTWAIT) :]
            except BlockingIOError:
                continue
            except OSError:
                raise Closed from None

    def _ready(self, event: int, deadline: float | None) -> bool:
        poll = select.poll()  # not select: descriptors may be above 1023
        try:
            poll.register(self._end, event)
        except (OSError, ValueError):
            raise Closed from None
        return bool(poll.poll(None if deadline is None else max(deadline - time.monotonic(), 0) * 1000))


def _pieces(frame: bytes, at: int) -> list[bytes]:
    """What stands beside the text of a frame, which ends `at` there. Raises `ValueError` where the lengths do not add up."""
    found = []
    while at < len(frame):
        start = at + _SIZE.size
        if start > len(frame) or (at := start + _SIZE.unpack_from(frame, start - _SIZE.size)[0]) > len(frame):
            raise ValueError("bytes that are cut off")
        found.append(frame[start:at])
    return found
