"""How many trials a search takes, on recorded logs: no kernel is built or timed, so the figures are the same on every machine.

    python -m bench.search                       the table, and everything behind it in results/search.json
    python -m bench.search --seeds 5 matmul      quicker

The cost model that leads ours is today's, told the processor that a log names. Nothing is learnt across operators: the weight that a
search gives the model it learns from its own trials. "uninformed" is ours without the model.

For each operator of `bench/recorded` and each method: the trials until a point is within 5 % of the best of 1,000 random points, the median
of 20 seeds. Every method begins with the same point: a random one, which differs from seed to seed, so that the method alone is
compared; and again the default schedule, as a job does. The machine was shared when the logs were recorded, so that part of what
sets neighbours apart is noise; a search meets the same noise in life.

`skopt.Optimizer` and Optuna's TPE (of the extra `peers`; left out where it is not installed) have their defaults and get every help that
they can use: sizes by their rank, times as logarithms; skopt a constraint that admits the points that are left, without which it repeats
points and leaves the space; of Optuna neither a point outside the space nor a repeated one counts as a trial.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import statistics
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import threadpoolctl

from bench.measure import Figure
from bench.predicted import costs
from bench.simulate import Table, read
from bench.transfer import priors
from tensorlang.autotune.log.record import Trial
from tensorlang.autotune.search.factory import searcher
from tensorlang.autotune.search.searcher import Observation
from tensorlang.autotune.search.surrogate import preload
from tensorlang.schedules.spaces.space import Config, Knob, Sizes, spelling

FOLDER: Final = Path(__file__).resolve().parent / "recorded"
RESULTS: Final = Path(__file__).resolve().parent / "results"
OPERATORS: Final = (
    *("matmul", "batch_matmul", "conv2d", "depthwise_conv2d", "softmax", "layer_norm"),
    *("cascadelake_matmul_512", "cascadelake_matmul_2048", "cascadelake_matmul_bert", "cascadelake_matmul_skinny"),
    *("cascadelake_batch_matmul", "cascadelake_conv1x1", "cascadelake_conv1x1s2", "cascadelake_conv3x3", "cascadelake_depthwise3x3"),
    *("cascadelake_softmax_rows", "cascadelake_softmax_large", "cascadelake_layer_norm_large"),
)
MACHINES: Final[Mapping[str, Callable[[str], bool]]] = {
    "Zen 5": lambda operator: not operator.startswith("cascadelake_"),
    "Cascade Lake": lambda operator: operator.startswith("cascadelake_"),
}
"""Where the logs were recorded: whole spaces or most of them on the one, 40 to 60 random points of each on the other."""
LED: Final = 3.0
"""How many times as many trials as ours random search is to take from a random point."""
UNHURT: Final = 0.67
"""The same of the search without the cost model, for the operator where that misleads most."""
OTHER: Final = "matmul_other"
"""Another shape of matmul, for the figure of transfer."""
SEEDS: Final = 20
TRIALS: Final = 100
BOUNDS: Final[Mapping[tuple[str, str], float]] = {("random", "random"): LED, ("random", "default"): 1.5}
"""By how much ours has to be ahead of a method, from a random point or from the default, where just ahead is not enough."""
CANDIDATES: Final = 2_000
"""How many points skopt scores for a proposal; by default it is 10,000, more than the boxes have."""
FREE: Final = 50
"""Proposals in a row that are no point, or a known one, before a random point is taken instead."""

Search: TypeAlias = Callable[[Table, Config, int], Iterator[Observation]]
"""The outcomes of a search of a table from a point on, by a seed."""


def own(strategy: str, **known: Any) -> Search:
    """A strategy of the tuner, and what it is told at the start."""

    def search(table: Table, start: Config, seed: int) -> Iterator[Observation]:
        asked = searcher(strategy, table.space, start, seed=seed, costs=table.costs, **known)
        while (proposal := asked.ask()) is not None:
            asked.tell(outcome := table.outcome(proposal.config))
            yield outcome

    return search


def skopt_optimizer(table: Table, start: Config, seed: int) -> Iterator[Observation]:
    """`skopt.Optimizer`, with a constraint that admits the points that are left; by itself it repeats points and leaves the space."""
    from skopt import Optimizer  # noqa: PLC0415 - slow to import
    from skopt.space import Categorical, Integer  # noqa: PLC0415

    knobs = _free(table)
    left = {tuple(_places(knobs, config)) for config in table.space}
    dimensions = [Integer(0, len(knob.values) - 1) if isinstance(knob, Sizes) else Categorical(range(len(knob.values))) for knob in knobs]
    optimizer = Optimizer(
        dimensions,
        random_state=seed,
        acq_optimizer="sampling",
        acq_optimizer_kwargs={"n_points": CANDIDATES},
        space_constraint=lambda places: tuple(places) in left,
    )
    logs: list[float] = []

    def ask(attempt: int) -> list[int]:
        del attempt
        return [int(place) for place in optimizer.ask()]

    def tell(places: list[int], outcome: Observation | None) -> None:
        logs.append(max(logs, default=0.0) if outcome is None or outcome.time is None else math.log(outcome.time))
        optimizer.tell(places, logs[-1], fit=len(left) > 1)
        left.discard(tuple(places))

    yield from _boxed(table, start, knobs, seed, ask, tell)


def optuna_tpe(table: Table, start: Config, seed: int) -> Iterator[Observation]:
    """Optuna's tree-structured Parzen estimator; a point outside the space is a failed trial, which it leaves out of its model."""
    import optuna  # noqa: PLC0415 - of the extra `peers`
    from optuna.distributions import BaseDistribution, CategoricalDistribution, IntDistribution  # noqa: PLC0415

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    knobs = _free(table)
    distributions: dict[str, BaseDistribution] = {
        knob.name: IntDistribution(0, len(knob.values) - 1) if isinstance(knob, Sizes) else CategoricalDistribution(range(len(knob.values)))
        for knob in knobs
    }
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed))
    asked: list[Any] = []

    def ask(attempt: int) -> list[int]:
        del attempt
        asked.append(study.ask(distributions))
        return [asked[-1].params[knob.name] for knob in knobs]

    def tell(places: list[int], outcome: Observation | None) -> None:
        if not asked:  # the first point is ours
            study.enqueue_trial({knob.name: place for knob, place in zip(knobs, places, strict=True)})
            asked.append(study.ask(distributions))
        if outcome is None or outcome.time is None:
            study.tell(asked[-1], state=optuna.trial.TrialState.FAIL)
        else:
            study.tell(asked[-1], math.log(outcome.time))

    yield from _boxed(table, start, knobs, seed, ask, tell)


