"""A candidate some of whose arguments stay fixed: these are packed when arrays are bound, so that a timed call finds them as they are.

It travels as the code that packs each of them, step by step, and the code that reads what that gives; the worker that measures has the
arrays. Packing them costs nothing that is timed, as in a kernel that `prepack` made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from tensorlang.autotune.measurement.arrays import Array


class Packed:
    """Code, and what packs the arguments in some places of it."""

    def __init__(self, code: Any, packers: Mapping[int, tuple[Any, ...]]) -> None:
        self.code = code
        self.packers = packers

    @classmethod
    def of(cls, kernel: Any, places: tuple[int, ...]) -> Packed:
        """A kernel with the arguments in these places fixed. Raises `BuildError`."""
        from tensorlang.codegen.kernel.kernel import Kernel  # noqa: PLC0415 - the compiler is the slow import
        from tensorlang.codegen.kernel.packing import packing_of  # noqa: PLC0415

        origin = kernel.program.origin
        assert origin is not None, "it was built here"
        packing = packing_of(kernel.program, origin, places, Kernel)
        names = [argument.name for argument in kernel.program.compiled_as.inputs]
        return cls(packing.code, {place: tuple(step.packer for step in packing.steps[names[place]]) for place in places})

    def bind(self, *arguments: Array, out: Any, **dims: int) -> Callable[[], object]:
        """A call without arguments on these arrays; those that stay fixed are packed now."""
        given = [self._packed(place, array) for place, array in enumerate(arguments)]
        call: Callable[[], object] = self.code.bind(*given, out=out, **dims)
        return call

    def _packed(self, place: int, array: Array) -> Array:
        from tensorlang.codegen.kernel.packing import packed_by  # noqa: PLC0415

        for packer in self.packers.get(place, ()):
            array = packed_by(packer, array)
        return array

    def cost(self, **dims: int) -> Mapping[str, float]:
        """Operations and bytes of one call."""
        found: Mapping[str, float] = self.code.cost(**dims)
        return found

    def encoded(self) -> bytes:
        """All of it as bytes with their digests."""
        from tensorlang.codegen.cache.archive import encode  # noqa: PLC0415

        parts = {place: [encode(packer.program) for packer in packers] for place, packers in self.packers.items()}
        return msgspec.msgpack.encode((encode(self.code.program), parts))

    @classmethod
    def decoded(cls, data: bytes) -> Packed:
        """What the bytes hold. Raises `BuildError` where they are damaged, or not for this machine."""
        from tensorlang.codegen.cache.archive import decode  # noqa: PLC0415
        from tensorlang.codegen.kernel.kernel import Kernel  # noqa: PLC0415
        from tensorlang.errors import BuildError  # noqa: PLC0415

        try:
            code, parts = msgspec.msgpack.decode(data, type=tuple[bytes, dict[int, list[bytes]]])
        except msgspec.MsgspecError as error:
            raise BuildError(f"a packed candidate is damaged: {error}") from None
        packers = {place: tuple(Kernel(decode(packer)) for packer in given) for place, given in parts.items()}
        return cls(Kernel(decode(code)), packers)
