"""The digest of large arrays: it is what its page says, and it changes with every byte, with the length and with the key."""

from __future__ import annotations

import hashlib
import random

import numpy as np
import pytest

from tensorlang.codegen.kernel.content_hash import KEY_BYTES, SMALL, content_digest, new_key

KEY = bytes(range(KEY_BYTES))
WORD = (1 << 64) - 1


def written_out(data: bytes, key: bytes) -> bytes:
    """The digest by integers of Python."""
    numbers = [int.from_bytes(key[at : at + 8], "little") for at in range(0, KEY_BYTES, 8)]
    starts, multipliers = numbers[:8], [number | 1 for number in numbers[8:]]
    whole = len(data) // 64 * 64
    found = hashlib.sha256(key + len(data).to_bytes(8, "little"))
    for block in range(0, whole, 1 << 20):
        states = list(starts)
        for place, word in enumerate(np.frombuffer(data[block : min(block + (1 << 20), whole)], "<u8").tolist()):
            product = (states[place % 8] ^ word) * multipliers[place % 8]
            states[place % 8] = (product & WORD) ^ (product >> 64)
        found.update(b"".join(state.to_bytes(8, "little") for state in states))
    found.update(data[whole:])
    return found.digest()


@pytest.mark.parametrize("length", [SMALL + 1, SMALL + 64, SMALL + 127, 2 * SMALL])
def test_it_is_what_its_page_says(length: int) -> None:
    data = random.Random(length).randbytes(length)
    assert content_digest(memoryview(data), KEY) == written_out(data, KEY)


@pytest.mark.parametrize("length", [0, 1, SMALL])
def test_what_is_short_is_hashed_as_it_is(length: int) -> None:
    data = bytes(length)
    assert content_digest(memoryview(data), KEY) == hashlib.sha256(KEY + length.to_bytes(8, "little") + data).digest()


def test_it_changes_with_each_bit_the_length_and_the_key() -> None:
    draw = random.Random(0)
    data = bytearray(draw.randbytes(2 * SMALL + 77))
    found = {content_digest(memoryview(data), KEY), content_digest(memoryview(data)[:-1], KEY), content_digest(memoryview(data), new_key())}
    places = [0, 63, 64, SMALL - 1, SMALL, len(data) - 1, *(draw.randrange(len(data)) for _ in range(50))]
    for place in places:
        data[place] ^= 1 << draw.randrange(8)
        found.add(content_digest(memoryview(data), KEY))
        data[place] ^= 255
        found.add(content_digest(memoryview(data), KEY))
    assert len(found) == 3 + 2 * len(places)
    assert content_digest(memoryview(bytes(2 * SMALL)), KEY) != content_digest(memoryview(bytes(3 * SMALL)), KEY)


def test_it_does_not_depend_on_where_the_bytes_lie() -> None:
    data = random.Random(1).randbytes(SMALL + 100)
    shifted = memoryview(b"xyz" + data)[3:]
    assert content_digest(shifted, KEY) == content_digest(memoryview(data), KEY)
