"""Why a workload is not where it should be, as far as its nest and its assembly show. Printed on the page as long as it misses its goal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from bench.peers.summary import verdict
from bench.peers.tables import PEAK, Row
from bench.peers.workloads import FAMILIES

REASONS: Final[Mapping[str, str]] = {
    "harris_1530x2554": "each of its stages is computed whole, 15 MB, and goes to memory; peers compute strips of rows that stay in the "
    "second-level cache.",
    "jacobi2d_1000_100": "8 MB are swept in each step, from and to the last-level cache, by ours as by numba, without tiles in time. "
    "What sets the two apart was not found.",
    "depthwise3x3_512_14": "14 of 16 lanes work.",
    "depthwise5x5s2_144_56": "lanes two apart: ten loads that cross lines for five taps of a row, and the register allocator spills; the "
    "columns of the padded image in two halves would take half the loads, but making those halves costs what it saves.",
    "depthwise5x5_1152_7": "an image is 7 wide, so 7 of 16 lanes work; 84 points, all there are, know nothing better than the default.",
    "softmax_128x1000": "the sum passes over the exponentials once more: joining the loops that make and add them is refused, since the "
    "start of the sum stands between the two.",
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
