"""`Schedule`: when and where a definition is computed, as a tuple of directives over its loop nest.

Every method resolves names, applies one directive and either appends it or raises `ScheduleError` and changes nothing. The directives
are the whole state: `repr` is the Python that rebuilds the schedule, `to_json` replays it anywhere, `str` is the nest it has made.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tensorlang.canonical import fingerprint
from tensorlang.errors import ScheduleError, did_you_mean
from tensorlang.ir import For, Nest, Tail
from tensorlang.printer import print_nest, short
from tensorlang.program import lower_definition
from tensorlang.schedules import placement, structural, trace
from tensorlang.schedules.accumulate import Accumulate
from tensorlang.schedules.budget import within_budget
from tensorlang.schedules.cache_read import CacheRead
from tensorlang.schedules.compute_at import ComputeAt
from tensorlang.schedules.diff import Difference, difference
from tensorlang.schedules.directive import Refusal
from tensorlang.schedules.edit import AUXILIARY, axis_names, loops, path_to, stage_of, stages
from tensorlang.schedules.fuse import Fuse
from tensorlang.schedules.inline import ComputeInline
from tensorlang.schedules.kinds import Parallel, Unroll, Vectorize
from tensorlang.schedules.moves import moves_of_loop, moves_of_stage
from tensorlang.schedules.pack import Pack
from tensorlang.schedules.placement import PLACEMENT, Placement
from tensorlang.schedules.reorder import Reorder
from tensorlang.schedules.rooted import root_first
from tensorlang.schedules.split import Split
from tensorlang.schedules.structural import STRUCTURAL, Structural
from tensorlang.schedules.trace import AnyDirective
from tensorlang.tensor import Tensor, as_inputs, as_outputs


class Loop(str):
    """A handle of a loop: its full name."""

    __slots__ = ()


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


class Schedule(Placement, Structural):
    """The schedule of one program. `Schedule(C, D)` and `Schedule((C, D))` are the same.

    Raises `DefinitionError` where the outputs are no program.
    """

    def __init__(self, outputs: object, *more: object, name: str | None = None, inputs: Sequence[Tensor] | None = None) -> None:
        self.outputs = as_outputs(outputs, *more)
        self.inputs = as_inputs(inputs)
        self._nests = [lower_definition(self.outputs, name, inputs)]
        self._directives: list[AnyDirective] = []

    @property
    def nest(self) -> Nest:
        """The loop nest after all directives."""
        return self._nests[-1]

    @property
    def directives(self) -> tuple[AnyDirective, ...]:
        """The steps so far, as frozen values."""
        return tuple(self._directives)

    def __str__(self) -> str:
        return print_nest(self.nest)

    def __repr__(self) -> str:
        outputs = ", ".join(buffer.name for buffer in self._nests[0].outputs)
        return "\n".join([f"s = tl.Schedule({outputs})", *(trace.call(step) for step in self._directives)])

    # Names ------------------------------------------------------------------------------------------------------------------

    def loops(self, stage: str) -> tuple[Loop, ...]:
        """Handles of the loops of a stage, outermost first. Raises `ScheduleError` for an unknown stage."""
        try:
            stage = _text(stage, "a stage")
        except Refusal as refusal:
            raise self._error(refusal, None) from None
        found = tuple(Loop(part.loop) for part in loops(self.nest.body) if stage_of(part.loop) == stage)
        if not found and stage not in stages(self.nest):
            raise self._error(Refusal("TL-S003", f"there is no stage {stage!r}{did_you_mean(stage, stages(self.nest))}", stage=stage), None)
        return found

    def stages(self) -> tuple[str, ...]:
        """The names of the stages, in program order."""
        return stages(self.nest)

    def _loop(self, name: object) -> str:
        """The full name of a loop. Raises `Refusal`."""
        if not isinstance(name, str):
            raise Refusal("TL-S005", f"a loop is named by a string or a handle, not {name!r:.40}")
        if path_to(self.nest.body, lambda part: isinstance(part, For) and part.loop == name, (name,)):
            return str(name)
        present = list(loops(self.nest.body))
        if "." not in name:
            found = [part for part in present if short(part.loop) == name and part.follows is None]
            defined = set(stages(self._nests[0]))
            main = [part for part in found if _is_main(part) and stage_of(part.loop) in defined]
            matches = [part.loop for part in main or found if _is_main(part)]
            if len(matches) == 1:
                return matches[0]
            if matches:
                raise Refusal("TL-S002", f"{name!r} names {len(matches)} loops: {', '.join(matches)}; write one of these", loop=name)
        for position, step in enumerate(self._directives):
            before, after = (axis_names_of_loops(nest) for nest in self._nests[position : position + 2])
            gone = [loop for loop in before - after if name in (loop, short(loop))]
            if gone:
                made = ", ".join(short(loop) for loop in getattr(step, "made", tuple)()) or "nothing"
                raise Refusal(
                    "TL-S004", f"the loop {short(name)!r} is gone: step {position} ({trace.call(step)}) made {made} of it", loop=name
                )
        known = [part.loop if "." in name else short(part.loop) for part in present if _is_main(part)]
        raise Refusal("TL-S001", f"there is no loop {name!r}{did_you_mean(name, known)}", loop=name)

    # Steps ------------------------------------------------------------------------------------------------------------------

    def apply(self, directive: AnyDirective) -> tuple[Loop, ...] | None:
        """Apply one directive; the handles of the loops that it makes. Raises `ScheduleError`."""
        try:
            nest = self._tried(directive)
        except Refusal as refusal:
            raise self._error(refusal, directive) from None
        self._nests.append(nest)
        self._directives.append(directive)
        return tuple(Loop(loop) for loop in directive.made()) if isinstance(directive, (Split, Fuse)) else None

    def _tried(self, directive: AnyDirective) -> Nest:
        if type(directive) not in trace.NAMES:
            raise Refusal("TL-S007", f"{directive!r:.60} is not a directive")
        trace.require_fields(directive)
        return within_budget(directive.apply(self.nest), self.nest, getattr(directive, "loop", ""))

    def _error(self, refusal: Refusal, directive: AnyDirective | None) -> ScheduleError:
        marks = {refusal.loop: "<-- here"} if refusal.loop in axis_names(self.nest) else {}
        alternatives = list(refusal.alternatives)
        if isinstance(directive, (Parallel, Vectorize, Unroll)) and refusal.code.startswith("TL-S10"):
            others = (type(directive)(part.loop) for part in loops(self.nest.body) if part.loop != directive.loop and _is_main(part))
            alternatives += [step for step in (*others, *structural.instead(directive)) if self.can(step)]
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

    def _do(self, kind: str, *args: Any, **options: Any) -> tuple[Loop, ...] | None:
        try:
            directive = self._made(kind, *args, **options)
        except Refusal as refusal:
            raise self._error(refusal, None) from None
        return self.apply(directive)

    def _made(self, kind: str, *args: Any, **options: Any) -> AnyDirective:
        """The frozen value of a call, its names resolved. Raises `Refusal`."""
        match kind:
            case "split":
                loop, factor, *rest = args
                names = options.pop("names", None)
                options["names"] = tuple(names) if isinstance(names, list) else names
                return Split(self._loop(loop), factor, *rest, **options)
            case "fuse":
                return Fuse(self._loop(args[0]), self._loop(args[1]), *args[2:], **options)
            case "reorder":
                return Reorder(tuple(self._loop(loop) for loop in args))
            case "unroll" | "vectorize" | "parallel":
                (loop,) = args
                kinds: dict[str, type[Unroll | Vectorize | Parallel]] = {"unroll": Unroll, "vectorize": Vectorize, "parallel": Parallel}
                return kinds[kind](self._loop(loop))
            case "compute_at":
                return ComputeAt(_text(args[0], "a stage"), self._loop(args[1]))
            case "compute_inline":
                return ComputeInline(_text(args[0], "a stage"))
            case "cache_read" | "accumulate" | "pack":
                tensor = _text(args[0], "a tensor")
                at = self._loop(options.pop("at") if "at" in options else args[1])
                if kind == "pack":
                    layout = options.pop("layout", args[2] if len(args) > 2 else None)
                    if layout is not None and not isinstance(layout, (tuple, list)):
                        raise Refusal("TL-S005", f"the layout of a pack is a tuple of loops, not {layout!r:.40}")
                    return Pack(tensor, at, None if layout is None else tuple(self._loop(loop) for loop in layout))
                return CacheRead(tensor, at) if kind == "cache_read" else Accumulate(tensor, at, **options)
            case _ if kind in PLACEMENT:
                return placement.made(kind, self._loop, _text, *args, **options)
            case _ if kind in STRUCTURAL:
                return structural.made(kind, self._loop, *args, **options)
            case _:
                raise Refusal("TL-S007", f"{kind!r} is no directive{did_you_mean(kind, trace.STEPS)}")

    def _asked(self, kind: str, *args: Any, **options: Any) -> AnyDirective:
        """The frozen value of a method call by name. Raises `Refusal`, also for arguments that the method does not take."""
        if kind in trace.STEPS:
            signature = inspect.signature(getattr(self, kind))
            try:
                signature.bind(*args, **options)
            except TypeError as error:
                spelled = str(signature).partition(" -> ")[0].replace("'", "")
                raise Refusal("TL-S005", f"{kind} is called as {kind}{spelled}: {error}") from None
        return self._made(kind, *args, **options)

    def split(self, loop: str, factor: int, tail: Tail = "guard", names: tuple[str, str] | None = None) -> tuple[Loop, Loop]:
        """Split a loop into an outer one and an inner one of `factor` iterations; see `schedules.split`."""
        outer, inner = self._do("split", loop, factor, tail=tail, names=names) or ()
        return outer, inner

    def tile(
        self, i: str, j: str, fi: int, fj: int, tail: Tail = "guard", names: tuple[str, str, str, str] | None = None
    ) -> tuple[Loop, Loop, Loop, Loop]:
        """Split two nested loops and put both outer parts outside: `io, jo, ii, ji`. All or nothing."""
        before = len(self._directives)
        if names is not None and not (isinstance(names, (tuple, list)) and len(names) == 4):
            raise self._error(Refusal("TL-S005", f"names= of a tile are four, as the loops that it makes, not {names!r:.40}"), None)
        try:
            io, ii = self.split(i, fi, tail, None if names is None else (names[0], names[2]))
            jo, ji = self.split(j, fj, tail, None if names is None else (names[1], names[3]))
            self.reorder(io, jo, ii, ji)
        except ScheduleError:
            self.undo(len(self._directives) - before)
            raise
        return io, jo, ii, ji

    def fuse(self, outer: str, inner: str, name: str | None = None) -> Loop:
        """Fuse two directly nested loops into one; see `schedules.fuse`."""
        (fused,) = self._do("fuse", outer, inner, name) or ()
        return fused

    def reorder(self, *order: str) -> None:
        """Put loops in this order, outermost first; see `schedules.reorder`."""
        self._do("reorder", *order)

    def unroll(self, loop: str) -> None:
        """Emit the body once for each iteration; see `schedules.kinds`."""
        self._do("unroll", loop)

    def vectorize(self, loop: str) -> None:
        """Run iterations as lanes of vectors; see `schedules.kinds`."""
        self._do("vectorize", loop)

    def parallel(self, loop: str) -> None:
        """Run iterations on several threads; see `schedules.kinds`."""
        self._do("parallel", loop)

    def compute_at(self, stage: str, loop: str) -> None:
        """Compute a producer where it is needed; see `schedules.compute_at`."""
        self._do("compute_at", stage, loop)

    def compute_inline(self, stage: str) -> None:
        """Write a producer's expression into its uses; see `schedules.inline`."""
        self._do("compute_inline", stage)

    def cache_read(self, tensor: str, at: str) -> None:
        """Copy the region of a tensor used inside a loop; see `schedules.cache_read`."""
        self._do("cache_read", tensor, at)

    def pack(self, tensor: str, at: str, layout: tuple[str, ...] | None = None) -> None:
        """Copy what the inner loops use of a tensor in the order in which they use it; see `schedules.pack`."""
        self._do("pack", tensor, at, layout=layout)

    def accumulate(self, tensor: str, at: str, *, partial: bool = False) -> None:
        """Keep the tile of a reduction's output in registers; `partial` sums it apart. See `schedules.accumulate`."""
        self._do("accumulate", tensor, at, partial=partial)

    def undo(self, steps: int = 1) -> None:
        """Take back the last `steps` directives. Raises `ScheduleError` where there are not so many."""
        if not isinstance(steps, int) or isinstance(steps, bool) or not 0 <= steps <= len(self._directives):
            reason = f"there are {len(self._directives)} directives to take back, not {steps!r:.40}"
            raise self._error(Refusal("TL-S007", reason), None)
        kept = len(self._directives) - steps
        del self._directives[kept:], self._nests[kept + 1 :]

    # Questions --------------------------------------------------------------------------------------------------------------

    def can(self, directive: AnyDirective | str, *args: Any, **options: Any) -> Verdict:
        """Would a directive, or a method call by name, be accepted? Changes nothing."""
        made = None
        try:
            made = self._asked(directive, *args, **options) if isinstance(directive, str) else directive
            self._tried(made)
        except Refusal as refusal:
            asked, why, step = self.copy(), refusal, made
            return Verdict(lambda: asked._error(why, step))  # noqa: SLF001 - the schedule of this moment
        return Verdict()

    def attempt(self, directive: AnyDirective) -> bool:
        """Apply a directive if it is accepted; was it? As `can` and then `apply`, at the price of one of them."""
        try:
            nest = self._tried(directive)
        except Refusal:
            return False
        self._nests.append(nest)
        self._directives.append(directive)
        return True

    def legal_moves(self, loop: str) -> tuple[AnyDirective, ...]:
        """Directives on a loop, or on a stage, that would be accepted now. Raises `ScheduleError` where there is neither of that name."""
        if isinstance(loop, str) and loop in stages(self.nest):
            found = moves_of_stage(self.nest, loop)
        else:
            try:
                found = moves_of_loop(self.nest, self._loop(loop))
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
        other.outputs, other.inputs = self.outputs, self.inputs
        other._nests, other._directives = list(self._nests), list(self._directives)
        return other

    def named(self, name: str) -> Nest:
        """The nest under another kernel name."""
        return replace(self.nest, name=name)


def _is_main(loop: For) -> bool:
    return not stage_of(loop.loop).endswith(AUXILIARY) and loop.follows is None


def _text(value: object, what: str) -> str:
    if isinstance(value, Tensor):
        value = value.name
    if not isinstance(value, str):
        raise Refusal("TL-S005", f"{what} is given by name, not {value!r:.40}")
    return value


def axis_names_of_loops(nest: Nest) -> frozenset[str]:
    """The full names of the loops of a nest."""
    return frozenset(part.loop for part in loops(nest.body))
