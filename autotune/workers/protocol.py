"""How the tuner and its workers speak: JSON objects and raw bytes in frames on a private socket, each with its lengths and a CRC-32.

A candidate may print, or write through a wild file descriptor. Frames that do not add up are therefore expected, and are an error of
the worker, never of the parent: `Broken` says so, and the worker is replaced. Arrays and object code travel as they are, as the "blobs"
of a message; nothing is ever unpickled, and nothing lies in files that a killed job would leave behind.
"""

from __future__ import annotations

import json
import select
import socket
import struct
import time
import zlib
from typing import Any, Final

_HEAD: Final = struct.Struct("<IQI")
LONGEST: Final = 256 << 20


class Broken(Exception):  # noqa: N818 - a state of the channel, handled where it is read
    """What arrived is not a frame."""


class Closed(Exception):  # noqa: N818 - the ordinary end of a conversation
    """The other side is gone."""


class Late(Exception):  # noqa: N818 - the ordinary end of a wait
    """Nothing arrived, or nothing could be sent, before the deadline."""


class Channel:
    """One end of the conversation; `longest` bounds the bytes of a frame that is taken (None: the other side is trusted)."""

    def __init__(self, end: socket.socket, longest: int | None = LONGEST) -> None:
        self._end = end
        self._longest = longest
        self._buffer = bytearray()

    def fileno(self) -> int:
        """The descriptor to wait for."""
        return self._end.fileno()

    def send(self, message: dict[str, Any], deadline: float | None = None) -> None:
        """Send one message; its "blobs", if any, are bytes. Raises `Closed` if nobody listens, `Late` if nobody reads in time."""
        blobs = message.get("blobs", ())
        body = json.dumps({**message, "blobs": [len(blob) for blob in blobs]} if blobs else message).encode()
        crc = zlib.crc32(body)
        for blob in blobs:
            crc = zlib.crc32(blob, crc)
        self._put(_HEAD.pack(len(body), sum(map(len, blobs)), crc) + body, deadline)
        for blob in blobs:
            self._put(blob, deadline)

    def receive(self, deadline: float | None = None) -> dict[str, Any]:
        """The next message, waited for until `deadline` (of `time.monotonic`), for ever if None.

        Raises `Late`, `Closed` or `Broken`.
        """
        while (message := self._taken()) is None:
            if not self._ready(select.POLLIN, deadline):
                raise Late
            self._read()
        return message

    def arrived(self) -> dict[str, Any] | None:
        """A message that is already here, without waiting; None if there is none yet. Raises `Closed` or `Broken`."""
        while (message := self._taken()) is None:
            if not self._ready(select.POLLIN, 0):
                return None
            self._read()
        return message

    def close(self) -> None:
        """Hang up."""
        self._end.close()

    def _taken(self) -> dict[str, Any] | None:
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
        return _message(frame, length)

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


def _message(frame: bytes, length: int) -> dict[str, Any]:
    try:
        message = json.loads(frame[:length])
        if not isinstance(message, dict):
            raise TypeError  # noqa: TRY301 - as any other garbage
        if "blobs" in message:
            blobs, at = [], length
            for size in message["blobs"]:
                blobs.append(frame[at : at + size])
                at += size
            message["blobs"] = blobs
    except (ValueError, TypeError, RecursionError):
        raise Broken("a frame that is not a message") from None
    return message
