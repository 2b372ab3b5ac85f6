"""What schedules and storage take every machine to have, so that a schedule means the same on all of them.

What differs between machines (registers, caches, instructions) is asked of a target, in `codegen/target`.
"""

from __future__ import annotations

from typing import Final

LINE_BYTES: Final = 64
"""A cache line of x86-64 and of most Arm cores, and the widest vector register (AVX-512): what starts at one is never split."""
PAGE_BYTES: Final = 4096
"""The smallest page of memory: no alignment is of more use."""
MAX_LANES: Final = 2 * LINE_BYTES
"""Lanes of a vector loop or an operand of an instruction: bytes in two of the widest registers."""
