"""The connection to a Dask scheduler: nothing else talks to `distributed`.

Answers and signs of life arrive on threads of Dask's and are put in one queue, so that the evaluator itself has a single thread. A
scheduler that is gone, or does not answer, is a `TuningError`; whatever befalls a single task is a piece of `News`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import queue
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from tensorlang.errors import TuningError

if TYPE_CHECKING:
    from distributed import Client, Future

RESOURCE: Final = "measure"

Listing: TypeAlias = dict[str, Any]
"""What Dask's scheduler knows of a worker."""


@dataclass(frozen=True, slots=True)
class News:
    """What happened to the call `token`: "begun", "told" (`value` is its result), "failed" (`value` says why) or "lost"."""

    token: str
    event: str
    value: Any = None


class Link:
    """A client of the scheduler at `address`, which has to answer within `patience` seconds, now and later.

    Raises `TuningError` where Dask is not installed or nobody answers.
    """

    def __init__(self, address: str, patience: float) -> None:
        self.address = address
        self.topic = f"tensorlang-{uuid.uuid4().hex}"
        self._patience = patience
        self._news: queue.SimpleQueue[News] = queue.SimpleQueue()
        self._futures: dict[str, Future[Any]] = {}
        self._asking: list[threading.Thread] = []
        self._quiet = _QuietLogging()
        try:
            self._client = _connected(address, min(patience, 5.0), self._quiet)
        except BaseException:
            self._quiet.end()
            raise
        self._client.subscribe_topic(self.topic, self._heard)

    def workers(self) -> dict[str, Listing]:
        """What the scheduler knows of each worker, by address. Raises `TuningError` if the scheduler is lost."""
        try:
            if self._client.status == "running":
                workers = self._client.sync(self._client.scheduler.identity, callback_timeout=self._patience)["workers"]
                return {address: dict(worker) for address, worker in workers.items()}
        except (OSError, TimeoutError, RuntimeError, AttributeError):  # AttributeError: it was lost meanwhile
            pass
        raise TuningError(
            f"the Dask scheduler at {self.address} is lost; every finished trial is in the log: "
            "start the scheduler and its workers again and repeat the command, which goes on from there"
        )

    def start(self, token: str, worker: str, function: Callable[..., Any], *arguments: str | bytes | list[bytes], measuring: bool) -> None:
        """Let a thread of `worker` call `function`, which is given the topic and the token first; `measuring` takes its resource."""
        try:
            future = self._client.submit(
                function, self.topic, token, *arguments, key=f"tensorlang-{token}", pure=False, retries=0,
                workers=[worker], allow_other_workers=False, resources={RESOURCE: 1} if measuring else None, priority=int(measuring),
            )  # fmt: skip
        except Exception:  # noqa: BLE001 - Dask raises many types when its scheduler is gone; `workers` tells
            self._news.put(News(token, "lost"))
            return
        self._futures[token] = future
        future.add_done_callback(lambda _: self._news.put(News(token, "done")))

    def ask(self, token: str, worker: str, function: Callable[..., Any], *arguments: str | bytes | list[bytes]) -> None:
        """Call a quick function in `worker` at once, even if all its threads are busy."""
        asking = threading.Thread(target=self._asked, args=(token, worker, function, arguments), daemon=True)
        self._asking = [*(thread for thread in self._asking if thread.is_alive()), asking]
        asking.start()

    def news(self, wait: float) -> list[News]:
        """What has happened; waits for at most `wait` seconds if that is nothing."""
        with contextlib.suppress(queue.Empty):
            found = [self._news.get(timeout=max(wait, 0.0))]
            while not self._news.empty():
                found.append(self._news.get())
            return [self._collected(news) if news.event == "done" else news for news in found]
        return []

    def drop(self, token: str) -> None:
        """Forget a call; a thread that is in it finishes by itself."""
        if (future := self._futures.pop(token, None)) is not None:
            with contextlib.suppress(Exception):  # the scheduler may be gone
                future.cancel()

    def close(self) -> None:
        """Hang up, once what was asked has arrived, or soon."""
        for token in list(self._futures):
            self.drop(token)
        end = time.monotonic() + 2
        for asking in self._asking:
            asking.join(max(end - time.monotonic(), 0))
        lost = self._client.status != "running"
        with contextlib.suppress(Exception):  # the scheduler may be gone
            self._client.close(timeout=2)
        self._quiet.end(lost=lost)

    def _heard(self, event: tuple[float, Any]) -> None:
        self._news.put(News(str(event[1]), "begun"))

    def _asked(self, token: str, worker: str, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        try:
            value = self._client.run(function, *arguments, workers=[worker], on_error="return")[worker]
        except Exception:  # noqa: BLE001 - the worker or the scheduler is gone; `workers` tells
            self._news.put(News(token, "lost"))
            return
        broken = isinstance(value, BaseException)
        self._news.put(News(token, "failed" if broken else "told", f"{type(value).__name__}: {value}" if broken else value))

    def _collected(self, news: News) -> News:
        """The result of a call that Dask calls done, fetched now."""
        future = self._futures.pop(news.token, None)
        if future is None:
            return News(news.token, "lost")
        try:
            return News(news.token, "told", future.result(timeout=self._patience))
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - raised by Dask, or by what it ran
            ours = future.status == "error" and not type(error).__module__.startswith(("distributed", "tornado", "asyncio"))
            return News(news.token, "failed", f"{type(error).__name__}: {error}") if ours else News(news.token, "lost")
        finally:
            with contextlib.suppress(Exception):  # as in `drop`; the result is had, or why there is none
                future.release()


def _connected(address: str, patience: float, quiet: _QuietLogging) -> Client:
    try:
        from tensorlang.autotune.cluster.client import Owned  # noqa: PLC0415 - an extra, and slow
    except ImportError:
        raise TuningError("tuning on a cluster needs Dask, an extra: pip install 'tensorlang[cluster]'") from None
    quiet.begin()
    start = time.monotonic()
    try:
        try:
            client = Owned(address, timeout=patience, set_as_default=False, name="tensorlang")
        except AssertionError:  # its thread did not start within Dask's ten seconds: this machine is very busy
            client = Owned(address, timeout=patience, set_as_default=False, name="tensorlang")
    except (OSError, TimeoutError, ValueError, ImportError, RuntimeError) as error:
        why = "" if isinstance(error, OSError) else f" ({error})"
        waited = f"within {time.monotonic() - start:.0f} s"
        raise TuningError(
            f"no Dask scheduler answers at {address} {waited}{why}; start one with `dask scheduler`, then workers: {how_to_start(address)}"
        ) from None
    return client


def how_to_start(address: str) -> str:
    """The command that starts a worker which measures."""
    return f'dask worker {address} --nworkers 1 --nthreads 4 --resources "{RESOURCE}=1"'


class _Nothing(logging.Filter):
    """Lets no message through."""

    def filter(self, record: logging.LogRecord) -> bool:  # noqa: ARG002 - whatever it is
        """Never."""
        return False


class _QuietLogging:
    """Dask's own messages are held back: what they say of a lost worker or scheduler is told in the tuner's words.

    Dask gives its loggers levels of their own when it is imported, so it is their handlers that are told, once it is. A client that lost
    its scheduler says so again, from its own thread, when it is closed.
    """

    _LATER_S: Final = 5.0
    _ALONE: Final = ("asyncio", "tornado.application")
    """Loggers that tell what befell the event loop of a client."""

    def __init__(self) -> None:
        self._held = _Nothing()
        self._told: list[logging.Filterer] = []

    def begin(self) -> None:
        """From now on. Dask has been imported."""
        loggers = [logger for name, logger in logging.root.manager.loggerDict.items() if name.partition(".")[0] == "distributed"]
        self._told = [handler for logger in loggers if isinstance(logger, logging.Logger) for handler in logger.handlers]
        self._told += map(logging.getLogger, self._ALONE)
        for told in self._told:
            told.addFilter(self._held)

    def end(self, *, lost: bool = False) -> None:
        """As it was; where the scheduler was lost, in a few seconds."""
        if lost:
            later = threading.Timer(self._LATER_S, self.end)
            later.daemon = True
            later.start()
            return
        for told in self._told:
            told.removeFilter(self._held)
        self._told = []
