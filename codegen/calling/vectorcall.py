"""Kernel objects whose call is machine code: the Python side of `vectorcall_ir`.

A class may say that its instances hold the address of their own call function (CPython's vectorcall). `fast_class` derives such a
class from an ordinary one, with room for two addresses in each instance: the shared entry, and the table that tells it about this
instance. As long as the first is zero, CPython calls the ordinary `__call__`.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Mapping
from functools import cache
from itertools import chain
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from tensorlang.codegen.cache.signature import Argument, Signature
from tensorlang.codegen.calling import entry_table, handed, results_ir, vectorcall_ir
from tensorlang.codegen.calling.arguments import WORKSPACE
from tensorlang.codegen.calling.handwritten import linked
from tensorlang.codegen.llvm import binding
from tensorlang.codegen.llvm.linked_once import LinkedOnce
from tensorlang.codegen.runtime import arrays, exchange
from tensorlang.definition.extent import MAX_EXTENT
from tensorlang.ir import Dim
from tensorlang.ir.dtype import DType
from tensorlang.ir.linear import quotient

_CONTIGUOUS: Final = 0x0001
_ALIGNED: Final = 0x0100
_WRITEABLE: Final = 0x0400
_POINTER: Final = ctypes.sizeof(ctypes.c_void_p)
_MEMORY: Final = Argument(WORKSPACE, (Dim("size"),), DType("uint8"))
"""The workspace that the entry takes: bytes, as many as there are."""
_OBJECTS: Final[dict[str, object]] = {
    "numpy_ndarray": np.ndarray,
    "numpy_empty": np.empty,
    "empty_aligned": arrays.empty_aligned,
    "out_name": sys.intern("out"),
    "workspace_name": sys.intern(WORKSPACE),
    "python_tuple": tuple,
    "py_false": False,
    "py_none": None,
}


class Callee(Protocol):
    """What a call in machine code comes down to: a function, its arguments, and what is called where a call is not plain."""

    @property
    def signature(self) -> Signature:
        """The arguments of the function."""

    @property
    def bound(self) -> Mapping[str, npt.NDArray[Any]]:
        """Inputs that are fixed, by name."""

    @property
    def address(self) -> int:
        """The function."""

    @property
    def within(self) -> int:
        """The function that takes a workspace, or 0."""

    @property
    def workspace(self) -> handed.Room:
        """What that needs."""

    @property
    def counter(self) -> int:
        """The address of the number of threads."""

    @property
    def by_array(self) -> bool:
        """Does the function take an array of words and their number, and not the words themselves?"""

    @property
    def fail(self) -> Callable[[], Any]:
        """What raises where the function failed; it must not refer to the instance."""

    def __call__(self, /, *args: Any, **keywords: Any) -> Any:
        """The careful call."""


class _Member(ctypes.Structure):
    """`PyMemberDef`."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("type", ctypes.c_int),
        ("offset", ctypes.c_ssize_t),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


class _Slot(ctypes.Structure):
    """`PyType_Slot`."""

    _fields_ = (("slot", ctypes.c_int), ("value", ctypes.c_void_p))


