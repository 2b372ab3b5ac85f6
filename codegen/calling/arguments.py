"""The calling contract: what a call passes becomes addresses and dims, or a `CallError` before anything is written.

Inputs may be anything with the buffer protocol or `__dlpack__`; a contiguous, aligned one is passed as it is, any other is copied.
Outputs are written in place, so they have to be contiguous, aligned, writable and apart from every other argument. This is the
careful path; `vectorcall_ir` does the same checks in machine code for plain arrays and comes here whenever something is unusual.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from tensorlang.codegen.cache.signature import Argument, Signature
from tensorlang.codegen.runtime import arrays
from tensorlang.definition.extent import MAX_EXTENT, beyond, dims_in
from tensorlang.errors import CallError, did_you_mean
from tensorlang.ir import Const, Dim
from tensorlang.ir.integers import value_of
from tensorlang.ir.linear import solve
from tensorlang.ir.printer import text

Array: TypeAlias = npt.NDArray[Any]

WORKSPACE: Final = "workspace"
THREADS: Final = "threads"
"""The keyword of a call that is to use another number of threads."""
KEYWORDS: Final = ("out", WORKSPACE, THREADS)
"""What a call says by keyword beside its inputs and dims."""
_LIMIT: Final = 2**63
_MOST_NAMED: Final = 12
"""Arguments that a message lists."""


@dataclass(frozen=True, slots=True)
class Invocation:
    """A call that passed every check: the arrays in C order, their addresses and the dims, and what to hand back.

    `copied` says that an input is a copy of what was passed. `workspace` are the address of a workspace that was handed over, whose bytes
    are then the last array, and the threads for which it suffices.
    """

    arrays: tuple[Array, ...]
    words: tuple[int, ...]
    result: Any
    copied: bool
    workspace: tuple[int, int] | None = None


def prepare(signature: Signature, bound: Mapping[str, Array], args: Sequence[Any], keywords: Mapping[str, Any]) -> Invocation:
    """Check a call and convert its arguments; `bound` are inputs that are fixed and not passed.

    Raises `CallError` naming the argument, what was expected and what was found.
    """
    keywords = dict(keywords)
    out = keywords.pop("out", None)
    given = _by_name(signature, bound, args, keywords)
    subjects = [_Subject(signature, argument, "argument", len(args), bound) for argument in signature.inputs]
    inputs = [arrays.as_array(given[subject.argument.name], subject) for subject in subjects]
    for subject, array in zip(subjects, inputs, strict=True):
        _check_type(subject, array)
    dims = _solve(signature, inputs, {name: checked_dim(signature, name, keywords[name]) for name in signature.dims if name in keywords})
    for subject, array in zip(subjects, inputs, strict=True):
        _check_shape(subject, array, dims)
    for name, size in dims.items():
        if wrong := beyond(name, size, signature.limits):
            raise CallError(f"{signature.name}: {wrong}")
    for extent in signature.products:
        if (size := value_of(extent, dims)) > MAX_EXTENT:
            raise CallError(f"{signature.name}: the extent {text(extent)} is {size}; extents are at most 2**48")
    ready = [arrays.laid_out(array, subject.argument.strides, subject) for subject, array in zip(subjects, inputs, strict=True)]
    copied = any(now is not before for now, before in zip(ready, inputs, strict=True))
    outputs, result = _outputs(signature, out, dims)
    addresses = _check_apart(signature, ready, outputs)
    return Invocation((*ready, *outputs), (*addresses, *(dims[name] for name in signature.dims)), result, copied)


@dataclass(frozen=True, slots=True)
class _Subject:
    """The argument that a message is about, spelled only when there is a message.

    The first `placed` of the inputs that are not `bound` were passed by position.
    """

    signature: Signature
    argument: Argument
    role: str
    placed: int = 0
    bound: Mapping[str, Array] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.signature.name}: {self.role} {self.argument.name!r} ({self.argument})"

    def order(self, array: Array, dims: Mapping[str, int] | None = None) -> str:
        """The end of a message about an array that another argument would take, if a call passed it by position: the order of arguments.

        Arrays in the wrong places give the wrong `dims`: where the argument itself has none, those of another one may be any.
        """
        passed = [argument for argument in self.signature.passed if argument.name not in self.bound]
        known = dims if dims_in(self.argument.shape) else None
        other = next((argument for argument in passed if _fits(argument, array, known)), None)
        if other is None or self.argument not in passed[: self.placed]:
            return ""
        names = ", ".join([*(argument.name for argument in passed[:_MOST_NAMED]), *(["..."] if len(passed) > _MOST_NAMED else [])])
        order = "in the order in which their placeholders were made (or that of inputs=)"
        return f"; {other.name!r} would take it: arguments are {names}, {order}"


def constant_operand(signature: Signature, argument: Argument, value: object) -> Array:
    """An array to make an operand of that is fixed for good, checked as in a call. Raises `CallError`.

    It is a copy in order, except where `value` cannot be written to and has no gaps: who passes such an array says that it stays meanwhile.
    """
    array = checked_constant(signature, argument, value)
    if array.flags.aligned and not array.flags.writeable and arrays.axes_in_memory(array) is not None:
        return array
    return arrays.aligned_copy(array)


def checked_constant(signature: Signature, argument: Argument, value: object) -> Array:
    """The array that is to stand for an input for good, as it is now. Raises `CallError`."""
    subject = _Subject(signature, argument, "argument")
    array = arrays.as_array(value, subject)
    _check_type(subject, array)
    if argument.strides:
        raise CallError(f"{subject}: an operand that lies in an order of its own cannot be fixed; leave it out of strides=")
    if not all(isinstance(extent, Const) for extent in argument.shape):
        raise CallError(f"{signature.name}: {argument.name!r} has extents known only at run time, {argument}, and cannot be fixed")
    _check_shape(subject, array, {})
    return array


def _by_name(signature: Signature, bound: Mapping[str, Array], args: Sequence[Any], keywords: Mapping[str, Any]) -> dict[str, Any]:
    """The object given for each input, by position or by name."""
    names = [argument.name for argument in signature.passed if argument.name not in bound]
    if len(args) > len(names):
        raise CallError(f"{signature}: expected {len(names)} inputs, got {len(args)}")
    given = dict(zip(names, args, strict=False))
    for name, value in keywords.items():
        if name in given:
            raise CallError(f"{signature}: input {name!r} is given twice, by position and by name")
        if name in names:
            given[name] = value
        elif name not in signature.dims:
            known = [one for one in (*KEYWORDS, *names, *signature.dims) if one != name]  # a keyword that this call does not take
            raise CallError(f"{signature}: there is no argument {name!r}{did_you_mean(name, known)}")
    missing = [name for name in names if name not in given]
    if missing:
        raise CallError(f"{signature}: expected {len(names)} inputs, got {len(given)}; missing {', '.join(map(repr, missing))}")
    return {**bound, **given}


def checked_dim(signature: Signature, name: str, value: Any) -> int:
    """The value of a dim that is given by keyword. Raises `CallError` for anything but an integer of 63 bits, from 0 on."""
    try:
        number = -1 if isinstance(value, (bool, np.bool_)) else operator.index(value)
    except TypeError:
        number = -1
    if not 0 <= number < _LIMIT:
        raise CallError(f"{signature.name}: dim {name!r}: expected an integer from 0 to 2**63 - 1, got {value!r}")
    if wrong := beyond(name, number, signature.limits):
        raise CallError(f"{signature.name}: {wrong}")
    return number


def _check_type(subject: _Subject, array: Array) -> None:
    argument = subject.argument
    wanted = argument.dtype.numpy
    if array.dtype != wanted:
        order = " (not in native byte order)" if array.dtype.newbyteorder("=") == wanted else ""
        raise CallError(f"{subject}: expected dtype {wanted}, got {array.dtype}{order}{subject.order(array)}")
    if array.ndim != len(argument.shape):
        raise CallError(
            f"{subject}: expected {len(argument.shape)} dimensions, got {array.ndim}, shape {array.shape}{subject.order(array)}"
        )


def _solve(signature: Signature, inputs: Sequence[Array], dims: dict[str, int]) -> dict[str, int]:
    """The value of every dim: from keywords, from axes that are a dim, then from axes that are affine in one unknown dim."""
    shapes = [(argument.shape, array.shape) for argument, array in zip(signature.inputs, inputs, strict=True)]
    axes = [axis for shape, sizes in shapes for axis in zip(shape, sizes, strict=True)]
    for extent, size in axes:
        if isinstance(extent, Dim):
            dims.setdefault(extent.name, size)
    progress = True
    while progress and len(dims) < len(signature.dims):
        progress = False
        for extent, size in axes:
            if not isinstance(extent, Const) and (found := solve(extent, size, dims)) is not None:
                dims[found[0]] = found[1]
                progress = True
    missing = [name for name in signature.dims if name not in dims]
    if missing:
        names = ", ".join(map(repr, missing))
        if missing[0] in KEYWORDS:
            raise CallError(f"{signature}: the inputs do not fix dim {names}, and {missing[0]}= says something else; rename the dim")
        raise CallError(f"{signature}: the inputs do not fix dim {names}; pass it by keyword ({missing[0]}=...) or check their shapes")
    return dims


def _expected(argument: Argument, dims: Mapping[str, int]) -> str:
    sizes = tuple(value_of(extent, dims) for extent in argument.shape)
    names = sorted(dims_in(argument.shape))
    return f"{sizes}" + (f" with {', '.join(f'{name} = {dims[name]}' for name in names)}" if names else "")


def _check_shape(subject: _Subject, array: Array, dims: Mapping[str, int]) -> None:
    argument = subject.argument
    if array.shape != tuple(value_of(extent, dims) for extent in argument.shape):
        raise CallError(f"{subject}: expected shape {_expected(argument, dims)}, got {array.shape}{subject.order(array, dims)}")


def _fits(argument: Argument, array: Array, dims: Mapping[str, int] | None) -> bool:
    """Would an argument take an array? Extents that depend on `dims` may be any where these are not known."""
    if array.dtype != argument.dtype.numpy or array.ndim != len(argument.shape):
        return False
    sizes = (
        (extent, size) for extent, size in zip(argument.shape, array.shape, strict=True) if dims is not None or isinstance(extent, Const)
    )
    return all(value_of(extent, dims or {}) == size for extent, size in sizes)


def _outputs(signature: Signature, out: Any, dims: Mapping[str, int]) -> tuple[list[Array], Any]:
    """The arrays to write and the object to return: new ones, or those of `out=`."""
    count = len(signature.outputs)
    subjects = [_Subject(signature, argument, "output") for argument in signature.outputs]
    if out is None:
        fresh = [_fresh(subject, dims) for subject in subjects]
        return fresh, fresh[0] if count == 1 else tuple(fresh)
    given = tuple(out) if isinstance(out, (tuple, list)) else (out,)
    if len(given) != count:
        wanted = "one array" if count == 1 else f"a tuple of {count} arrays"
        raise CallError(f"{signature}: out= expected {wanted}, got {len(given)}")
    checked = [_checked_output(subject, value, dims) for subject, value in zip(subjects, given, strict=True)]
    return checked, given[0] if count == 1 else given


def _fresh(subject: _Subject, dims: Mapping[str, int]) -> Array:
    argument = subject.argument
    shape = tuple(value_of(extent, dims) for extent in argument.shape)
    negative = [extent for extent, size in zip(argument.shape, shape, strict=True) if size < 0]
    if negative:
        raise CallError(f"{subject}: the extent {text(negative[0])} would be negative: {_expected(argument, dims)}")
    try:
        return arrays.strided_empty(shape, argument.strides, argument.dtype.numpy)
    except (MemoryError, ValueError, OverflowError) as error:
        raise CallError(f"{subject}: an output of shape {shape} cannot be allocated: {error}") from None


def _checked_output(subject: _Subject, value: Any, dims: Mapping[str, int]) -> Array:
    if isinstance(value, np.generic):  # NumPy makes an array of it, in which nobody would look
        raise CallError(f"{subject}: expected a writable array, got a NumPy scalar; np.empty({value.shape}, {str(value.dtype)!r}) is one")
    array = arrays.as_array(value, subject)
    _check_type(subject, array)
    _check_shape(subject, array, dims)
    if not array.flags.writeable:
        raise CallError(f"{subject}: expected a writable array, got a read-only one")
    if strides := subject.argument.strides:
        if not arrays.lies(array, strides):
            found = tuple(step // array.itemsize for step in array.strides)
            raise CallError(f"{subject}: expected that order in memory, got strides {found} for shape {array.shape}")
    elif not array.flags.c_contiguous:
        raise CallError(f"{subject}: expected a C-contiguous array, got strides {array.strides} for shape {array.shape}")
    if not array.flags.aligned:
        raise CallError(f"{subject}: expected data aligned to {subject.argument.dtype.bytes} bytes, got address {arrays.address(array):#x}")
    return array


def _check_apart(signature: Signature, inputs: Sequence[Array], outputs: Sequence[Array]) -> list[int]:
    """The address of each array. Every output lies apart from every other argument: by ranges of bytes, or by elements."""
    given = (*inputs, *outputs)
    starts = [arrays.address(array) for array in given]
    ends = [start + arrays.span(array) for start, array in zip(starts, given, strict=True)]
    for at in range(len(inputs), len(starts)):
        for other in range(at):
            in_place = signature.outputs[at - len(inputs)].over == other and starts[at] == starts[other]
            if not in_place and max(starts[at], starts[other]) < min(ends[at], ends[other]) and arrays.meet(given[at], given[other]):
                name, second = ((*signature.inputs, *signature.outputs)[index].name for index in (at, other))
                raise CallError(f"{signature.name}: output {name!r} overlaps {second!r} in memory; it has to lie apart from every argument")
    return starts
