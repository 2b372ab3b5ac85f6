"""Exceptions that handlers of signals raise: a time limit, say, which is about the caller and not about what is running.

Where whatever goes wrong is caught, since a fault of ours, or of a function that we try, shall not end what the caller wants, these go on.

Some of what is imported on use ends the process where an import was broken off and is begun again (a module of nanobind's registers its
types twice). Handlers run in the main thread, so such an import is another one's.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import signal
import threading
from collections.abc import Iterator
from types import CodeType, ModuleType, TracebackType
from typing import Any


def is_interruption(error: BaseException) -> bool:
    """Did the handler of a signal raise this?"""
    handlers = frozenset(_handlers())
    return any(code in handlers for code in _codes(error.__traceback__))


def imported_whole(name: str) -> ModuleType:
    """A module, whose import no handler breaks off: it is over before what a handler raises goes on. Raises `ImportError`."""
    if threading.current_thread() is threading.main_thread():
        thread = threading.Thread(target=_tried, args=(name,), daemon=True)
        thread.start()
        try:
            thread.join()
        except BaseException:
            thread.join()
            raise
    return importlib.import_module(name)


def _tried(name: str) -> None:
    with contextlib.suppress(ImportError):  # the caller finds the same
        importlib.import_module(name)


def _handlers() -> Iterator[CodeType]:
    """The code of the functions that handle signals in this process."""
    for number in signal.valid_signals():
        handler: Any = signal.getsignal(number)
        while isinstance(handler, functools.partial):
            handler = handler.func
        if callable(handler) and not hasattr(handler, "__code__") and not hasattr(handler, "__func__"):
            handler = type(handler).__call__
        code = getattr(getattr(handler, "__func__", handler), "__code__", None)
        if code is not None:
            yield code


def _codes(traceback: TracebackType | None) -> Iterator[CodeType]:
    while traceback is not None:
        yield traceback.tb_frame.f_code
        traceback = traceback.tb_next
