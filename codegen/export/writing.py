"""The files of an export, all or none."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from os import PathLike
from pathlib import Path

from tensorlang.errors import BuildError
from tensorlang.system import files


def written(directory: str | PathLike[str], contents: Mapping[str, tuple[str, bytes]], subject: str) -> dict[str, Path]:
    """Write a file of a name and bytes for each format; the paths by format. Raises `BuildError`: `subject` cannot be exported."""
    try:
        folder = Path(directory)
        folder.mkdir(parents=True, exist_ok=True)
        with contextlib.ExitStack() as together:
            for name, held in contents.values():
                together.enter_context(files.replacing(folder / name)).write(held)
        return {form: folder / name for form, (name, _) in contents.items()}
    except (OSError, TypeError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise BuildError(f"{subject} cannot be exported to {str(directory)!r:.200}: {reason}") from None
