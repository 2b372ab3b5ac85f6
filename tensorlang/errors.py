"""Everything that can go wrong, as types.

Every error a user can cause is a `TensorlangError`: it names the subject, says what was expected and what was found, and what to do.
A failure of our own (a broken invariant) is an `InternalError`, which is deliberately not a `TensorlangError`: no handler for bad
input should hide a fault of the compiler.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from functools import partial
from typing import Any


class TensorlangError(Exception):
    """Base of every error that a user's input can cause."""


class DefinitionError(TensorlangError):
    """An operator definition has no meaning: an index out of range, a foreign axis, kinds that do not mix."""


class BuildError(TensorlangError):
    """A schedule cannot become machine code: an unknown target, an exceeded budget, an artefact that does not load."""


class CallError(TensorlangError):
    """A kernel was called with an argument that it cannot take. No output was touched."""


class TuningError(TensorlangError):
    """A tuning job cannot go on or found no valid schedule."""


class LogError(TensorlangError):
    """A tuning log cannot be read or written."""


class GraphError(TensorlangError):
    """A graph, a pattern or a model has no meaning here: an unknown operator, types that do not fit, a cycle. Nothing was changed."""


class InternalError(Exception):
    """An invariant of the compiler is broken; please report it with the definition and the schedule."""


LONGEST_LINE = 160
"""Characters of a line of a loop nest that a message shows: statements into which others were written are pages long."""


class ScheduleError(TensorlangError):
    """A directive was refused; the schedule is as it was before.

    Attributes: `code` (stable, e.g. "TL-S101"), `directive` (the refused step), `stage` and `loop` (what it names), `reason` (one
    sentence), `nest` (the loop nest at that moment, the loop marked), `counterexample` (two iterations and the element on which they
    conflict, where a dependence is violated) and `alternatives` (directives that would be accepted instead).
    """

    def __init__(
        self,
        code: str,
        reason: str,
        *,
        directive: Any = None,
        stage: str = "",
        loop: str = "",
        nest: str = "",
        counterexample: dict[str, Any] | None = None,
        alternatives: Iterable[Any] = (),
    ) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason
        self.directive = directive
        self.stage = stage
        self.loop = loop
        self.nest = nest
        self.counterexample = counterexample
        self.alternatives = tuple(alternatives)

    def __reduce__(self) -> tuple[Any, ...]:
        """How it is pickled: a pool of processes waits for ever for an error that it cannot read back."""
        return partial(type(self), self.code, self.reason), (), self.__dict__

    def __str__(self) -> str:
        lines = [f"{self.code}: {self.reason}"]
        if self.directive is not None:
            lines.append(f"  directive: {self.directive!r}")
        if self.counterexample:
            lines.append("  counterexample: " + ", ".join(f"{key} = {value}" for key, value in self.counterexample.items()))
        if self.alternatives:
            lines.append("  legal instead: " + "; ".join(repr(step) for step in self.alternatives[:5]))
        if self.nest:
            lines.append("  the loop nest:\n" + "\n".join("    " + _shortened(line) for line in self.nest.splitlines()))
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """The same facts as plain JSON values."""
        return {
            "code": self.code,
            "reason": self.reason,
            "directive": None if self.directive is None else repr(self.directive),
            "stage": self.stage,
            "loop": self.loop,
            "nest": self.nest,
            "counterexample": self.counterexample,
            "alternatives": [repr(step) for step in self.alternatives],
        }


def _shortened(line: str) -> str:
    """A line of a nest without its middle where that is long: what is assigned stays, and the stage or mark at its end."""
    end = line[line.rfind(" #") :] if " #" in line else ""
    return line if len(line) <= LONGEST_LINE else f"{line[: LONGEST_LINE - len(end) - 4]} ...{end}"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A hint that ends a message: the nearest known names, or all of them if they are few."""
    names = list(dict.fromkeys(known))
    close = difflib.get_close_matches(name, names, n=2, cutoff=0.6)
    if close:
        return "; did you mean " + " or ".join(repr(match) for match in close) + "?"
    if names and len(names) <= 12:
        return "; known: " + ", ".join(repr(match) for match in names)
    return ""
