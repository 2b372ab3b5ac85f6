"""Why a workload is not where it should be, as far as its nest and its assembly show. Printed on the page as long as it misses its goal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from bench.peers.summary import verdict
from bench.peers.tables import PEAK, Row
from bench.peers.workloads import FAMILIES

REASONS: Final[Mapping[str, str]] = {
    "harris_1530x2554": "strips of 16 rows begin anew with the four rows that they share; Halide's schedule slides through one strip.",
    "jacobi2d_1000_100": "8 MB are swept in each step, from and to the last-level cache, by ours as by numba, without tiles in time. "
    "What sets the two apart was not found.",
    "depthwise5x5s2_144_56": "lanes two apart: ten loads that cross lines for five taps of a row; the columns of the padded image in two "
    "halves would take half the loads (0.82 of the time on a Zen 4, by a schedule written by hand), and 5 rows of one vector take "
    "0.81 of the tile that the model names, which it has at 1.02.",
    "softmax_128x1000": "Halide's exponential, of fewer instructions, is off by two units in the last place, ours by one; exponentials and "
    "their sum in one loop are no faster.",
    **dict.fromkeys(
        ("matmul_bf16_512", "matmul_bf16_1024", "matmul_bf16_128x768x3072_weights"),
        "from Sapphire Rapids on oneDNN multiplies tiles of 16 x 16 (AMX, 512 products a cycle), ours pairs in lanes (`vdpbf16ps`, 16 a "
        "cycle there): AMX is not among our instructions.",
    ),
    **dict.fromkeys(
        ("matmul_int8_512", "matmul_int8_1024", "conv3x3_64-64_56_int8", "conv1x1_256-64_56_int8", "conv3x3s2_128-128_56_int8"),
        "from Sapphire Rapids on oneDNN multiplies tiles of bytes (AMX), where ours adds four products in each lane (`vpdpbusd`). Held "
        "to AVX2 it adds products of bytes in words (`vpmaddubsw`), which end at 32767: its products are refused for that; ours multiplies "
        "words.",
    ),
    "vecmat_4096_weights": "all who do not pack read one array of 67 MB, which stays in a large last-level cache; ours has its own copy.",
    "matvec_4096": "one row at a time: a Zen 3 reads 12 GB/s so, and 15 to 18 along four rows or eight, which no space holds for sums.",
    "matmul_2048": "A is read from the last-level cache for each part of the depth, and the result read and written.",
}


def reasons(rows: Sequence[Row]) -> Iterator[str]:
    """A line for each workload that lost, is below what its family asks of each, or is short of the machine's multiply-adds."""
    least = {family.name: family.least for family in FAMILIES.values()}
    for row in rows:
        ratio, ours = row.get("ratio"), row["ours"] or {}
        short = ours.get("share_of_peak", 1.0) < PEAK
        missed = ratio is not None and (verdict(ratio) == "loss" or ratio < (least.get(row["family"]) or 0.0))
        if (short or missed) and row["workload"] in REASONS:
            yield f"- `{row['workload']}`: {REASONS[row['workload']]}"