def _boxed(
    table: Table,
    start: Config,
    knobs: Sequence[Knob],
    seed: int,
    ask: Callable[[int], list[int]],
    tell: Callable[[list[int], Observation | None], None],
) -> Iterator[Observation]:
    """A search of a box whose corners are no points: what it says is told, and counts, only where it is a new point."""
    fixed = {knob.name: knob.values[0] for knob in table.space.knobs}
    seen = {spelling(start)}
    tell(_places(knobs, start), table.outcome(start))
    yield table.outcome(start)
    while len(seen) < len(table.outcomes):
        for attempt in range(FREE):
            places = ask(attempt)
            config = fixed | {knob.name: knob.values[place] for knob, place in zip(knobs, places, strict=True)}
            outcome = table.outcomes.get(key := spelling(config))
            tell(places, outcome)
            if outcome is not None and key not in seen:
                break
        else:
            (config,) = table.space.sample(np.random.default_rng([seed, len(seen)]), 1, exclude=seen)
            outcome, key = table.outcome(config), spelling(config)
        seen.add(key)
        yield outcome


def _free(table: Table) -> list[Knob]:
    return [knob for knob in table.space.knobs if len(knob.values) > 1]


def _places(knobs: Sequence[Knob], config: Config) -> list[int]:
    """The rank of each knob's value."""
    return [knob.places[spelling(config[knob.name])] for knob in knobs]


