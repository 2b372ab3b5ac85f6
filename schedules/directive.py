"""What a directive is: a frozen value that rewrites a nest or refuses to.

A directive names loops and stages by their full names, so that it means the same wherever it is replayed. `apply` returns the new
nest, or raises `Refusal`; the schedule turns a refusal into a `ScheduleError` with the nest of that moment. Refusal codes are the
rows of `CODES`.
"""

from __future__ import annotations

from typing import Any, Final, Protocol

from tensorlang.ir import Nest

CODES: Final = {
    "TL-S001": "no loop of that name",
    "TL-S002": "the loop name is ambiguous",
    "TL-S003": "no stage or tensor of that name",
    "TL-S004": "the loop was there before, and an earlier step replaced it",
    "TL-S005": "an argument of the directive makes no sense",
    "TL-S006": "a name that is already taken",
    "TL-S007": "a step that cannot be read or replayed",
    "TL-S101": "iterations of a parallel loop would race",
    "TL-S102": "lanes of a vector loop would race",
    "TL-S103": "the new order would violate a dependence",
    "TL-S104": "the bounds of a loop depend on another loop",
    "TL-S105": "the loops are not perfectly nested",
    "TL-S106": "the step would compute something twice that may be computed only once",
    "TL-S107": "the loop is already vector, unrolled or parallel",
    "TL-S108": "storage of one iteration carries values between statements",
    "TL-S201": "too many lanes",
    "TL-S202": "too much code",
    "TL-S203": "too much memory",
    "TL-S204": "an extent must be a literal",
    "TL-S301": "the stage cannot be moved there",
    "TL-S302": "the tensor is not used there",
    "TL-S303": "the region used there has no simple shape",
    "TL-S304": "the step needs a reduction",
    "TL-S305": "two elements would share one place",
    "TL-S306": "the loops are not what the instruction computes",
}


class Refusal(Exception):  # noqa: N818 - not an error of the program: an answer
    """Why a directive does not apply: a code of `CODES`, one sentence, and what it names."""

    def __init__(
        self,
        code: str,
        reason: str,
        *,
        stage: str = "",
        loop: str = "",
        counterexample: dict[str, Any] | None = None,
        alternatives: tuple[Directive, ...] = (),
    ) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason
        self.stage = stage
        self.loop = loop
        self.counterexample = counterexample
        self.alternatives = alternatives


class Directive(Protocol):
    """One step of a schedule."""

    def apply(self, nest: Nest, /) -> Nest:
        """The nest after this step. Raises `Refusal`."""
        ...


def require_int(value: object, what: str, least: int, most: int, loop: str = "") -> int:
    """`value` if it is an int in `least..most`. Raises `Refusal`."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise Refusal("TL-S005", f"{what} must be an int, not {value!r:.40}", loop=loop)
    if not least <= value <= most:
        raise Refusal("TL-S005", f"{what} must be in {least}..{most}, not {value}", loop=loop)
    return value
