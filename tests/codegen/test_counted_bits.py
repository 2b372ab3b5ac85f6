"""Sums of bits that are written out are the instruction of processors that have one, and right on all."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorlang as tl

WORDS = 5


def ones(word: Any, bits: int) -> Any:
    """The bits of a word that are on, summed in pairs, fours and bytes."""

    def mask(byte: int) -> Any:
        return tl.cast(int.from_bytes(bytes([byte]) * (bits // 8), "little"), f"uint{bits}")

    def by(count: int) -> Any:
        return tl.cast(count, f"uint{bits}")

    pairs = word - ((word >> by(1)) & mask(0x55))
    fours = (pairs & mask(0x33)) + ((pairs >> by(2)) & mask(0x33))
    return tl.cast((((fours + (fours >> by(4))) & mask(0x0F)) * mask(0x01)) >> by(bits - 8), "int32")


def distances(rows: int, columns: int, bits: int) -> Any:
    """In how many bits rows of words differ."""
    a, b = tl.placeholder((rows, WORDS), f"uint{bits}", name="A"), tl.placeholder((columns, WORDS), f"uint{bits}", name="B")
    k = tl.reduce_axis(WORDS, name="k")
    return tl.compute((rows, columns), lambda i, j: tl.sum(ones(a[i, k] ^ b[j, k], bits), axis=k), name="D")


@pytest.mark.parametrize("cpu", ["native", "x86-64-v3", "x86-64-v2"])
@pytest.mark.parametrize("bits", [32, 64])
def test_bits_are_counted(bits: int, cpu: str) -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.integers(0, (1 << bits) - 1, (count, WORDS), f"uint{bits}", endpoint=True) for count in (19, 33))
    apart = a[:, None] ^ b[None]
    want = np.unpackbits(apart.view(np.uint8), axis=-1).sum(-1)
    np.testing.assert_array_equal(tl.build(distances(19, 33, bits), target=cpu)(a, b), want)


@pytest.mark.parametrize(("bits", "instruction"), [(32, "vpopcntd"), (64, "vpopcntq")])
def test_processors_that_count_do_so(bits: int, instruction: str) -> None:
    assert instruction in tl.build(distances(64, 64, bits), target="icelake-server").inspect("asm")
