"""Linking against this process: which symbols an object needs, and where they are.

The names are read from the object itself, not from the module it was compiled from, because LLVM adds calls of its own (`memset`,
`fmodf`, half precision conversions). Only those are looked up, so no other symbol of the process is visible to generated code.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from tensorlang.codegen.llvm import binding
from tensorlang.codegen.runtime import c_library, workers, workspaces
from tensorlang.codegen.runtime.threads import COUNTER_SYMBOL, counter_address
from tensorlang.errors import BuildError


class _Form(NamedTuple):
    """Where an object of 32 or 64 bits has what: the place of the section table and of its count, and how an entry is laid out."""

    word: str
    table: int
    amount: int
    header: str
    symbol: str
    section: int


_FORMS: Final = {
    b"\x7fELF\x02\x01": _Form("<Q", 0x28, 0x3A, "<IIQQQQIIQQ", "<IBBHQQ", 3),
    b"\x7fELF\x01\x01": _Form("<I", 0x20, 0x2E, "<IIIIIIIIII", "<IIIBBH", 5),
}
_SYMBOL_TABLE: Final = 2
_UNDEFINED: Final = 0


def undefined_symbols(code: bytes) -> tuple[str, ...]:
    """Names that an object refers to and does not define, sorted. Raises `BuildError` for what is no object."""
    return tuple(sorted(name for name, section in _symbols(code) if section == _UNDEFINED and name != "_GLOBAL_OFFSET_TABLE_"))


def defined_symbols(code: bytes) -> frozenset[str]:
    """Names that an object defines. Raises `BuildError` for what is no object."""
    return frozenset(name for name, section in _symbols(code) if section != _UNDEFINED)


def _symbols(code: bytes) -> set[tuple[str, int]]:
    """The names in the symbol tables of a little-endian ELF object, each with its section."""
    form = _FORMS.get(code[:6])
    if form is None:
        raise BuildError("machine code is read from little-endian ELF objects only (Linux on x86-64 or Arm)")
    names: set[tuple[str, int]] = set()
    read = 0
    try:
        (table,) = struct.unpack_from(form.word, code, form.table)
        size, count = struct.unpack_from("<HH", code, form.amount)
        sections = [struct.unpack_from(form.header, code, table + n * size) for n in range(count)]
        for _, kind, _, _, offset, length, strings, *_ in sections:
            if kind == _SYMBOL_TABLE:
                text = sections[strings][4]
                read += length
                if read > len(code):  # tables that lie on one another
                    raise ValueError(f"symbol tables of {read} bytes in {len(code)}")  # noqa: TRY301 - reported as any other
                step = struct.calcsize(form.symbol)
                for at in range(offset + step, offset + length, step):  # the first entry is always empty
                    found = struct.unpack_from(form.symbol, code, at)
                    name, section = found[0], found[form.section]
                    if name:
                        names.add((code[text + name : code.index(b"\0", text + name)].decode(), section))
    except (struct.error, IndexError, ValueError, OverflowError) as error:
        raise BuildError(f"the machine code is damaged: {error}") from None
    return names


def address_of(name: str, threads: int | None = None) -> int:
    """Where a symbol is in this process; `threads` is a number of the code's own. Raises `BuildError` for one that no library has."""
    if name == COUNTER_SYMBOL:
        return counter_address(threads)
    if name in workspaces.SYMBOLS:
        return workspaces.address(name)
    if name in workers.SYMBOLS:
        return workers.workers().address(name)
    return c_library.address(name)


def load_object(code: bytes, exports: tuple[str, ...], threads: int | None = None) -> binding.Library:
    """An object linked into this process, with exactly the symbols that it names. Raises `BuildError` where one is missing.

    Its parallel loops use so many `threads`, or where None the number of the process.
    """
    outside = undefined_symbols(code)
    library = binding.link(code, exports, {name: address_of(name, threads) for name in outside})
    if not set(outside).isdisjoint(workspaces.SYMBOLS):
        workspaces.released_with(library)
    return library
