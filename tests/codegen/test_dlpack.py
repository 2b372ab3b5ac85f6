"""Objects of strangers as arguments: whatever their methods do, a call says what is wrong with the argument."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorlang as tl


class Bare:
    """`__dlpack__` and no `__dlpack_device__`."""

    def __dlpack__(self, **_: Any) -> Any:
        return None


class Empty(Bare):
    """No capsule."""

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0


class Odd(Bare):
    """A device that is none."""

    def __dlpack_device__(self) -> Any:
        return "cpu"


class Failing(Empty):
    """An error of its own."""

    def __dlpack__(self, **_: Any) -> Any:
        raise LookupError("gone")


@pytest.mark.parametrize("stranger", [Bare, Empty, Odd, Failing])
def test_a_stranger_that_is_no_array_is_named(stranger: type) -> None:
    A = tl.placeholder((3,), "int32", name="A")
    kernel = tl.build(tl.compute((3,), lambda i: A[i] + 1, name="C"))
    for call in (lambda: kernel(stranger()), lambda: kernel(np.zeros(3, "i4"), out=stranger()), lambda: kernel.bind(stranger())):
        with pytest.raises(tl.CallError, match=stranger.__name__):
            call()
