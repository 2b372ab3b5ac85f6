"""What stand-ins would come to, without a process: for whatever is about the job alone."""

from collections.abc import Sequence

import msgspec

from tensorlang.autotune.log.status import Failure
from tensorlang.autotune.measurement import host
from tensorlang.autotune.workers.protocol import Candidate, Facts, Outcome


class Answering:
    """An evaluator that answers for candidates at once, as their configurations say."""

    capacity = 2

    def __init__(self, *_: object, **__: object) -> None:
        self.machine, self._sent = host.machine(), list[tuple[str, Candidate]]()

    def open(self, task: object) -> None: ...

    def close(self) -> None:
        self._sent.clear()

    def submit(self, key: str, candidate: Candidate) -> None:
        self._sent.append((key, candidate))

    def next(self, _until: float | None) -> tuple[str, Outcome]:
        key, candidate = self._sent.pop(0)
        return key, self._outcome(candidate)

    def paired(self, candidates: Sequence[Candidate], _until: float | None) -> Outcome:
        return Outcome("ok", rows=tuple(msgspec.structs.replace(self._outcome(one).facts, runs=(5,)) for one in candidates))

    def _outcome(self, candidate: Candidate) -> Outcome:
        config = candidate.config or {}
        if config.get("run") == "raise":
            return Outcome("crash", error=Failure("RuntimeError", "as told"))
        if config.get("run") == "wrong":
            return Outcome("wrong_result", error=Failure("Wrong", "as told"))
        return Outcome("ok", facts=Facts(schedule="{}", compile_s=1e-4, run_s=1e-3, samples=(config.get("takes", 1e-5),) * 5, number=1))
