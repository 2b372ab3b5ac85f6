"""The judgement of one case: everything that has to agree, cheapest first.

verify, replay      after each step, and of the whole schedule
tags                every output element is the same term in the scheduled and in the unscheduled nest, and nothing races
forward             every dependence of the program points forward in its schedule (`tests.oracle`)
nest                the scheduled nest, run statement by statement, gives what the evaluator gives
kernel              machine code gives what the evaluator gives; exactly, or within a derived bound
plain, default      so does that of the unscheduled program, and of the default schedule
twin                the same over wrap-around integers, exactly
memory              outputs are poisoned before, inputs unchanged after, nothing beside them written, guard pages untouched
threads             one and several threads agree bit for bit
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias
from unittest import mock

import numpy as np

import tensorlang as tl
from tensorlang.codegen import compilation
from tensorlang.codegen.target import target as find_target
from tensorlang.ir import For
from tensorlang.ir.traverse import statements
from tensorlang.lowering.program import LoweredProgram
from tensorlang.schedules import catalogue, trace as trace_of_steps
from tensorlang.schedules.directives.narrow import Narrow
from tensorlang.schedules.directives.separate import Separate
from tensorlang.schedules.faults import unforeseen
from tensorlang.schedules.strategies import choose
from tensorlang.semantics.nest_interpreter import run_nest
from tests.broken import broken
from tests.oracle.flow import TooMuch

from . import schedules
from .arrays import blank, difference, poisoned, same
from .bounds import UNIT
from .case import Case, sizes, to_json
from .coverage import Cell, concerned, spelled
from .definitions import definition
from .directed import aimed
from .effort import sizes_of, work
from .forward import Forward
from .memory import Guarded, Memory
from .nearness import within
from .program import Builder, Program, operands
from .refusals import Question, data_dependent
from .replay import Tally, Wrong, attempt, label, replayed
from .tags import Terms, trace
from .view import Step

Array = np.ndarray[Any, Any]
Scheduled: TypeAlias = tuple[tl.Schedule, list[Step], set[Cell], Forward]
TAG_WORK: Final = 2500
NEST_WORK: Final = 4000
ROOM: Final = 256 << 20
"""Bytes of intermediates beyond which a kernel is built and not called."""
THREADS: Final = 3
CPU: Final = "cascadelake"
"""The machine that the strategies are asked for: a case is the same on every one."""


@dataclass(slots=True)
class Judge:
    """What stays between cases: guarded memory, tallies, and where to say what is going on."""

    memory: Memory = field(default_factory=Memory)
    tally: Tally = field(default_factory=Tally)
    say: Callable[[str], None] = lambda _: None
    drawn: tuple[Case, Program, LoweredProgram] | None = None
    """The case that was generated last, its program, and the nest that its steps were tried on."""

    def generate(self, seed: int, cell: Cell | None = None) -> Case:
        """The case of a seed: a definition, and steps drawn for it while they are applied.

        One in two is drawn for a cell of the coverage table; in one of ten the first steps are those of a point of the strategies' space.
        A cell that is given is aimed at whatever the seed; what cannot be drawn for it is random after all.
        """
        for attempt_number in range(20):
            number = seed * 1000 + attempt_number
            found, aim = definition(number), None
            if (cell is not None or seed % 2 == 0) and attempt_number < 10:
                drawn = aimed(number, cell)
                if drawn is None:
                    continue
                found, aim = drawn
            case = found
            try:
                program = Builder(case).program()
                schedule = tl.Schedule(program.outputs)
            except tl.DefinitionError:
                self.tally.add("definition refused")
                continue
            case["seed"] = seed
            scratch, rng = Tally(), random.Random(seed)

            def go(on: Any, step: Step, scratch: Tally = scratch) -> bool:
                try:
                    attempt(on, step, scratch)
                except Wrong:
                    return False
                return True

            first = strategic(program.outputs, rng) if cell is None and seed % 10 == 7 else []
            if all(go(schedule, step) for step in first):
                first += schedules.steps(schedule, rng, go, aim)
            case["steps"] = first
            made = case if cell is None or aim is None else {**case, "cell": list(cell)}
            self.drawn = made, program, schedule.program
            return made
        raise Wrong("generator", f"no definition for seed {seed}")

    def check(self, case: Case) -> None:
        """Raise `Wrong` where an oracle disagrees."""
        self.memory.reset()
        for stage in case["stages"]:
            self.tally.add("stage", stage["kind"])
        drawn = self.drawn if self.drawn is not None and self.drawn[0] is case else None
        _, program, lowered = drawn or (case, Builder(case).program(), None)
        schedule, kept, covered, forward = self.scheduled(case, program, lowered)
        self.say("replay")
        replayed(schedule)
        everywhere = sizes(case)
        for extents in everywhere:
            self.interpreted(case, program, schedule, extents)
        for extents in everywhere[:2]:
            self.forward(case, program, schedule, forward, extents)
        self.compiled(case, program, schedule, everywhere, "kernel", twin=False)
        if case["seed"] % 5 == 0:
            self.compiled(case, program, tl.Schedule(program.outputs), everywhere[:1], "plain", twin=False)
        if case["seed"] % 5 == 1:
            self.say("strategy")
            strategy = choose(program.outputs, find_target(CPU), THREADS)
            without_faults(strategy.schedule(strategy.default))
            self.compiled(case, program, program.outputs, everywhere, "default", twin=False)
        if any(name in UNIT for name in types(case)):
            self.twin(case, kept, everywhere)
        for cell in sorted(covered):
            self.tally.add(spelled(cell))

    def scheduled(self, case: Case, program: Program, lowered: LoweredProgram | None = None) -> Scheduled:
        """The schedule after all steps of a case, those that were accepted, the cells that they cover, and what judges dependences.

        It starts from the very nest that the steps were drawn on, where that is known: what a step makes of a nest is kept, and need not
        be found again. That it is found again from another nest of the same program is for `replayed` to see.
        """
        self.say("schedule")
        schedule, kept, covered = tl.Schedule(lowered or program.outputs), list[Step](), set[Cell]()
        forward = Forward(schedule.nest)
        for position, step in enumerate(case["steps"]):
            probe = (case["seed"] + position) % 4 == 0 and "call" in step and step["call"] in catalogue.DIRECTIVES
            verdict = schedule.can(step["call"], *step["args"], **named(step)) if probe else None
            before, steps = schedule.nest, len(schedule.directives)
            accepted = attempt(schedule, step, self.tally, Question(case, program, forward).needed)
            if verdict is not None and bool(verdict) != accepted:
                raise Wrong("can", f"can says {bool(verdict)} to {step}, which is {'accepted' if accepted else 'refused'}")
            if accepted:
                kept.append(step)
                covered |= concerned(case, before, step)
                forward.follow(schedule.directives[steps:], schedule.nest)
        return schedule, kept, covered, forward

    # Nests

    def forward(self, case: Case, program: Program, schedule: Any, forward: Forward, extents: dict[str, int]) -> None:
        """The oracle of dependences."""
        if forward.shadow is None or not forward.small(forward.shadow, extents):
            self.tally.add("forward", "other" if forward.shadow is None else "large")
            return
        self.say("forward")
        arrays = {**operands(program, case, extents, twin=False), **blank(forward.plain, extents)}
        try:
            wrong = forward.wrong(forward.shadow, arrays, dims_of(schedule, extents))
        except TooMuch:
            self.tally.add("forward", "too much")
            return
        except Exception as error:
            raise Wrong("forward", f"at {extents}: {type(error).__name__}: {error!s:.300}") from error
        self.tally.add("oracle", "forward")
        if wrong is not None:
            raise Wrong("forward", f"at {extents}: {wrong}")

    def interpreted(self, case: Case, program: Program, schedule: Any, extents: dict[str, int]) -> None:
        """The oracles that run the nest itself."""
        plain, dims = tl.Schedule(program.outputs).nest, dims_of(schedule, extents)
        effort = max(work(nest.body, sizes_of(extents)) for nest in (plain, schedule.nest))
        feeds = operands(program, case, extents, twin=False)
        if effort <= TAG_WORK:
            self.say("tags")
            self.tally.add("oracle", "tags")
            terms = Terms(feeds)
            wanted, _ = trace(plain, terms, dims)
            try:
                found, races = trace(schedule.nest, terms, dims)
            except Exception as error:
                raise Wrong("tags", f"at {extents}: {type(error).__name__}: {error!s:.300}") from error
            if races:
                raise Wrong("race", f"at {extents}: {races[0]}")
            loaded = data_dependent(schedule.nest)
            narrowed, distributed = (any(isinstance(step, kind) for step in schedule.directives) for kind in (Narrow, Separate))
            for name, tags in wanted.items():
                for place, (one, other) in enumerate(zip(tags, found[name], strict=True)):
                    same = one == other or (loaded and terms.settled(one) == terms.settled(other))
                    if not same and not ((narrowed or distributed) and _alike(terms.value(one), terms.value(other), rough=distributed)):
                        raise Wrong("tags", f"at {extents}: element {place} of {name} is {shown(terms, other)}, not {shown(terms, one)}")
        if effort <= NEST_WORK:
            self.say("nest")
            self.tally.add("oracle", "nest")
            outputs = blank(schedule.nest, extents)
            try:
                run_nest(schedule.nest, {**feeds, **outputs}, dims)
            except Exception as error:
                raise Wrong("nest", f"at {extents}: {type(error).__name__}: {error!s:.300}") from error
            self.agree(case, program, list(outputs.values()), extents, "nest", twin=False)

    # Kernels

    def twin(self, case: Case, kept: list[Step], everywhere: list[dict[str, int]]) -> None:
        """The integer twin under the same steps; a condition on floats that kept an index inside may hold elsewhere of integers."""
        self.say("twin")
        try:
            program = Builder(case, twin=True).program()
        except tl.DefinitionError:
            self.tally.add("twin", "is no definition")
            return
        schedule, scratch = tl.Schedule(program.outputs), Tally()
        for step in kept:
            if not attempt(schedule, step, scratch):
                self.tally.add("twin refuses", label(step))
        self.compiled(case, program, schedule, everywhere, "twin", twin=True)

    def compiled(self, case: Case, program: Program, of: Any, everywhere: list[dict[str, int]], oracle: str, *, twin: bool) -> None:
        """The oracles that run machine code: of a schedule, or of tensors under their default schedule."""
        self.say(f"{oracle} build")
        try:
            with mock.patch.object(compilation, "plain_loops", broken):
                kernel = tl.build(of)
        except Exception as error:
            raise Wrong("build", f"{oracle}: {type(error).__name__}: {error!s:.300}") from error
        if kernel.workspace_bytes > ROOM:
            self.tally.add("too large", oracle)
            return
        self.tally.add("oracle", oracle)
        schedule = of if isinstance(of, tl.Schedule) else tl.Schedule(of)
        threaded = any(isinstance(part, For) and part.kind == "parallel" for part in statements(schedule.nest.body))
        for turn, extents in enumerate(everywhere):
            self.say(f"{oracle} run")
            results = self.run(case, program, schedule, kernel, extents, at_end=(case["seed"] + turn) % 2 == 0, twin=twin, oracle=oracle)
            self.agree(case, program, results, extents, oracle, twin=twin)
            if threaded:
                self.say(f"{oracle} threads")
                self.tally.add("oracle", "threads")
                tl.set_threads(1)
                alone = self.run(case, program, schedule, kernel, extents, at_end=True, twin=twin, oracle=oracle)
                tl.set_threads(THREADS)
                for one, several in zip(alone, results, strict=True):
                    if one.tobytes() != several.tobytes():
                        raise Wrong("threads", f"at {extents}: one and {THREADS} threads differ")

    def run(
        self, case: Case, program: Program, schedule: Any, kernel: Any, extents: dict[str, int], *, at_end: bool, twin: bool, oracle: str
    ) -> list[Array]:
        """The outputs of a call on guarded memory."""
        feeds = operands(program, case, extents, twin=twin)
        inputs = [self.memory.copy(feeds[buffer.name], at_end=at_end) for buffer in schedule.nest.inputs]
        outputs: list[Guarded] = []
        for buffer in schedule.nest.outputs:
            shape = poisoned(buffer, schedule.nest, extents).shape
            outputs.append(self.memory.array(shape, buffer.dtype.numpy, at_end=at_end))
        results = [guarded.array for guarded in outputs]
        try:
            kernel(
                *[guarded.array for guarded in inputs],
                out=results[0] if len(results) == 1 else tuple(results),
                **dims_of(schedule, extents),
            )
        except Exception as error:
            raise Wrong("call", f"{oracle} at {extents}: {type(error).__name__}: {error!s:.300}") from error
        for buffer, guarded in zip(schedule.nest.inputs, inputs, strict=True):
            if guarded.array.tobytes() != feeds[buffer.name].tobytes():
                raise Wrong("memory", f"{oracle} at {extents}: the operand {buffer.name} was changed")
        if any(guarded.spoilt() for guarded in (*inputs, *outputs)):
            raise Wrong("memory", f"{oracle} at {extents}: something was written beside an array")
        return results

    def agree(self, case: Case, program: Program, found: list[Array], extents: dict[str, int], oracle: str, *, twin: bool) -> None:
        """Raise `Wrong` unless results are what the evaluator gives: exactly, or within the bound of their error."""
        feeds = {program.operands[name]: array for name, array in operands(program, case, extents, twin=twin).items()}
        symbolic = {name: extents[name] for name in case["symbolic"]}
        wanted = tl.evaluate(program.outputs, feeds, None, **symbolic)
        for place, (result, expected) in enumerate(zip(found, wanted, strict=True)):
            if same(result, expected):
                continue
            name = case["outputs"][place]
            if str(expected.dtype) not in UNIT:
                raise Wrong(oracle, f"at {extents}: {name} {difference(result, expected)}")
            self.tally.add("bound", within(case, name, result, expected, extents, oracle))


def _alike(one: Any, other: Any, *, rough: bool) -> bool:
    """Are two values the same number, or both none? Of products that leave a sum `rough`ly: what is left of a float is judged elsewhere."""
    same = bool(one == other) or bool(one != one and other != other)  # noqa: PLR0124 - NaN
    return same or (rough and isinstance(one, np.inexact) and bool(np.isfinite(one) == np.isfinite(other)))


def without_faults(schedule: Any) -> Any:
    """A strategy's schedule. Raises `Wrong` where a step of the strategy's was refused, but for too much code: it has to ask before."""
    if faults := unforeseen(schedule.faults):
        raise Wrong("strategy", "; ".join(map(str, faults)))
    return schedule


def strategic(outputs: Any, rng: random.Random) -> list[Step]:
    """The steps of a point of the strategies' own space: one in three times the default."""
    strategy = choose(outputs, find_target(CPU), rng.choice((1, THREADS)))
    point = strategy.default if rng.random() < 0.35 else strategy.space.sample(np.random.default_rng(rng.randrange(1 << 30)), 1)[0]
    made = without_faults(strategy.schedule(point))
    steps = made.directives if schedules.small(made.nest.body) else ()
    return [{"apply": catalogue.NAMES[type(step)], "fields": trace_of_steps.fields(step)} for step in steps]


