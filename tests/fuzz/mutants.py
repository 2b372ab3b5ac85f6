"""Faults that can be injected into the compiler: each weakens one thing, as a hasty change might.

A row is a name, what is wrong with the compiler, and a function that makes it so in this process. Faults replace one function by a
wrapper or one value by another; the sources stay as they are.
"""

from __future__ import annotations

from typing import Final

from .faulty_code import CODE
from .faulty_steps import STEPS
from .weaken import Fault

FAULTS: Final[dict[str, Fault]] = {**CODE, **STEPS}
