"""Memory that a call hands over for its intermediates: `kernel(..., workspace=buffer)`.

A planner lays out the memory of a whole graph, that of intermediates with it. Anything that is writable and contiguous is taken, of any
type and shape: its first bytes, as many as the kernel needs, are scribbled on while the call runs. Calls at one time need one each.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from tensorlang.codegen.cache.signature import Signature
from tensorlang.codegen.calling.arguments import WORKSPACE, Invocation
from tensorlang.codegen.runtime import arrays
from tensorlang.errors import CallError
from tensorlang.ir.machine import LINE_BYTES

ALIGNMENT: Final = LINE_BYTES
"""Where a workspace has to begin: at a cache line."""


class Room(NamedTuple):
    """The bytes that a call on one thread needs, and what each further thread adds."""

    single: int
    share: int

    def on(self, threads: int) -> int:
        """The bytes that a call on so many threads needs."""
        return self.single + (threads - 1) * self.share

    def told(self, threads: int) -> str:
        """On how many threads, where that matters."""
        return "" if not self.share else " on 1 thread" if threads == 1 else f" on {threads} threads"


def taken(signature: Signature, keywords: dict[str, Any], keyword: str = WORKSPACE) -> Any:
    """The workspace among the keywords of a call, which are left without it; None where there is none.

    An operand or a dim of that name is meant first. The same for any other `keyword` of calls.
    """
    if keyword not in keywords or keyword in signature.dims or any(part.name == keyword for part in signature.inputs):
        return None
    return keywords.pop(keyword)


def checked(signature: Signature, invocation: Invocation, value: Any, room: Room, threads: int) -> Invocation:
    """The call with a workspace. Raises `CallError` that names it, what it is and what is needed; nothing was written by then."""
    where = f"{signature.name}: workspace="
    if isinstance(value, (bool, int, float)):
        raise CallError(f"{where} takes memory, a buffer of kernel.workspace_bytes, not {value!r:.60}")
    array = arrays.as_array(value, where)
    needed = room.on(threads)
    told = f"{where} is {array.nbytes} bytes ({array.dtype}{list(array.shape)}); a call{room.told(threads)} needs {needed}"
    if not array.flags.writeable:
        raise CallError(f"{told}, writable, and this is read-only")
    if array.dtype.hasobject:
        raise CallError(f"{told}, of plain bytes, and this holds objects")
    if not array.flags.forc:
        raise CallError(f"{told}, contiguous, and this has strides {array.strides}")
    if array.nbytes < needed:
        raise CallError(f"{told} (kernel.workspace_bytes)")
    if not needed:
        return invocation
    start = arrays.address(array)
    if start % ALIGNMENT:
        raise CallError(f"{told}, from an address that is a multiple of {ALIGNMENT}, and this begins at {start:#x}")
    for part, operand in zip((*signature.inputs, *signature.outputs), invocation.arrays, strict=True):
        first = arrays.address(operand)
        if max(start, first) < min(start + needed, first + arrays.span(operand)):
            raise CallError(f"{told}, apart from every argument, and these overlap {part.name!r} in memory")
    return replace(invocation, workspace=(start, threads), arrays=(*invocation.arrays, _bytes(array)))


def _bytes(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The memory as an array that a call can be bound to in machine code."""
    return array.reshape(-1, order="A").view(np.uint8)


def plain(invocation: Invocation) -> Mapping[str, npt.NDArray[Any]]:
    """The workspace of a checked call as a keyword."""
    return {} if invocation.workspace is None else {WORKSPACE: invocation.arrays[-1]}
