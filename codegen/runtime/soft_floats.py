"""Does machine code compute floating point in software? A processor without such instructions has the compiler's library called.

Those functions are slow, some are not in any library before C23, and none is called where a kernel says what it costs. What an object
calls is read from the object itself. Products and quotients of 64-bit integers, and conversions of these, are functions on any 32-bit
processor, of libraries that come with each compiler.
"""

from __future__ import annotations

import re
from typing import Final

from tensorlang.codegen.runtime import symbols

_ELF: Final = b"\x7fELF"
_SOFT: Final = re.compile(
    r"""
    __(?:add|sub|mul|div|neg|eq|ne|lt|le|gt|ge|unord|cmp)[sd]f[23]
    | __extendsfdf2 | __truncdfsf2 | __fix(?:uns)?[sd]fsi | __float(?:un)?si[sd]f
    | __aeabi_[fd](?:add|sub|rsub|mul|div|neg|cmp\w*) | __aeabi_(?:f2d|d2f|[fd]2u?iz|u?i2[fd])
    | fminimum\w* | fmaximum\w* | roundeven[fl]?
    """,
    re.VERBOSE,
)


def missing(code: bytes) -> list[str]:
    """The functions that an object calls for want of instructions. WebAssembly has all that there are."""
    return [name for name in symbols.undefined_symbols(code) if _SOFT.fullmatch(name)] if code.startswith(_ELF) else []
