"""`TENSORLANG_TEST_CPU=haswell python -m pytest`: "native" is that CPU in the process of each test, with the caches that it has.

A test whose outcome hangs on the CPU that it happens to run on fails on somebody else's machine; this finds it here. The CPU must have no
instruction that is missing here. Processes that tests start run on the machine as it is.
"""

from __future__ import annotations

from dataclasses import replace

from tensorlang.codegen.cache import archive
from tensorlang.codegen.llvm import binding
from tensorlang.codegen.target import calibrated, description
from tensorlang.codegen.target.caches import host_caches
from tensorlang.codegen.target.description import target, why_foreign


def pretend(cpu: str) -> None:
    """From now on the machine of this process is this CPU, under as many cores as there are. Raises `ValueError` where it cannot be."""
    wanted = target(cpu)
    if reason := why_foreign(wanted):
        raise ValueError(f"tests cannot run as on {cpu}: {reason}")
    off = [f"-{name}" for name in sorted(target("native").isa - wanted.isa)]
    machine = binding.TargetMachine(wanted.triple, wanted.cpu, ",".join([wanted.features, *off]))
    caches = replace(wanted.caches, cores=host_caches().cores)
    binding.host = lambda: machine
    for module in (archive, calibrated, description):
        setattr(module, "host_caches", lambda: caches)  # noqa: B010 - each has imported it
    description._parse.cache_clear()