def dims_of(schedule: Any, extents: dict[str, int]) -> dict[str, int]:
    """The run-time extents of a nest."""
    return {name: extents[name] for name in schedule.nest.dims}


def named(step: Step) -> dict[str, Any]:
    """The named arguments of a step."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in step.get("named", {}).items()}


def types(case: Case) -> set[str]:
    """The types that a case speaks of."""
    return {entry["dtype"] for entry in case["inputs"]} | {name for name in UNIT if f'"{name}"' in to_json(case)}


def shown(terms: Terms, tag: int, depth: int = 4) -> str:
    """A term as text."""
    match terms.rows[tag]:
        case ("poison",):
            return "never written"
        case ("element", name, index, _):
            return f"{name}{list(index)}"
        case ("literal", _, text):
            return str(text)
        case ("linear", _, parts, rest):
            return " + ".join([f"{factor}*{shown(terms, atom, depth - 1)}" for atom, factor in parts] + [str(rest)])
        case ("state", name, *_):
            _, old, new = terms.made[tag]
            return f"{name}(... {shown(terms, old[0], depth - 1)} with {shown(terms, new[0], depth - 1)})" if depth else "..."
        case row:
            inner = [shown(terms, part, depth - 1) for part in row if isinstance(part, int)] if depth else ["..."]
            return f"{row[1]}({', '.join(inner)})"
