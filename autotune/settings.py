"""How a tuning job runs, as one checked value."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Final, Literal, TypeAlias, get_args

from tensorlang.autotune.measurement.measure import Policy
from tensorlang.autotune.search.factory import STRATEGIES
from tensorlang.codegen.runtime.threads import MAX_THREADS
from tensorlang.errors import TuningError, did_you_mean

BUILDER: Final = "tensorlang.autotune.workers.candidate:build"
Cache: TypeAlias = Literal["warm", "cold"]
CACHES: Final[tuple[Cache, ...]] = get_args(Cache)
_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How a job runs; `tune` says what each means."""

    trials: int = 64
    seed: int = 0
    strategy: str = "bayesian"
    budget: float | None = None
    timeout: float = 30.0
    resume: bool = True
    threads: int = 1
    policy: Policy = field(default_factory=Policy)
    workers: int = 1
    cache: str = "warm"
    dask: str | None = None
    builder: str = BUILDER
    path: tuple[str, ...] = ()


def seconds(budget: float | str | None) -> float | None:
    """A length of time: a number of seconds, or as "90s", "30m", "1h30m". Raises `TuningError` for anything else."""
    if budget is None or (isinstance(budget, int | float) and not isinstance(budget, bool)):
        return budget
    text = str(budget).strip()
    parts = re.findall(r"(\d+(?:\.\d+)?)([smhd]?)", text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise TuningError(f"{budget!r} is not a length of time; write 90s, 30m or 1h30m")
    return sum(float(number) * _UNITS[unit or "s"] for number, unit in parts)


def _is_positive(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0


def checked(settings: Settings) -> Settings:
    """The settings, if they make sense; raises `TuningError` that names the one which does not."""
    if isinstance(settings.trials, bool) or not isinstance(settings.trials, int) or settings.trials < 1:
        raise TuningError(f"trials must be at least 1, not {settings.trials!r}")
    if isinstance(settings.threads, bool) or not isinstance(settings.threads, int) or not 1 <= settings.threads <= MAX_THREADS:
        raise TuningError(f"threads must be from 1 to {MAX_THREADS}, not {settings.threads!r}")
    if not isinstance(settings.strategy, str) or settings.strategy not in STRATEGIES:
        raise TuningError(f"there is no search strategy {settings.strategy!r}{did_you_mean(str(settings.strategy), STRATEGIES)}")
    if isinstance(settings.seed, bool) or not isinstance(settings.seed, int) or settings.seed < 0:
        raise TuningError(f"seed must be a whole number from 0, not {settings.seed!r}")
    if isinstance(settings.workers, bool) or not isinstance(settings.workers, int) or not 1 <= settings.workers <= MAX_THREADS:
        raise TuningError(f"workers must be from 1 to {MAX_THREADS}, not {settings.workers!r}")
    if not isinstance(settings.cache, str) or settings.cache not in CACHES:
        raise TuningError(f"cache must be warm or cold, not {settings.cache!r}{did_you_mean(str(settings.cache), CACHES)}")
    if settings.dask is not None and (not isinstance(settings.dask, str) or not settings.dask.strip()):
        raise TuningError(f"dask must be the address of a scheduler, as tcp://host:8786, not {settings.dask!r}")
    if settings.budget is not None and not _is_positive(settings.budget):
        raise TuningError(f"budget must be a positive length of time, not {settings.budget!r}")
    if not _is_positive(settings.timeout):
        raise TuningError(f"timeout must be a positive number of seconds, not {settings.timeout!r}")
    return replace(settings, policy=replace(settings.policy, cache=settings.cache))
