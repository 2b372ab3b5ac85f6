"""LLVM: text in, optimised code out. The only file that talks to `llvmlite.binding`.

LLVM 22 as shipped in llvmlite 0.50 ends the process on misuse, so every rule of use is kept here and nowhere else: a module is
verified before any pass sees it, lives in a context of its own, and is optimised by a pass manager that is built, run once and
freed; machine code is linked by ORC as a relocatable object, each library in a session of its own, because a session never gives
back the memory of its libraries. Names of CPUs and features must have been checked (see `features`) before they come here: an
unknown one is fatal inside LLVM.

LLVM runs in one thread at a time (`llvmlite` holds a lock around every call). Ours is held across a whole compilation, and a fork waits
for both (see `forks`), so that a child never inherits LLVM in the middle of something: libraries that are unloaded, and whoever else
uses llvmlite in this process, hold only the other one.
"""

from __future__ import annotations

import atexit
import contextlib
import itertools
import logging
import sys
import weakref
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Literal

from tensorlang.codegen.llvm import byte_shuffles
from tensorlang.codegen.llvm.pipelines import DEFAULT_PASSES, Passes, Pipeline, level_of, optimize, pipeline_of
from tensorlang.errors import BuildError, InternalError
from tensorlang.system import forks

if TYPE_CHECKING:
    from types import ModuleType

MAX_TEXT: Final = 8 << 20
"""Largest module text that is given to LLVM, in bytes: beyond it, compile time and memory leave the useful range."""

lock: Final = forks.compiling
"""Held around everything that LLVM does, and around `fork`."""

_log: Final = logging.getLogger("tensorlang")
_libraries: weakref.WeakSet[Library] = weakref.WeakSet()
_serial = itertools.count()


def _their_lock() -> Any:
    """The lock around each call of llvmlite; one that nobody knows where llvmlite is not loaded."""
    ffi = sys.modules.get("llvmlite.binding.ffi")
    return getattr(getattr(ffi, "lib", None), "_lock", None) or contextlib.nullcontext()


forks.wait_for(lambda: _their_lock().__enter__(), lambda: _their_lock().__exit__(None, None, None))


@dataclass(frozen=True, slots=True)
class TargetMachine:
    """What LLVM is told about the processor: triple, CPU and the full feature string."""

    triple: str
    cpu: str
    features: str


@cache
def _llvm() -> ModuleType:
    """`llvmlite.binding`, with the back end of this machine registered; imported on first use because it costs 60 ms."""
    with lock:
        import llvmlite.binding as llvm  # noqa: PLC0415

        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        llvm.initialize_native_asmparser()  # instructions written as such: which processor is this?
    module: ModuleType = llvm
    return module


def _back_end(triple: str) -> Any:
    """LLVM's target for a triple; those of other machines are registered when the first is asked for. Raises `RuntimeError`."""
    llvm = _llvm()
    try:
        return llvm.Target.from_triple(triple)
    except RuntimeError:
        with lock:
            llvm.initialize_all_targets()
            llvm.initialize_all_asmprinters()
        return llvm.Target.from_triple(triple)


def versions() -> dict[str, str]:
    """Versions that decide what an object looks like: llvmlite's and LLVM's."""
    import llvmlite  # noqa: PLC0415

    return {"llvmlite": llvmlite.__version__, "llvm": ".".join(map(str, _llvm().llvm_version_info))}


def host() -> TargetMachine:
    """The processor we run on. Its features count, not its name: a hypervisor may hide some."""
    llvm = _llvm()
    return TargetMachine(llvm.get_process_triple(), llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten())


@cache
def triple_parts(triple: str) -> tuple[str, str]:
    """The architecture and operating system of a triple, as LLVM spells them. Raises `BuildError` for an unknown triple."""
    llvm = _llvm()
    try:
        _back_end(triple)
    except RuntimeError:
        raise BuildError(f"{triple!r} is not a target triple that LLVM knows") from None
    parts = llvm.get_triple_parts(triple)
    return str(parts.Arch), str(parts.OS)


def print_names(triple: str) -> None:
    """Let LLVM write the CPUs and features it knows to standard error (for a process made to be read by another)."""
    _back_end(triple).create_target_machine(cpu="help").close()


def _abi(machine: TargetMachine) -> str:
    """How floating-point values would be passed, which linkers compare between objects; RISC-V alone has to be told."""
    arch = machine.triple.split("-", 1)[0]
    if not arch.startswith("riscv"):
        return ""
    present = {item[1:] for item in machine.features.split(",") if item.startswith("+")}
    return ("lp64" if "64" in arch else "ilp32") + ("d" if "d" in present else "f" if "f" in present else "")


