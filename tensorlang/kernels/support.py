"""Can you, and if not why: the question that a partitioner asks of every node."""

from __future__ import annotations

from dataclasses import dataclass

from tensorlang.kernels.wanted import defined
from tensorlang.ops.spec import Spec


@dataclass(frozen=True, slots=True)
class Support:
    """Truthy where a kernel can be made; else `reason` says why not, in one sentence."""

    reason: str = ""

    def __bool__(self) -> bool:
        return not self.reason


def supports(spec: Spec) -> Support:
    """Is there a kernel of a spec? What is said of one spec is kept: it is defined once in a process, and a kernel uses that."""
    if not isinstance(spec, Spec):
        return Support(f"a kernels.Spec is asked for, not {spec!r:.60}")
    found = defined(spec)
    return Support(found) if isinstance(found, str) else Support()
