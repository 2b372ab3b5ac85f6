"""Dask's client, which here is closed by whoever opened it and never by the garbage collector.

`distributed.Client.__del__` takes the lock under which event loops are started and stopped, and the lock cannot be taken twice: a client
that was left open and is collected while another one starts waits for ever. A client whose constructor fails is such a client, if the
failure is not one of the network's.
"""

from __future__ import annotations

import contextlib
from typing import Any

from distributed import Client


class Owned(Client):  # type: ignore[misc] # Dask has no types
    """A client that only `close` closes; one that cannot connect leaves no thread."""

    def start(self, **kwargs: Any) -> None:
        """Start the event loop and connect."""
        try:
            super().start(**kwargs)
        except BaseException:
            if (runner := self._loop_runner).is_started():
                with contextlib.suppress(TimeoutError):
                    self.close(timeout=1)
                runner.stop()  # Dask leaves the thread of a client whose connection was refused
            raise

    def __del__(self) -> None:
        """Leave an open client alone: its thread is a daemon."""