METHODS: Final[Mapping[str, Search]] = {
    "bayesian": own("bayesian"),
    "uninformed": own("uninformed"),
    "random": own("random"),
    "evolutionary": own("evolutionary"),
    "skopt.Optimizer": skopt_optimizer,
    "Optuna TPE": optuna_tpe,
}


def methods() -> list[str]:
    """The methods that are installed."""
    there = importlib.util.find_spec("optuna") is not None
    return [name for name, search in METHODS.items() if there or search is not optuna_tpe]


def trials_to(table: Table, search: Search, start: Config, seed: int, goal: float) -> int:
    """Trials until this time is reached; one more than `TRIALS` if it never is."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for count, outcome in enumerate(islice(search(table, start, seed), TRIALS), 1):
            if outcome.time is not None and outcome.time <= goal:
                return count
    return TRIALS + 1


def cell(operator: str, start: str, method: str, seeds: int) -> dict[str, Any]:
    """One operator, start and method: the trials of each seed."""
    table = recorded(operator)
    goal = table.goal()
    points = [table.default] * seeds
    if start == "random":
        points = [table.space.sample(np.random.default_rng([7, seed]), 1)[0] for seed in range(seeds)]
    counts = [trials_to(table, METHODS[method], point, seed, goal) for seed, point in enumerate(points)]
    return {"operator": operator, "start": start, "method": method, "median": statistics.median(counts), "trials": counts}


def compared(operators: Sequence[str], seeds: int, methods: Sequence[str]) -> list[dict[str, Any]]:
    """One row for each operator, start and method, in that order; every core works."""
    cells = [(operator, start, method, seeds) for operator in operators for start in ("random", "default") for method in methods]
    slow_first = sorted(cells, key=lambda wanted: METHODS[wanted[2]] is not skopt_optimizer)
    rows: dict[tuple[str, str, str, int], dict[str, Any]] = {}
    with ProcessPoolExecutor(mp_context=get_context("spawn"), initializer=_alone) as pool:
        under_way = {pool.submit(cell, *wanted): wanted for wanted in slow_first}
        for done in as_completed(under_way):
            row = rows[under_way[done]] = done.result()
            print(f"  {row['operator']}, from {row['start']}: {row['method']} {row['median']:g}", flush=True)
    return [rows[wanted] for wanted in cells]


def _alone() -> None:
    """One thread for each process: the matrices are small. Libraries that come later would not know."""
    preload()
    threadpoolctl.threadpool_limits(1)


def recorded(name: str) -> Table:
    """The table of a recorded log, with what the cost model says of its points."""
    records = list(read(FOLDER / f"{name}.jsonl.gz"))
    return replace(Table.of(records), costs=costs(records))


def transferred(seeds: int) -> dict[str, Any]:
    """Trials on matmul from the default: alone; another shape's best first, as a job has it; its trials as priors besides."""
    table = recorded("matmul")
    trials = [record for record in read(FOLDER / "matmul.jsonl.gz") if isinstance(record, Trial)]
    others = [record for record in read(FOLDER / f"{OTHER}.jsonl.gz") if isinstance(record, Trial)]
    first, best = trials[0], min((trial for trial in others if trial.time), key=lambda trial: trial.time or math.inf)
    told = priors(others, first.task["family"], first.task["extents"], first.target["fingerprint"], first.threads, first.cache)
    seed_points = [point for point in [table.space.project(best.config)] if point is not None]

    ways: dict[str, dict[str, Any]] = {"alone": {}, "seeded": {"seeds": seed_points}, "with priors": {"seeds": seed_points, "priors": told}}
    goal = table.goal()
    counts = {
        name: [trials_to(table, own("bayesian", **known), table.default, seed, goal) for seed in range(seeds)]
        for name, known in ways.items()
    }
    return {"priors": len(told), "trials": counts, "ratio": statistics.mean(counts["alone"]) / statistics.mean(counts["seeded"])}


