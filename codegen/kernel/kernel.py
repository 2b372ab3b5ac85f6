"""A kernel: a compiled operator that is called like a function, saved to a file, and made into others.

One that is loaded needs no compiler: what compiles is imported where something is compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tensorlang.codegen.cache import archive
from tensorlang.codegen.cache.signature import Signature
from tensorlang.codegen.calling.runnable import Runnable
from tensorlang.codegen.runtime.threads import get_threads
from tensorlang.errors import CallError
from tensorlang.system.object_cache import ObjectCache

if TYPE_CHECKING:
    from tensorlang.codegen.compilation import Request
    from tensorlang.codegen.reports.report import Report
    from tensorlang.codegen.target import Target


class Kernel(Runnable):
    """A compiled operator.

    `kernel(*inputs, out=None, **dims)` takes the inputs in order (or by name) and returns the outputs: a new array, a tuple of them
    where there are several, or what `out=` gave. `workspace=` hands over memory for intermediates, at least `workspace_bytes` from a cache
    line on; without it the process keeps some. `threads=` is how many this call uses; results have the same bits for any number. Raises
    `CallError`, naming the argument, for anything that it cannot take; the outputs are then untouched. A kernel for another machine can
    be looked into and saved, not called.
    """

    __slots__ = ()

    @property
    def threads(self) -> int:
        """How many threads parallel loops use: the kernel's own number (`kernels.compile(..., threads=)`), else that of the process.

        Results have the same bits for any number.
        """
        return get_threads() if self.program.threads is None else self.program.threads

    def prepack(self, /, **constants: Any) -> Kernel:
        """A kernel in which these inputs are fixed to what they hold now, packed once: `f.prepack(B=b)(a)` is `f(a, b)`.

        How they are packed is found out once for a kernel; after that only the packing itself takes time. An array that is read-only, and
        has no gaps, is not copied to be packed, and one that is mapped read-only not at all.
        Raises `CallError` for a name that is no input and for an array that a call would refuse.
        """
        from tensorlang.codegen.kernel.prepack import prepack  # noqa: PLC0415 - few calls ask

        return prepack(self.program, self.library, constants, type(self))

    def repack(self, /, **constants: Any) -> Kernel:
        """A kernel with the same code on other weights: `f.prepack(B=b).repack(B=c)` is `f.prepack(B=c)`, and nothing is built.

        This kernel stays as it is, so that calls which run go on. Raises `CallError` for a name that `prepack` did not fix and for an array
        that a call would refuse; a packed kernel that was loaded from a file does not know how its weights were packed.
        """
        from tensorlang.codegen.kernel.prepack import repack  # noqa: PLC0415 - few calls ask

        return repack(self, constants, type(self))

    def under(self, signature: Signature) -> Kernel:
        """The same code, at the same address, for a caller who knows it by another signature (see `Signature.under`).

        Raises `CallError` for what is no signature of as many arguments.
        """
        ours = self.program.signature
        if not isinstance(signature, Signature) or len(signature.inputs) != len(ours.inputs) or len(signature.outputs) != len(ours.outputs):
            raise CallError(f"{signature!r:.100} is no signature of {ours}")
        return Kernel(self.program.under(signature), self.library)

    def report(self, /, *inputs: Any, repeats: int = 10, **keywords: Any) -> Report:
        """What the kernel does, how fast it is on this machine, and what bounds it.

        Without arrays it makes operands of its own; dims are then given by keyword. Time and the machine's peaks are measured, the
        peaks once in a process, so the first report takes about a second. Raises `CallError` as a call does, and for a missing dim.
        """
        from tensorlang.codegen.reports.make import make  # noqa: PLC0415 - few calls ask

        return make(self, inputs, repeats, keywords)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the kernel to a file, whole or not at all. Raises `BuildError` where that fails."""
        archive.write(self.program, path)

    def export(
        self,
        directory: str | PathLike[str],
        formats: Sequence[str] = ("o", "h", "so", "a", "c", "ll", "s", "json"),
        targets: Sequence[str | Target] = (),
    ) -> dict[str, Path]:
        """Write the kernel as files for programs without Python, `directory/name.format`, all or none; the paths by format.

        "o" is an object, "a" and "so" libraries, "h" their header (C99 and C++), "c" the kernel as C source, "ll" and "s" LLVM IR and
        assembly to read, "json" what is known of it. `targets`: several levels of x86-64 in one library, of which each call takes the
        best that the processor has. Raises `BuildError` for a folder that cannot be written, an unknown format, a name that C or C++
        reserves, a missing linker, fixed operands beyond two MiB, and what a format cannot say.
        """
        from tensorlang.codegen.export.export import export  # noqa: PLC0415 - few kernels are exported

        return export(self.program, directory, formats, targets)

    def _repr_html_(self) -> str:
        from tensorlang.system import markup  # noqa: PLC0415 - for notebooks alone

        told = [
            ("C", self.signature),
            ("target", str(self.target)),
            ("schedule", ": ".join(filter(None, (self.provenance, self.provenance_reason)))),
            ("workspace", f"{self.workspace_bytes:,} bytes" if self.workspace_bytes else ""),
        ]
        return markup.display(markup.title(str(self.program.signature)), markup.facts(told), markup.nest(self.program.nest))

    def __reduce__(self) -> tuple[Callable[[bytes], Kernel], tuple[bytes]]:
        """A kernel that is copied, or sent to a worker, is built again from its own file format."""
        return _from_bytes, (archive.encode(self.program),)


_kernels: Final[ObjectCache[Kernel]] = ObjectCache()


def cached_kernel(request: Request) -> Kernel:
    """The kernel of a program that is wanted, the one that was made before if it is there. Raises `BuildError`."""
    if request.bound:
        return Kernel(request.program())
    name = f"{request.name} {request.origin.threads} {request.reason}"  # the same code, on other threads, for another reason
    return _kernels.get(name, lambda: Kernel(request.program()))


def forget() -> None:
    """Forget what was built in this process; files stay."""
    from tensorlang.codegen import compilation  # noqa: PLC0415 - the compiler is the slow import

    _kernels.clear()
    compilation.forget()


def _from_bytes(data: bytes) -> Kernel:
    return Kernel(archive.decode(data))