class _Spec(ctypes.Structure):
    """`PyType_Spec`."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("basicsize", ctypes.c_int),
        ("itemsize", ctypes.c_int),
        ("flags", ctypes.c_uint),
        ("slots", ctypes.POINTER(_Slot)),
    )


_READONLY: Final = 1
_SSIZE: Final = 19  # Py_T_PYSSIZET
_MEMBERS_SLOT: Final = 72  # Py_tp_members
_FLAGS: Final = 1 << 18 | 1 << 11  # Py_TPFLAGS_DEFAULT, Py_TPFLAGS_HAVE_VECTORCALL


@cache
def fast_class(ordinary: type) -> type:
    """A subclass whose instances can be given a call in machine code by `install`; the class itself where that cannot work here."""
    if ordinary in _made or not _layout_is_known():
        return ordinary
    size = ordinary.__basicsize__
    members = (_Member * 2)(_Member(b"__vectorcalloffset__", _SSIZE, size, _READONLY, None), _Member())
    slots = (_Slot * 2)(_Slot(_MEMBERS_SLOT, ctypes.addressof(members)), _Slot())
    name = f"{ordinary.__module__}.{ordinary.__qualname__}".encode()
    spec = _Spec(name, size + 2 * _POINTER, 0, _FLAGS, slots)
    make = ctypes.pythonapi.PyType_FromSpecWithBases
    make.restype, make.argtypes = ctypes.py_object, [ctypes.POINTER(_Spec), ctypes.py_object]
    derived: type = make(ctypes.byref(spec), (ordinary,))
    _made[derived] = (members, slots, spec, name)
    return derived


_made: Final[dict[type, object]] = {}
"""The classes that `fast_class` made, with the descriptions that they may still refer to."""


def _layout_is_known() -> bool:
    """Whether objects and arrays look as `vectorcall_ir` reads them: checked on a real array."""
    # the "t" of a build without the interpreter lock; sysconfig would know too, but reads a file of 60 KB first
    if sys.implementation.name != "cpython" or "t" in sys.abiflags or _POINTER != 8:
        return False
    array = np.zeros((3, 5), np.float32)
    start = id(array) + entry_table.HEADER

    def word(field: str, kind: Any) -> int:
        return int(kind.from_address(start + entry_table.FIELDS[field]).value or 0)

    shape = (ctypes.c_ssize_t * 2).from_address(word("shape", ctypes.c_void_p))
    return (
        ctypes.c_void_p.from_address(start - _POINTER).value == id(np.ndarray)
        and word("data", ctypes.c_void_p) == arrays.address(array)
        and word("ndim", ctypes.c_int) == array.ndim
        and tuple(shape) == array.shape
        and tuple((ctypes.c_ssize_t * 2).from_address(word("strides", ctypes.c_void_p))) == array.strides
        and word("dtype", ctypes.c_void_p) == id(np.dtype(np.float32))
        and word("flags", ctypes.c_int) & (flags := _CONTIGUOUS | _ALIGNED | _WRITEABLE) == flags
    )


@LinkedOnce
def _linked_vectorcall(table_offset: int, by_array: bool) -> tuple[int, binding.Library]:
    """The address of the compiled entry, and what keeps it loaded."""
    functions = {name: ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0 for name in vectorcall_ir.PYTHON_FUNCTIONS}
    libc = {"memcpy": ctypes.cast(ctypes.CDLL(None).memcpy, ctypes.c_void_p).value or 0}
    objects = {name: id(value) for name, value in _OBJECTS.items()} | {vectorcall_ir.EXPORTERS: exchange.address()}
    library = linked(vectorcall_ir.entry_module(table_offset, by_array=by_array), ("entry",), functions | objects | libc)
    return library.address("entry"), library


def install(kernel: object, caller: Callee) -> tuple[object, ...]:
    """Give an instance of a fast class its call in machine code; what is returned has to live as long as the instance.

    `caller` gets every call that is not plain. Empty where the kernel is beyond what the entry can do: its `__call__` then stays.
    """
    signature, bound = caller.signature, caller.bound
    slots = {name: at for at, name in enumerate(signature.dims)}
    count = len(signature.inputs) + len(signature.outputs) + len(signature.dims)
    most = results_ir.MOST_VALUES if caller.by_array else results_ir.MAX_VALUES
    if type(kernel) not in _made or count > most or signature.products:
        return ()
    forms = (quotient(extent) for argument in signature.inputs for extent in argument.shape)
    if not {form.told for form in forms if form is not None}.issuperset(signature.dims):
        return ()
    limits = {name: (least, most) for name, least, most in signature.limits}
    labels = [sys.intern(part.name) for part in signature.passed if part.name not in bound]
    places = {name: at for at, name in enumerate(labels)}
    lies = {part.name: _words(list(part.strides)) for part in (*signature.inputs, *signature.outputs) if part.strides}
    described = [
        _spec(part, slots, limits, bound.get(part.name), places.get(part.name, 0), steps=lies.get(part.name)) for part in signature.inputs
    ]
    described += [_spec(part, slots, limits, written=True, steps=lies.get(part.name)) for part in signature.outputs]
    described.append(_spec(_MEMORY, {"size": 0}, {}, written=True))
    specs = [spec for spec in described if spec is not None]
    if len(specs) < len(described):
        return ()
    memory = specs.pop()
    sizes = [len(labels), len(signature.inputs), len(signature.outputs), len(signature.dims)]
    room = [caller.within, ctypes.addressof(memory), *caller.workspace, caller.counter]
    table = _words([caller.address, id(caller), id(caller.fail), *sizes, *room, *map(ctypes.addressof, specs), *map(id, labels)])
    size = type(kernel).__basicsize__
    address, library = _linked_vectorcall(size - _POINTER, caller.by_array)
    ctypes.c_void_p.from_address(id(kernel) + size - _POINTER).value = ctypes.addressof(table)
    ctypes.c_void_p.from_address(id(kernel) + size - 2 * _POINTER).value = address
    return table, specs, memory, labels, lies, caller, caller.fail, library


@cache
def _is_after_its_head(dtype: DType) -> bool:
    """Does a NumPy scalar of a type hold its value right after the head of the object? Looked at in one."""
    scalar = dtype.numpy.type(1)
    wide_enough = type(scalar).__basicsize__ >= entry_table.HEADER + dtype.bytes
    return wide_enough and ctypes.string_at(id(scalar) + entry_table.HEADER, dtype.bytes) == np.asarray(scalar, dtype.numpy).tobytes()


def _words(values: list[int]) -> ctypes.Array[ctypes.c_int64]:
    return (ctypes.c_int64 * len(values))(*values)


def _spec(
    argument: Argument,
    slots: Mapping[str, int],
    limits: Mapping[str, tuple[int, int]],
    bound: npt.NDArray[Any] | None = None,
    place: int = 0,
    *,
    written: bool = False,
    steps: ctypes.Array[ctypes.c_int64] | None = None,
) -> ctypes.Array[ctypes.c_int64] | None:
    """The words that describe one argument; None where an extent is no quotient of a sum of few dims."""
    dtype = argument.dtype
    flags = _ALIGNED | (0 if steps else _CONTIGUOUS) | (_WRITEABLE if written else 0)
    forbidden = exchange.READ_ONLY | exchange.COPIED if written else 0
    kind = [
        id(dtype.numpy),
        flags,
        exchange.type_word(dtype),
        forbidden,
        ctypes.addressof(steps) if steps else 0,
        -1 if argument.over is None else argument.over,
    ]
    scalar = id(dtype.numpy.type) if not written and not argument.shape and _is_after_its_head(dtype) else 0
    words = [0 if bound is None else id(bound), place, *kind, dtype.bytes, scalar, len(argument.shape)]
    for extent in argument.shape:
        form = quotient(extent)
        if form is None or len(form.terms) > entry_table.TERMS:
            return None
        terms = [(scale, slots[dim]) for dim, scale in form.terms] + [(0, -1)] * (entry_table.TERMS - len(form.terms))
        numbers = [form.offset, *chain.from_iterable(terms), form.divisor]
        if not all(-(2**62) < number < 2**62 for number in numbers):
            return None
        words += [*numbers, *limits.get(form.told or "", (0, MAX_EXTENT))]
    return _words(words)
