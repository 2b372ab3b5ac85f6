"""Running passes: each verified, timed, written down where that is asked for, and counted, so that a wrong one can be searched for.

    apply(graph, *passes)        what they make of a graph
    trace(graph, *passes)        the same with a record of each application: a table of times and of nodes before and after
    Pipeline(passes)             several passes as one, which is a pass again

    TL_PASS_DUMP=folder          the graph as text before the first application, and after each
    TL_PASS_BISECT=7             the first 7 applications of this process only, and a line in the log that says which one is the 7th

With the second a wrong result is found in a few runs: where 7 applications are right and 8 are wrong, the 8th is the one. Applications are
counted from where the variable got its value.
"""

from __future__ import annotations

import logging
import os
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

import tensorlang as tl
from tensorlang.graph.arguments import called, of_graph
from tensorlang.graph.ir import Graph
from tensorlang.system import forks

Pass: TypeAlias = Callable[[Graph], Graph]

BISECT: Final = "TL_PASS_BISECT"
DUMP: Final = "TL_PASS_DUMP"

_log: Final = logging.getLogger("tensorlang")


@dataclass(frozen=True)
class Pipeline:
    """Passes one after the other, as a pass. One inside of another is taken apart: each of its passes is an application of its own."""

    passes: tuple[Pass, ...]
    name: str = "pipeline"

    def __call__(self, graph: Graph) -> Graph:
        """What they make of a graph. Raises `GraphError` as `apply` does."""
        return apply(graph, self)

    def __iter__(self) -> Iterator[Pass]:
        return iter(self.passes)


@dataclass(frozen=True, slots=True)
class Application:
    """One pass that ran: its number, from 1, its name, seconds with the verifier's, and the nodes before and after."""

    number: int
    name: str
    seconds: float
    before: int
    after: int
    changed: bool


@dataclass(frozen=True, slots=True)
class Trace:
    """What passes made of a graph, and each application; prints as a table."""

    graph: Graph
    applications: tuple[Application, ...]

    def __str__(self) -> str:
        width = max((len(one.name) for one in self.applications), default=0)
        lines = [f"{'':4}{'pass':{width}}  {'ms':>8}  nodes"]
        for one in self.applications:
            nodes = f"{one.before} -> {one.after}" if one.changed else f"{one.before}, unchanged"
            lines.append(f"{one.number:>3} {one.name:{width}}  {one.seconds * 1e3:8.2f}  {nodes}")
        return "\n".join(lines)


@of_graph
def apply(graph: Graph, *passes: Pass, dump: str | os.PathLike[str] | None = None) -> Graph:
    """What passes make of a graph, one after the other, each verified.

    Raises `GraphError`, with the name of the pass, where one fails, gives no graph, one that is not well formed, or one of other inputs
    or outputs. The graph that was given is as it was.
    """
    return trace(graph, *passes, dump=dump).graph


@of_graph
def trace(graph: Graph, *passes: Pass, dump: str | os.PathLike[str] | None = None) -> Trace:
    """What passes make of a graph, and what each took. With `dump` texts go to that folder: `000-given.txt`, `001-dead_code.txt`, ...

    Raises as `apply` does, and `GraphError` for a folder that cannot be written and for a `TL_PASS_BISECT` that is no number.
    """
    folder = _folder(dump if dump is not None else os.environ.get(DUMP))
    _write(folder, 0, "given", graph)
    made: list[Application] = []
    for run in _taken_apart(passes):
        name = name_of(run)
        if not _budget.allows(name, graph):
            break
        start = time.perf_counter()
        after = _applied(graph, run)
        seconds = time.perf_counter() - start
        changed = after is not graph and _parts(after) != _parts(graph)
        made.append(Application(len(made) + 1, name, seconds, len(graph.nodes), len(after.nodes), changed))
        graph = after
        _write(folder, len(made), name, graph)
    return Trace(graph, tuple(made))


def _parts(graph: Graph) -> object:
    """What tells two graphs apart that passes made, without looking at weights."""
    return graph.nodes, graph.outputs, [constant.value for constant in graph.constants]


def name_of(run: Pass) -> str:
    """What a pass is called."""
    return str(getattr(run, "name", None) or getattr(run, "__name__", repr(run)))


def _taken_apart(passes: tuple[Pass, ...]) -> Iterator[Pass]:
    for run in passes:
        if isinstance(run, Pipeline):
            yield from _taken_apart(run.passes)
        else:
            if not callable(run):
                raise tl.GraphError(f"a pass is a function from graph to graph, not {run!r:.60}")
            yield run


def _applied(graph: Graph, run: Pass) -> Graph:
    try:
        return _checked(graph, called("it", run, graph))
    except tl.GraphError as error:
        raise tl.GraphError(f"the pass {name_of(run)}: {error}") from error.__cause__


def _checked(graph: Graph, made: object) -> Graph:
    """What a pass made of a graph, if it may stand for it."""
    if not isinstance(made, Graph):
        raise tl.GraphError(f"it gives {made!r:.60}, and not a graph")
    if made is graph:
        return graph
    made.verify()
    for what in ("inputs", "outputs"):
        before, after = ([value.type for value in getattr(one, what)] for one in (graph, made))
        if before != after:
            raise tl.GraphError(f"its {what} are {', '.join(map(str, after))}, and were {', '.join(map(str, before))}")
    return made


class _Budget:
    """How many applications are left to this process, where `TL_PASS_BISECT` says so."""

    def __init__(self) -> None:
        self._lock = forks.short_lock()
        self._set: str | None = None
        self._done = 0

    def allows(self, name: str, graph: Graph) -> bool:
        """May one more pass be applied? Raises `GraphError` where the variable holds no number."""
        value = os.environ.get(BISECT)
        with self._lock:
            if value != self._set:
                self._set, self._done = value, 0
            if not value:
                return True
            if not value.isdecimal():
                raise tl.GraphError(f"{BISECT} is the number of applications of passes that are run, as {BISECT}=7, not {value!r:.40}")
            if self._done >= int(value):
                return False
            self._done += 1
            last = self._done == int(value)
        if last:
            _log.warning("%s=%s: application %s, the last one, is %s on graph %s", BISECT, value, int(value), name, graph.name)
        return True


_budget: Final = _Budget()


def _folder(given: str | os.PathLike[str] | None) -> Path | None:
    if given is None or (isinstance(given, str) and not given):
        return None
    try:
        found = Path(given)
        found.mkdir(parents=True, exist_ok=True)
    except (OSError, TypeError) as error:
        raise tl.GraphError(f"passes cannot be dumped to {given!r:.80}: {error}") from None
    return found


def _write(folder: Path | None, number: int, name: str, graph: Graph) -> None:
    if folder is None:
        return
    try:
        (folder / f"{number:03}-{re.sub(r'[^A-Za-z0-9_]', '_', name)[:80]}.txt").write_text(f"{graph.to_let()}\n")
    except OSError as error:
        raise tl.GraphError(f"passes cannot be dumped to {str(folder)!r:.80}: {error}") from None