@contextmanager
def _choices_for_x86(triple: str, *features: str) -> Iterator[None]:
    """While this lasts LLVM makes two choices for x86 as our code needs them; the caller holds `lock`, since LLVM has one such switch each.

    *Chosen values stay chosen.* LLVM 22 turns conditional moves in loops back into branches where it estimates that they are predicted
    well, minima of integers among them, for which there is no way to say otherwise. Recurrences choose by data: an edit distance
    mispredicts every other element, and takes 2.5 times as long.

    *Masked loads of AVX-512 stay as they are* (`features` are texts in which those of the functions stand). LLVM 22 puts a masked load into
    a masked instruction that reads it, where the two masks are the same. A shuffle so becomes one of what lies in memory, whole: it takes
    lanes that are off and faults where they are not mapped (llvm-project pull requests 161074, and 178888, which mends it in later
    versions). What was spilled is then loaded by instructions of its own, too: none of them in a hot loop of forty kernels.
    """
    llvm = _llvm()
    switches = {"-x86-cmov-converter": ("false", "true")} if triple.split("-", 1)[0] in ("x86_64", "i386", "i686") else {}
    if any("+avx512f" in told for told in features):
        switches["-disable-spill-fusing"] = "true", "false"
    for name, (ours, _) in switches.items():
        llvm.set_option("", f"{name}={ours}")
    try:
        yield
    finally:
        for name, (_, usual) in switches.items():
            llvm.set_option("", f"{name}={usual}")


@contextmanager
def _module(text: str, machine: TargetMachine, level: int) -> Iterator[tuple[Any, Any]]:
    """A verified module in a context of its own, and its target machine; both are freed at the end."""
    llvm = _llvm()
    if len(text) > MAX_TEXT:
        size = f"{len(text) >> 20} MiB of LLVM IR, the limit is {MAX_TEXT >> 20}"
        raise BuildError(f"the program is too large to compile: {size}; unroll or vectorise less")
    with lock, llvm.create_context() as context:
        selected = _back_end(machine.triple)
        with selected.create_target_machine(
            cpu=machine.cpu, features=machine.features, opt=min(level, 3), reloc="pic", codemodel="default", abiname=_abi(machine)
        ) as target_machine:
            try:
                module = llvm.parse_assembly(text, context)
            except RuntimeError as error:
                raise InternalError(f"LLVM cannot read the generated code: {error}") from None
            with module, _choices_for_x86(machine.triple, machine.features, text):
                module.triple = machine.triple
                module.data_layout = str(target_machine.target_data)
                if (wrong := _why_invalid(module)) is not None:
                    raise InternalError(f"the generated code is not valid: {wrong}")
                yield module, target_machine


@contextmanager
def _optimized(text: str, machine: TargetMachine, passes: Passes, pipeline: Pipeline) -> Iterator[tuple[Any, Any]]:
    """A module as LLVM optimises it, or as it is where that makes invalid code of it; without what it would never come back from.

    LLVM 22's SROA puts what several stores wrote together behind the one of the highest address, which need not be the last one; selecting
    instructions for that ends the process. Looking takes a hundredth of the time that optimising does.
    """
    with _module(text, machine, passes.level) as (module, target_machine):
        optimize(_llvm(), module, target_machine, level_of(text, passes), pipeline)
        wrong = _why_invalid(module)
        source = byte_shuffles.apart(module if wrong is None else text, text, machine.features)
        if wrong is None and source is None:
            yield module, target_machine
            return
    if wrong is not None:
        _log.warning("code for %s is not optimised, since LLVM makes invalid code of it: %s", machine.cpu, wrong.partition("\n")[0])
    with _module(source or text, machine, passes.level) as (module, target_machine):
        if wrong is not None:
            optimize(_llvm(), module, target_machine, replace(passes, level=0), "default")
        yield module, target_machine


def _why_invalid(module: Any) -> str | None:
    try:
        module.verify()
    except RuntimeError as error:
        return str(error)
    return None


