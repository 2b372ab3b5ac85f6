"""`Schedule`: when and where a definition is computed, as a tuple of directives over its loop nest.

Every method resolves names, applies one directive and either appends it or raises `ScheduleError` and changes nothing. The directives
are the whole state: `repr` is the Python that rebuilds the schedule, `to_json` replays it anywhere, `str` is the nest it has made.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from tensorlang.definition.tensor import Tensor, as_outputs
from tensorlang.errors import ScheduleError, did_you_mean
from tensorlang.ir import Nest, Tail
from tensorlang.ir.printer import print_nest, short
from tensorlang.lowering.program import LoweredProgram, lower_program
from tensorlang.schedules import trace
from tensorlang.schedules.advice import elsewhere, root_first
from tensorlang.schedules.catalogue import DIRECTIVES, NAMES
from tensorlang.schedules.diff import Difference, difference
from tensorlang.schedules.directive import Directive, Refusal
from tensorlang.schedules.directives.fuse import Fuse
from tensorlang.schedules.directives.split import Split
from tensorlang.schedules.faults import Fault
from tensorlang.schedules.legality.steps import applied
from tensorlang.schedules.methods import Methods
from tensorlang.schedules.model.estimate import Estimate, estimate
from tensorlang.schedules.moves import moves_of_loop, moves_of_stage
from tensorlang.schedules.names import History, LoopHandle, require_extents
from tensorlang.schedules.rewriting.edit import axis_names, loops, stage_of, stages
from tensorlang.serialization.canonical import fingerprint


@dataclass(frozen=True, slots=True)
class Verdict:
    """Would a directive be accepted? Truthy, or carrying the error that it would raise."""

    explain: Callable[[], ScheduleError] | None = None

    @property
    def error(self) -> ScheduleError | None:
        """The error that the directive would raise, made when it is asked for; None if it would be accepted."""
        return None if self.explain is None else self.explain()

    def __bool__(self) -> bool:
        return self.explain is None


class Schedule(Methods):
    """The schedule of one program. `Schedule(C, D)` and `Schedule((C, D))` are the same; a `LoweredProgram` is not lowered again.

    `faults` are the steps that a strategy tried and that were refused; users' own steps raise instead.
    Raises `DefinitionError` where the outputs are no program.
    """

    def __init__(self, outputs: object, *more: object, name: str | None = None, inputs: Sequence[Tensor] | None = None) -> None:
        self.program = outputs if isinstance(outputs, LoweredProgram) else lower_program(as_outputs(outputs, *more), name, inputs)
        self._nests = [self.program.nest]
        self._directives: list[Directive] = []
        self.faults: tuple[Fault, ...] = ()

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        """The tensors that are computed."""
        return self.program.outputs

    @property
    def inputs(self) -> tuple[Tensor, ...] | None:
        """The order of arguments, where it was given."""
        return self.program.inputs

    @property
    def nest(self) -> Nest:
        """The loop nest after all directives."""
        return self._nests[-1]

    @property
    def directives(self) -> tuple[Directive, ...]:
        """The steps so far, as frozen values."""
        return tuple(self._directives)

    @property
    def nests(self) -> tuple[Nest, ...]:
        """The loop nest before the first step, and after each."""
        return tuple(self._nests)

    def estimate(self, /, target: Any = None, **dims: int) -> Estimate:
        """What a call would cost on one core of `target`; nothing is compiled. See `docs/model.md`.

        `target` is what `tl.machine` takes: what `tl.build` does, or the path of a description that `autotune calibrate` wrote. `dims` are
        extents that a call tells; those that are not given are guessed. Raises `BuildError` for an unknown target and for a file that
        holds no description, `ScheduleError` for an unknown dim or one that is no extent.
        """
        import tensorlang as tl  # noqa: PLC0415 - what a machine is, a layer above tells

        try:
            require_extents(self.nest, dims)
        except Refusal as refusal:
            raise self._error(refusal, None) from None
        return estimate(self.nest, tl.machine(target), dims)

    def visualize(
        self, /, path: str | PathLike[str], target: Any = None, *, sizes: Mapping[str, int] | None = None, measure: bool = True, **dims: int
    ) -> Path:
        """Write one self-contained page that shows this schedule to `path`, and return that path. See `docs/pictures.md`.

        It has the nest, what each directive did, an animation of what is computed, read and kept when, the working set of each loop against
        the caches, the hot loop's machine code beside the nest, and predicted against measured time. `target` and `dims` are those of
        `estimate`, `sizes` the extents of the animation; `measure=False` builds and runs nothing. Raises `BuildError` for an unknown target
        and for a path that cannot be written, `ScheduleError` for an unknown dim or one that is no extent.
        """
        import tensorlang as tl  # noqa: PLC0415 - a layer above builds the kernel, and makes the page

        return tl.visualize(self, path, target, sizes=sizes, measure=measure, **dims)

    def __str__(self) -> str:
        return print_nest(self.nest)

    def __repr__(self) -> str:
        outputs = ", ".join(buffer.name for buffer in self._nests[0].outputs)
        steps = (trace.call(step) for step in self._directives)
        return "\n".join([f"s = tl.Schedule({outputs})", *steps, *(f"# {fault}" for fault in self.faults)])

    def _repr_html_(self) -> str:
        from tensorlang.system import markup  # noqa: PLC0415 - for notebooks alone

        count = len(self._directives)
        steps = markup.folded(f"{count} step{'s' * (count != 1)}", markup.code(repr(self)), unfolded=True)
        return markup.display(steps, markup.nest(str(self)))

    # Names ------------------------------------------------------------------------------------------------------------------

    def loops(self, stage: str) -> tuple[LoopHandle, ...]:
        """Handles of the loops of a stage, outermost first. Raises `ScheduleError` for an unknown stage."""
        try:
            stage = self._names.text(stage, "a stage")
        except Refusal as refusal:
            raise self._error(refusal, None) from None
        found = tuple(LoopHandle(part.loop) for part in loops(self.nest.body) if stage_of(part.loop) == stage)
        if not found and stage not in stages(self.nest):
            raise self._error(Refusal("TL-S003", f"there is no stage {stage!r}{did_you_mean(stage, stages(self.nest))}", stage=stage), None)
        return found

    def stages(self) -> tuple[str, ...]:
        """The names of the stages, in program order."""
        return stages(self.nest)

    # Steps ------------------------------------------------------------------------------------------------------------------

    def apply(self, directive: Directive) -> tuple[LoopHandle, ...] | None:
        """Apply one directive; the handles of the loops that it makes. Raises `ScheduleError`."""
        try:
            nest = self._tried(directive)
        except Refusal as refusal:
            raise self._error(refusal, directive) from None
        self._nests.append(nest)
        self._directives.append(directive)
        return tuple(LoopHandle(loop) for loop in directive.made()) if isinstance(directive, (Split, Fuse)) else None

    def _tried(self, directive: Directive) -> Nest:
        if type(directive) not in NAMES:
            raise Refusal("TL-S007", f"{directive!r:.60} is not a directive")
        trace.require_fields(directive)
        if self.program.pinned and (stage := getattr(directive, "stage", "")) in self.program.pinned:
            raise Refusal("TL-S301", f"{stage!r} stays where it is: it was placed before", stage=stage)
        return applied(directive, self.nest)

    def _error(self, refusal: Refusal, directive: Directive | None) -> ScheduleError:
        marks = {refusal.loop: "<-- here"} if refusal.loop in axis_names(self.nest) else {}
        others = () if directive is None else elsewhere(self.nest, directive, refusal)
        alternatives = [*refusal.alternatives, *(step for step in others if self.can(step))]
        root = root_first(self.nest, directive, refusal)
        alternatives += [] if root is None else [root]
        return ScheduleError(
            refusal.code,
            refusal.reason
            if root is None
            else f"{refusal.reason}; {root.stage!r} stands in the loops of another stage: compute_root first",
            directive=directive,
            stage=refusal.stage or (stage_of(refusal.loop) if "." in refusal.loop else ""),
            loop=short(refusal.loop),
            nest=print_nest(self.nest, marks),
            counterexample=refusal.counterexample,
            alternatives=alternatives,
        )

    def _step(self, method: str, /, *args: object, **options: object) -> tuple[LoopHandle, ...]:
        try:
            directive = DIRECTIVES[method].of(self._names, *args, **options)
        except Refusal as refusal:
            raise self._error(refusal, None) from None
        return self.apply(directive) or ()

    @property
    def _names(self) -> History:
        return History(self._nests, self._directives)

    def tile(
        self, i: str, j: str, fi: int, fj: int, tail: Tail = "guard", names: tuple[str, str, str, str] | None = None
    ) -> tuple[LoopHandle, LoopHandle, LoopHandle, LoopHandle]:
        """Split two nested loops and put both outer parts outside: `io, jo, ii, ji`. All or nothing."""
        if names is not None and not (isinstance(names, (tuple, list)) and len(names) == 4):
            raise self._error(Refusal("TL-S005", f"names= of a tile are four, as the loops that it makes, not {names!r:.40}"), None)
        try:
            with self.together():
                io, ii = self.split(i, fi, tail, None if names is None else (names[0], names[2]))
                jo, ji = self.split(j, fj, tail, None if names is None else (names[1], names[3]))
                self.reorder(io, jo, ii, ji)
        except ScheduleError as error:
            error.alternatives = tuple(step for step in error.alternatives if self.can(step))  # they were legal halfway
            raise
        return io, jo, ii, ji

    def _asked(self, kind: str, *args: Any, **options: Any) -> Directive:
        """The frozen value of a method call by name. Raises `Refusal`, also for arguments that the method does not take."""
        if kind not in DIRECTIVES:
            raise Refusal("TL-S007", f"{kind!r:.60} is no directive{did_you_mean(kind, DIRECTIVES)}")
        self._require_call(kind, *args, **options)
        return DIRECTIVES[kind].of(self._names, *args, **options)

    def _require_call(self, kind: str, *args: Any, **options: Any) -> None:
        signature = inspect.signature(getattr(self, kind))
        try:
            signature.bind(*args, **options)
        except TypeError as error:
            spelled = str(signature).partition(" -> ")[0].replace("'", "")
            raise Refusal("TL-S005", f"{kind} is called as {kind}{spelled}: {error}") from None

    def undo(self, steps: int = 1) -> None:
        """Take back the last `steps` directives. Raises `ScheduleError` where there are not so many."""
        if not isinstance(steps, int) or isinstance(steps, bool) or not 0 <= steps <= len(self._directives):
            reason = f"there are {len(self._directives)} directives to take back, not {steps!r:.40}"
            raise self._error(Refusal("TL-S007", reason), None)
        kept = len(self._directives) - steps
        del self._directives[kept:], self._nests[kept + 1 :]

    @contextmanager
    def together(self) -> Iterator[None]:
        """All directives of a `with`, or none: an error inside takes back those before it and goes on.

        with s.together():
            outer, inner = s.split("j", 16)
            s.reorder(outer, "k", inner)
        """
        before = len(self._directives)
        try:
            yield
        except BaseException:
            self.undo(len(self._directives) - before)
            raise

    # Questions --------------------------------------------------------------------------------------------------------------

    def can(self, directive: Directive | str, *args: Any, **options: Any) -> Verdict:
        """Would a directive, or a method call by name, be accepted? Changes nothing."""
        if isinstance(directive, str) and directive == "tile":
            return self._can_tile(*args, **options)
        made = None
        try:
            made = self._asked(directive, *args, **options) if isinstance(directive, str) else directive
            self._tried(made)
        except Refusal as refusal:
            asked, why, step = self.copy(), refusal, made
            return Verdict(lambda: asked._error(why, step))  # noqa: SLF001 - the schedule of this moment
        return Verdict()

    def _can_tile(self, *args: Any, **options: Any) -> Verdict:
        """As `can`: each of its three directives is asked where those before have been accepted."""
        asked = self.copy()
        try:
            self._require_call("tile", *args, **options)
            asked.tile(*args, **options)
        except Refusal as refusal:
            error = self._error(refusal, None)
        except ScheduleError as refused:
            error = refused
        else:
            return Verdict()
        return Verdict(lambda: error)

    def attempt(self, directive: Directive) -> bool:
        """Apply a directive if it is accepted; was it? As `can` and then `apply`, at the price of one of them."""
        try:
            nest = self._tried(directive)
        except Refusal:
            return False
        self._nests.append(nest)
        self._directives.append(directive)
        return True

    def legal_moves(self, loop: str) -> tuple[Directive, ...]:
        """Directives on a loop, or on a stage, that would be accepted now. Raises `ScheduleError` where there is neither of that name."""
        if isinstance(loop, str) and loop in stages(self.nest):
            found = moves_of_stage(self.nest, loop)
        else:
            try:
                found = moves_of_loop(self.nest, self._names.loop(loop))
            except Refusal as refusal:
                raise self._error(refusal, None) from None
        return tuple(step for step in found if self.can(step))

    # Data -------------------------------------------------------------------------------------------------------------------

    def to_json(self) -> str:
        """The schedule as JSON text; `from_json` replays it."""
        return trace.to_json(self.directives, fingerprint(self.outputs))

    @classmethod
    def from_json(cls, outputs: object, text: str) -> Schedule:
        """The schedule of `outputs` that a JSON text describes.

        Raises `ScheduleError` for text that is no schedule, an unknown or stale step, or a schedule of another definition.
        """
        schedule = cls(outputs)
        try:
            steps, made_for = trace.from_json(text)
        except Refusal as refusal:
            raise schedule._error(refusal, None) from None
        if made_for and made_for != fingerprint(schedule.outputs):
            reason = "the schedule was made for another definition (its fingerprint differs)"
            raise schedule._error(Refusal("TL-S007", reason), None)
        for step in steps:
            schedule.apply(step)
        return schedule

    def diff(self, other: Schedule) -> Difference:
        """What `other` does differently: steps removed and added, and the nests compared line by line. Raises `ScheduleError`."""
        if not isinstance(other, Schedule):
            raise self._error(Refusal("TL-S005", f"a schedule is compared with a schedule, not {other!r:.40}"), None)
        return difference(self.directives, other.directives, str(self), str(other))

    def copy(self) -> Schedule:
        """An independent schedule with the same steps."""
        other = object.__new__(type(self))
        other.program = self.program
        other._nests, other._directives, other.faults = list(self._nests), list(self._directives), self.faults
        return other
