"""Where the command writes: what cannot be printed ends no work.

A batch job has a full disk where its output goes, or no output at all (`>&-`, daemons). What it measures goes to the log, that tells of its
own disk; of lines that nobody will read the first failure is kept, and told at the end.
"""

from __future__ import annotations

import io
import os
import sys
from typing import Any, Final

_DESCRIPTORS: Final = range(3)


class _Patient(io.FileIO):
    """A file that takes what it cannot write, unless there is no reader any more."""

    error: OSError | None = None

    def write(self, data: Any, /) -> int:
        """The bytes written, or that should have been. Raises `BrokenPipeError`."""
        try:
            return super().write(data) or 0
        except BrokenPipeError:
            raise
        except OSError as error:
            self.error = self.error or error
            return memoryview(data).nbytes


class StandardOutput:
    """The output of this process, from now on patient; `error` is the first thing that was in its way."""

    def __init__(self) -> None:
        for descriptor in _DESCRIPTORS:  # or the first file that is opened takes the number of one that is closed
            try:
                os.fstat(descriptor)
            except OSError:
                os.open(os.devnull, os.O_RDWR)
        if sys.stderr is None:
            sys.stderr = open(os.devnull, "w")  # noqa: PTH123, SIM115 - until the end
        self._file: _Patient | None = None
        if sys.stdout is None or sys.stdout is sys.__stdout__:
            self._file = _Patient(1, "w", closefd=False)
            told = (sys.stdout.encoding, sys.stdout.errors) if sys.stdout is not None else ("utf-8", "replace")
            sys.stdout = io.TextIOWrapper(io.BufferedWriter(self._file), *told, line_buffering=self._file.isatty())

    @property
    def error(self) -> OSError | None:
        """What could not be written, and why; None where all was."""
        return None if self._file is None else self._file.error