def figures(_: Path | None = None, operators: Sequence[str] = OPERATORS, seeds: int = SEEDS, chosen: Sequence[str] = ()) -> list[Figure]:
    """The figures, and the table of medians behind them in the facts of the first.

    A ratio is the geometric mean over the operators that leave something to find: not those whose default is already good enough.
    """
    rows = compared(operators, seeds, chosen or methods())
    medians = {(row["operator"], row["start"], row["method"]): row["median"] for row in rows}
    worst = max(medians[operator, "random", "bayesian"] for operator in operators)
    found = [Figure("search: trials to within 5 %, the worst operator", worst, 60, "at most", "trials", {"rows": rows})]
    for start in ("random", "default"):
        open_to = [o for o in operators if any(medians[o, start, name] > 1 for name in chosen or methods())]
        for name in chosen or methods():
            if name != "bayesian" and open_to:
                ratio = statistics.geometric_mean(medians[o, start, name] / medians[o, start, "bayesian"] for o in open_to)
                bound = BOUNDS.get((name, start), 1.0)
                origin = "a random point" if start == "random" else "the default"
                label = f"search: trials of {name} / ours, from {origin}"
                found.append(Figure(label, ratio, bound, "at least", "", {"operators": open_to}))
    for machine, is_of in MACHINES.items():
        own_to = [o for o in operators if is_of(o) and any(medians[o, "random", name] > 1 for name in chosen or methods())]
        if own_to and "random" in (chosen or methods()):
            ratio = statistics.geometric_mean(medians[o, "random", "random"] / medians[o, "random", "bayesian"] for o in own_to)
            found.append(
                Figure(
                    f"search: trials of random / ours, from a random point, {machine}", ratio, 1.0, "at least", "", {"operators": own_to}
                )
            )
    if "uninformed" in (chosen or methods()):
        ratio, operator = min((medians[o, "random", "uninformed"] / medians[o, "random", "bayesian"], o) for o in operators)
        label = f"search: trials without the cost model / ours, where that misleads most ({operator})"
        found.append(Figure(label, ratio, UNHURT, "at least", "", {"operator": operator}))
    if (FOLDER / f"{OTHER}.jsonl.gz").exists():
        facts = transferred(seeds)
        found.append(Figure("search: trials alone / beginning with another shape's best", facts["ratio"], 1.0, "at least", "", facts))
    return found


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """The medians as a Markdown table."""
    names = list(dict.fromkeys(row["method"] for row in rows))
    lines = [f"| operator | from | {' | '.join(names)} |", "| --- | --- |" + " ---: |" * len(names)]
    medians = {(row["operator"], row["start"], row["method"]): row["median"] for row in rows}
    for operator, start in dict.fromkeys((row["operator"], row["start"]) for row in rows):
        cells = (medians[operator, start, name] for name in names)
        shown = " | ".join(f"{cell:g}" if cell <= TRIALS else f"> {TRIALS}" for cell in cells)
        lines.append(f"| {operator} | {start} | {shown} |")
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare, print, write; 1 where a bound is not kept."""
    parser = argparse.ArgumentParser(prog="bench.search", description="Compare search methods on recorded logs.")
    parser.add_argument("operators", nargs="*", help=f"of {', '.join(OPERATORS)} (default: all)")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--methods", nargs="*", default=methods(), choices=methods())
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for search.json and search.md")
    options = parser.parse_args(arguments)
    if unknown := set(options.operators) - set(OPERATORS):
        parser.error(f"no recording {', '.join(sorted(unknown))}; known: {', '.join(OPERATORS)}")
    found = figures(None, options.operators or OPERATORS, options.seeds, options.methods)
    rows = found[0].facts["rows"]
    lines = "".join(
        f"- {figure.name}: {figure.value:.2f} ({figure.sense} {figure.bound:g}{'' if figure.kept else '; NOT KEPT'})\n" for figure in found
    )
    text = f"{table(rows)}\n{lines}"
    options.results.mkdir(parents=True, exist_ok=True)
    (options.results / "search.json").write_text(json.dumps([figure.to_json() for figure in found], indent=1) + "\n")
    (options.results / "search.md").write_text(text)
    print(f"\n{text}\nwritten to {options.results}")
    return 0 if all(figure.kept for figure in found) else 1


if __name__ == "__main__":
    sys.exit(main())
