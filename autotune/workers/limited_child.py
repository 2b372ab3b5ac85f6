"""The process in which `limited` calls functions.

python -m tensorlang.autotune.workers.limited_child SOCKET PARENT MEMORY CORES
"""

from __future__ import annotations

import importlib
import sys
import typing
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from tensorlang.autotune.workers.channel import Channel
from tensorlang.autotune.workers.isolation import served
from tensorlang.autotune.workers.protocol import Function, Returned, decode
from tensorlang.errors import TensorlangError

Frame = tuple[bytes, list[bytes]]


def serve(channel: Channel[Frame]) -> None:
    """Call functions until the parent hangs up."""
    while True:
        module, _, name = decode(Function, *channel.receive()).name.partition(":")
        frame = channel.receive()
        try:
            answer = _called(getattr(importlib.import_module(module), name), frame)
        except TensorlangError as error:
            channel.send(Returned(_line(str(error)), refused=True))
        except MemoryError as error:
            channel.send(Returned(_line(f"out of memory: {error}".rstrip(": ")), memory=True))
        except BaseException as error:  # noqa: BLE001 - a user's code may raise anything, and ends no more than itself
            channel.send(Returned(_line(f"{type(error).__name__}: {error}")))
        else:
            channel.send(Returned())
            channel.send(answer)


def _called(function: Callable[[Any], Struct], frame: Frame) -> Struct:
    request, *_ = (kind for name, kind in typing.get_type_hints(function).items() if name != "return")
    return function(decode(request, *frame))


def _line(text: str) -> str:
    return text.partition("\n")[0][:500]


if __name__ == "__main__":
    served(sys.argv[1:], lambda text, beside: (text, beside), serve)