@dataclass(frozen=True)
class Compiled:
    """Machine code, and what it was made from: a text that few ask for and that is many times as long, which is kept shrunk."""

    object: bytes
    shrunk: bytes
    machine: TargetMachine
    passes: Passes = DEFAULT_PASSES

    @classmethod
    def of(cls, code: bytes, source: str, machine: TargetMachine, passes: Passes = DEFAULT_PASSES) -> Compiled:
        """Machine code with the LLVM IR that it was made from."""
        return cls(code, zlib.compress(source.encode(), zlib.Z_BEST_SPEED), machine, passes)

    @property
    def source(self) -> str:
        """The LLVM IR. Raises `BuildError` where a file held something else."""
        reader = zlib.decompressobj()
        try:
            text = reader.decompress(self.shrunk, MAX_TEXT).decode()
        except (zlib.error, UnicodeDecodeError) as error:
            raise BuildError(f"what the code was compiled from cannot be read: {error}") from None
        if not reader.eof:
            raise BuildError(f"what the code was compiled from ends too soon, or is beyond {MAX_TEXT:,} bytes")
        return text


def compile_module(text: str, machine: TargetMachine, passes: Passes = DEFAULT_PASSES, *, handwritten: bool = False) -> Compiled:
    """Machine code (a relocatable, position-independent object) for a module of LLVM IR.

    `handwritten`: it was written as it is to run, so that the whole of the pipeline would take long and find nothing.
    Raises `BuildError` for a text beyond `MAX_TEXT` and `InternalError` for one that LLVM refuses.
    """
    with _optimized(text, machine, passes, "short" if handwritten else pipeline_of(text, passes)) as (module, target_machine):
        return Compiled.of(target_machine.emit_object(module), text, machine, passes)


def render(text: str, machine: TargetMachine, form: Literal["llvm", "asm"], passes: Passes = DEFAULT_PASSES, *, whole: bool = False) -> str:
    """What `compile_module` makes of a text, readable: optimised LLVM IR or assembly. `whole`: by the whole pipeline in any case."""
    with _optimized(text, machine, passes, "default" if whole else pipeline_of(text, passes)) as (module, target_machine):
        return str(module) if form == "llvm" else str(target_machine.emit_assembly(module))


def linked(texts: Sequence[str], triple: str) -> str:
    """One module of several, each of which may call what another one defines. Raises `InternalError` for what cannot be one."""
    llvm = _llvm()
    with lock, llvm.create_context() as context:
        try:
            first, *others = (llvm.parse_assembly(text, context) for text in texts)
            with first:
                first.triple = triple
                for other in others:
                    other.triple, other.data_layout = triple, first.data_layout
                    first.link_in(other)
                return str(first)
        except RuntimeError as error:
            raise InternalError(f"modules cannot be linked: {error}") from None


class Library:
    """Linked machine code. It is unloaded when the last reference goes; whoever calls into it holds one."""

    __slots__ = ("__weakref__", "_addresses", "_jit", "_tracker")

    def __init__(self, jit: Any, tracker: Any, addresses: Mapping[str, int]) -> None:
        self._jit = jit
        self._tracker = tracker
        self._addresses = dict(addresses)
        _libraries.add(self)

    def address(self, name: str) -> int:
        """The address of an exported symbol."""
        return self._addresses[name]

    def has(self, name: str) -> bool:
        """Is this one of the exported symbols?"""
        return name in self._addresses

    def __del__(self) -> None:
        """Unload the code before the session that holds it."""
        self._tracker.close()
        self._jit.close()

    def keep(self) -> None:
        """Leave the code loaded for good."""
        self._tracker.detach()
        self._jit.detach()


@atexit.register
def _keep_all() -> None:
    """At exit a daemon thread may still run a kernel: leave unmapping to the operating system.

    It may compile one, too, while what LLVM keeps in static variables is taken down: wait for that, and let no thread begin again.
    """
    lock.acquire()
    for library in list(_libraries):
        library.keep()


def link(code: bytes, exports: tuple[str, ...], symbols: Mapping[str, int]) -> Library:
    """Load an object into this process and find the addresses of `exports`.

    `symbols` holds the address of every external symbol of the object. The bytes are trusted: check a digest before. Raises
    `BuildError` where linking fails.
    """
    llvm = _llvm()
    with (
        lock,
        _back_end(llvm.get_process_triple()).create_target_machine(reloc="pic", codemodel="default", jit=True) as target_machine,
    ):
        jit = llvm.create_lljit_compiler(target_machine, use_jit_link=True, suppress_errors=True)
        builder = llvm.JITLibraryBuilder().add_object_img(code)
        for name, address in symbols.items():
            builder.import_symbol(name, address)
        for name in exports:
            builder.export_symbol(name)
        try:
            tracker = builder.link(jit, f"tensorlang.{next(_serial)}")
        except RuntimeError as error:
            jit.close()
            raise BuildError(f"the machine code of {', '.join(exports)} cannot be linked: {error}") from None
        return Library(jit, tracker, {name: tracker[name] for name in exports})
