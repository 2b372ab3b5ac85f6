"""A measurement in a process of its own, which prints one JSON value as its last line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]


def run(*arguments: object, env: Mapping[str, str] | None = None) -> Any:
    """What `python arguments...` prints, run in the root of the checkout.

    Raises `CalledProcessError` where it fails; its stderr goes to ours.
    """
    return json.loads(text(*arguments, env=env).splitlines()[-1])


def text(*arguments: object, env: Mapping[str, str] | None = None) -> str:
    """All that `python arguments...` prints, in the same way."""
    command = [sys.executable, *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, env=dict(os.environ if env is None else env), stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout
