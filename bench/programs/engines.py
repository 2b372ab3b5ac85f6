"""Who takes part beside us: Numba with the loops of a program, JAX and `torch.compile` with its whole-array form, Halide with pipelines.

Each has one thread. A peer's operands are where it wants them before the clock runs, and a call is over when its results are there. JAX
and torch allocate these in each call, as their users have it; Numba and Halide write into arrays that are there, as we do.
"""

from __future__ import annotations

import functools
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import threadpoolctl

from bench.peers.engines import missing
from bench.peers.supervise import XLA_ON_ONE_THREAD
from bench.peers.worker import told
from bench.programs.halide import calls
from bench.programs.program import Program
from bench.programs.whole import FORMS
from bench.programs.whole.dialects import NoFormError

Call: TypeAlias = Callable[[], Any]
"""Computes the results, and returns them: an array, or a tuple of them, that NumPy can read."""


class Peer(NamedTuple):
    """What a table calls it, what it compiles, the modules that it needs, and how it makes a call of a program."""

    title: str
    subject: str
    modules: tuple[str, ...]
    made: Callable[[Program, Sequence[Any], Sequence[Any]], Call]


def unusable(name: str) -> str | None:
    """Why a peer cannot be used here, if it cannot. It is loaded."""
    if name == "jax":
        os.environ |= {"XLA_FLAGS": f"{XLA_ON_ONE_THREAD} {os.environ.get('XLA_FLAGS', '')}".strip(), "JAX_PLATFORMS": "cpu"}
    if "halide" in PEERS[name].modules:
        os.environ["HL_NUM_THREADS"] = "1"
    return missing(*PEERS[name].modules)


def compiled(name: str, program: Program, given: Sequence[Any], outputs_like: Sequence[Any]) -> Call | str:
    """The call of a peer that is usable, compiled and called once, for operands and results like these; or why there is none."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what they trace
            call = PEERS[name].made(program, given, outputs_like)
            call()
    except NoFormError as error:
        return str(error)
    except Exception as error:  # noqa: BLE001 - a peer may raise anything
        return told(error)
    threadpoolctl.threadpool_limits(1, user_api="blas")  # JAX calls SciPy's, which is loaded by now
    return call


def results(outcome: Any) -> tuple[Any, ...]:
    """What a call returned, as NumPy's arrays."""
    return tuple(map(np.asarray, outcome if isinstance(outcome, tuple | list) else (outcome,)))


def _numba(program: Program, given: Sequence[Any], outputs_like: Sequence[Any]) -> Call:
    """The loops, compiled with fastmath."""
    import numba  # noqa: PLC0415 - an optional peer

    run = numba.njit(fastmath=True, error_model="numpy")(program.loops)
    outputs = tuple(map(np.zeros_like, outputs_like))

    def call() -> tuple[Any, ...]:
        run(*given, *outputs)
        return outputs

    return call


def _jax(program: Program, given: Sequence[Any], _: Sequence[Any]) -> Call:
    """The form, jitted."""
    import jax  # noqa: PLC0415 - an optional peer
    from jax import numpy as jnp  # noqa: PLC0415 - an optional peer

    jax.config.update("jax_cpu_enable_async_dispatch", False)  # else each call is handed to another thread: 30 us more
    run, held = jax.jit(functools.partial(_form(program), jnp)), list(map(jnp.asarray, given))
    return lambda: jax.block_until_ready(run(*held))


def _torch(program: Program, given: Sequence[Any], _: Sequence[Any]) -> Call:
    """The form by Inductor."""
    import torch  # noqa: PLC0415 - an optional peer
    from array_api_compat import torch as namespace  # noqa: PLC0415 - an optional peer
    from torch._inductor import config  # noqa: PLC0415 - an optional peer

    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    config.cpp.threads = config.compile_threads = 1
    torch.compiler.reset()
    form, held = _form(program), list(map(torch.from_numpy, given))
    form(namespace, *held)  # what is no form says so in words of its own, before it is traced
    run = torch.compile(form)
    return lambda: run(namespace, *held)


def _form(program: Program) -> Callable[..., Any]:
    if program.name not in FORMS:
        raise NoFormError("no whole-array form")
    return FORMS[program.name]


PEERS: Final[Mapping[str, Peer]] = {
    "numba": Peer("Numba", "loops with fastmath", ("numba",), _numba),
    "jax": Peer("JAX", "whole arrays", ("jax",), _jax),
    "torch": Peer("torch.compile", "whole arrays", ("torch", "array_api_compat.torch"), _torch),
    "halide": Peer("Halide", "schedules by hand", ("halide",), calls.call),
    "adams2019": Peer("Adams2019", "schedules of Halide", ("halide",), functools.partial(calls.call, automatic="Adams2019")),
    "mullapudi2016": Peer("Mullapudi2016", "schedules of Halide", ("halide",), functools.partial(calls.call, automatic="Mullapudi2016")),
}
