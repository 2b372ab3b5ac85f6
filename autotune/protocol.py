"""How the tuner and its worker speak: JSON objects in frames on a private socket, each with its length and a CRC-32.

A candidate may print, or write through a wild file descriptor. Frames that do not add up are therefore expected, and are an error of
the worker, never of the parent: `Broken` says so, and the worker is replaced.
"""

from __future__ import annotations

import json
import select
import socket
import struct
import time
import zlib
from typing import Any, Final

_HEAD: Final = struct.Struct("<II")
LONGEST: Final = 64 << 20


class Broken(Exception):  # noqa: N818 - a state of the channel, handled where it is read
    """What arrived is not a frame."""


class Closed(Exception):  # noqa: N818 - the ordinary end of a conversation
    """The other side is gone."""


class Late(Exception):  # noqa: N818 - the ordinary end of a wait
    """Nothing arrived before the deadline."""


class Channel:
    """One end of the conversation."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self._buffer = bytearray()

    def send(self, message: dict[str, Any]) -> None:
        """Send one message. Raises `Closed` if nobody listens."""
        body = json.dumps(message).encode()
        try:
            self._end.sendall(_HEAD.pack(len(body), zlib.crc32(body)) + body)
        except OSError:
            raise Closed from None

    def receive(self, deadline: float | None = None) -> dict[str, Any]:
        """The next message, waited for until `deadline` (of `time.monotonic`), for ever if None.

        Raises `Late`, `Closed` or `Broken`.
        """
        length, crc = _HEAD.unpack(self._take(_HEAD.size, deadline))
        if length > LONGEST:
            raise Broken(f"a frame of {length} bytes")
        body = self._take(length, deadline)
        if zlib.crc32(body) != crc:
            raise Broken("a frame whose checksum does not match")
        try:
            message = json.loads(body)
        except ValueError:
            message = None
        if not isinstance(message, dict):
            raise Broken("a frame that is not a message")
        return message

    def close(self) -> None:
        """Hang up."""
        self._end.close()

    def _take(self, count: int, deadline: float | None) -> bytes:
        while len(self._buffer) < count:
            left = None if deadline is None else max(deadline - time.monotonic(), 0)
            poll = select.poll()  # not select: descriptors may be above 1023
            poll.register(self._end, select.POLLIN)
            if not poll.poll(None if left is None else left * 1000):
                raise Late
            try:
                chunk = self._end.recv(1 << 20)
            except OSError:
                chunk = b""
            if not chunk:
                raise Closed
            self._buffer += chunk
        taken = bytes(self._buffer[:count])
        del self._buffer[:count]
        return taken
