"""Static and shared libraries of an object.

An archive is a short format, written here, so that it needs no tool and its bytes depend on the object alone. A shared library takes a
linker, which comes with any C compiler; it is looked for and named where it is missing.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tensorlang.codegen.target import Target
from tensorlang.errors import BuildError

_MAGIC: Final = b"!<arch>\n"
_PREFIXES: Final = {
    "x86_64": "x86_64-linux-gnu-",
    "aarch64": "aarch64-linux-gnu-",
    "riscv64": "riscv64-linux-gnu-",
    "arm": "arm-linux-gnueabihf-",
    "armv7": "arm-linux-gnueabihf-",
}
"""What compilers for another processor begin with, by Debian's names."""
_SECONDS: Final = 60


def archive(name: str, code: bytes, symbols: Sequence[str]) -> bytes:
    """A static library in the format of System V (`ar(5)`): an index of symbols, and one object."""
    return archive_of([(name, code, symbols)])


def archive_of(objects: Sequence[tuple[str, bytes, Sequence[str]]]) -> bytes:
    """A static library of several objects, each with its name and the symbols that it defines for others."""
    names = [symbol for _, _, symbols in objects for symbol in symbols]
    index_size = 4 + sum(4 + len(symbol) + 1 for symbol in names)
    index_size += index_size % 2
    long_names, starts = b"", list[int]()
    for name, _, _ in objects:
        starts.append(len(long_names))
        long_names += f"{name}.o/\n".encode()
    long_names += b"\n" * (len(long_names) % 2)
    at = len(_MAGIC) + 60 + index_size + 60 + len(long_names)
    members, places = list[bytes](), b""
    for start, (_, code, symbols) in zip(starts, objects, strict=True):
        members.append(_member(f"/{start}", code))
        places += at.to_bytes(4, "big") * len(symbols)
        at += len(members[-1])
    index = len(names).to_bytes(4, "big") + places + b"".join(symbol.encode() + b"\0" for symbol in names)
    return b"".join([_MAGIC, _member("/", index.ljust(index_size, b"\0")), _member("//", long_names), *members])


def _member(name: str, data: bytes) -> bytes:
    head = f"{name:<16}{0:<12}{0:<6}{0:<6}{'100644':<8}{len(data):<10}`\n".encode()
    return head + data + b"\n" * (len(data) % 2)


def shared(name: str, code: bytes, target: Target, more: Sequence[bytes] = ()) -> bytes:
    """A shared library of an object, and of `more` of them. Raises `BuildError` where there is no linker for the target, or it fails."""
    command = _linker(target)
    if command is None:
        prefix = _PREFIXES.get(target.arch)
        if _same_platform(target):
            advice = "install a C compiler (cc; Debian: gcc), or leave out 'so'"
        elif prefix is not None:
            advice = f"install a compiler for it ({prefix}gcc; Debian: gcc-{prefix.rstrip('-').replace('_', '-')}), or leave out 'so'"
        else:
            advice = "leave out 'so', and link 'o' or 'a' where the program is made"
        raise BuildError(f"the kernel {name!r} cannot become a shared library for {target}: there is no linker for it here; {advice}")
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / f"{name}.so"
        made = [Path(folder) / f"{name}.{place}.o" for place in range(1 + len(more))]
        for path, data in zip(made, (code, *more), strict=True):
            path.write_bytes(data)
        try:
            words = [*command, "-shared", "-o", str(library), *map(str, made), "-lm", f"-Wl,-soname,{name}.so", "-Wl,-z,noexecstack"]
            ended = subprocess.run(words, capture_output=True, text=True, errors="replace", timeout=_SECONDS, check=False)
            if ended.returncode == 0:
                return library.read_bytes()
            said = (ended.stderr.strip() or f"exit code {ended.returncode}").splitlines()[-1]
        except (OSError, subprocess.TimeoutExpired) as error:
            said = str(error)
    raise BuildError(f"the kernel {name!r} cannot become a shared library: {command[0]} says {said!r:.300}")


def _linker(target: Target) -> list[str] | None:
    """The command of a compiler that links for a target: `CC` where it is set, else the usual names."""
    native = _same_platform(target)
    named = shlex.split(os.environ.get("CC", "")) if native else []
    if named:
        return named if shutil.which(named[0]) else None
    prefix = _PREFIXES.get(target.arch)
    names = ("cc", "gcc", "clang") if native else (f"{prefix}gcc",) if prefix is not None else ()
    found = next(filter(None, map(shutil.which, names)), None)
    return None if found is None else [found]


def _same_platform(target: Target) -> bool:
    from tensorlang.codegen.llvm import binding  # noqa: PLC0415 - it loads LLVM

    return binding.triple_parts(target.triple) == binding.triple_parts(binding.host().triple)
