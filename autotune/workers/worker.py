"""The disposable process: builds candidates, or checks and times them, and may die of any of them.

    python -m tensorlang.autotune.workers.worker SOCKET PARENT MEMORY CORES

It dies with its parent and before it where memory runs out, leaves no core file, may use so much memory and no more, and speaks on a
socket that candidates do not know. It is told a task once and then candidates; it says which phase it is in, so that the parent, which
owns every deadline, can tell a compilation that does not end from a kernel that does not.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Literal

from tensorlang.autotune.log.status import Failure, Status
from tensorlang.autotune.workers.builder import Builder, Wrong
from tensorlang.autotune.workers.channel import Channel, Closed
from tensorlang.autotune.workers.isolation import served
from tensorlang.autotune.workers.protocol import Build, Measure, Outcome, Paired, Request, Take, read_request

if TYPE_CHECKING:
    from tensorlang.autotune.workers.measurer import Measurer


def serve(channel: Channel[Request]) -> None:
    """Answer requests until the parent hangs up."""
    builder: Builder | None = None
    measurer: Measurer | None = None
    while True:
        request = channel.receive()
        try:
            match request:
                case Take(task):
                    builder = Builder(task, channel)
                    builder.kernels.warm(task)
                    if task.measures:
                        from tensorlang.autotune.workers.measurer import Measurer  # noqa: PLC0415 - builders measure nothing

                        measurer = Measurer(task, builder)
                    answer = Outcome("ok")
                case Build(candidate) if builder is not None:
                    answer = Outcome("ok", builder.build(candidate))
                case Measure(candidate, kernel) if measurer is not None:
                    answer = Outcome("ok", measurer.trial(candidate, kernel))
                case Paired(candidates, kernels, seconds) if measurer is not None:
                    answer = Outcome("ok", rows=measurer.paired(candidates, kernels, seconds))
                case _:
                    answer = _failure("infra", ValueError(f"a request without its task: {type(request).__name__}"))
        except Wrong as error:
            answer = _failure("wrong_result", error)
        except MemoryError as error:
            answer = _failure("oom", error)
        except Closed:
            raise
        except Exception as error:  # noqa: BLE001 - whatever a candidate raises is its outcome
            answer = _failure("error", error)
        channel.send(answer)


def _failure(status: Status | Literal["error"], error: Exception) -> Outcome:
    return Outcome(status, error=Failure(type(error).__name__, str(error)[:500]))


if __name__ == "__main__":
    served(sys.argv[1:], read_request, serve)
