"""The distance between two words, and a nest that is turned until it can run in parallel.

Each entry of the table needs its neighbours above, to the left and between them, so neither rows nor columns may run in parallel as they
are. Along a diagonal no entry needs another: `skew` makes the diagonals a loop, `reorder` puts it outside.

    python examples/edit_distance.py
"""

import numpy as np

import tensorlang as tl

M, N = tl.dim("m"), tl.dim("n")
first, second = tl.placeholder((M,), "uint8", name="first"), tl.placeholder((N,), "uint8", name="second")


def entry(i: tl.Expr, j: tl.Expr, d: tl.Tensor) -> tl.Expr:
    """The fewest changes from the first `i` letters of one word to the first `j` of the other (Wagner and Fischer, 1974)."""
    other = tl.select((i > 0) & (j > 0), tl.select(first[i - 1] == second[j - 1], 0, 1), 0)
    nearest = tl.minimum(tl.minimum(d[i - 1, j] + 1, d[i, j - 1] + 1), d[i - 1, j - 1] + tl.cast(other, "int32"))
    return tl.select(i == 0, tl.cast(j, "int32"), tl.select(j == 0, tl.cast(i, "int32"), nearest))


table = tl.recurrence((M + 1, N + 1), entry, dtype="int32", name="d")

s = tl.Schedule(table)
for loop in s.loops("d"):
    refused = s.can("parallel", loop).error
    assert refused is not None
    print(f"{loop} may not run in parallel: {refused.counterexample}")
s.skew("j", by="i")
s.reorder("j_s", "i")
s.parallel("i")
print(f"\n{s}\n")
distance = tl.build(s)


def letters(word: str) -> np.ndarray:
    """A word as bytes."""
    return np.frombuffer(word.encode(), "uint8")


for one, other, want in (("kitten", "sitting", 3), ("scheduling", "schooling", 3), ("", "tensor", 6), ("same", "same", 0)):
    got = int(distance(letters(one), letters(other))[-1, -1])
    assert got == want
    print(f"{one!r} to {other!r}: {got}")

# A long pair, against the same recursion in Python.
long, longer = np.random.default_rng(0).integers(97, 101, 150, "uint8"), np.random.default_rng(1).integers(97, 101, 170, "uint8")
row = list(range(len(longer) + 1))
for i, letter in enumerate(long):
    above, row = row, [i + 1]
    for j, right in enumerate(longer):
        row.append(min(above[j + 1] + 1, row[j] + 1, above[j] + int(letter != right)))
assert distance(long, longer)[-1].tolist() == row
print(f"two random words of {len(long)} and {len(longer)} letters: {row[-1]}")
