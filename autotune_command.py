"""Where the `autotune` command begins. It stands outside the package, whose import takes a few tenths of a second, and listens before that.

A signal that arrives meanwhile would be an exception in the middle of some import, which may swallow it or show it as a traceback. So the
process ends in the handler, with the line and the code that the command has for it. `cli.main` then listens in its own way.
"""

import os
import signal
from types import FrameType
from typing import NoReturn

STOPPED = 130


def _stop(_number: int, _frame: FrameType | None) -> NoReturn:
    os.write(2, b"autotune: stopped\n")
    os._exit(STOPPED)


def main() -> None:
    """Run the command and exit with its code."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:  # as under nohup
            signal.signal(number, _stop)
    from tensorlang.autotune.cli.main import main as command  # noqa: PLC0415 - see above

    command()


if __name__ == "__main__":
    main()
