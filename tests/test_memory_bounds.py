"""The least of all that bounds memory is found, whichever version of control groups, batch system or limit it comes from."""

import subprocess
import sys
from pathlib import Path

import pytest

from tensorlang.system.memory import memory, memory_bounds, tightest

GB = 1 << 30


def tree(root: Path, files: dict[str, object]) -> Path:
    told = {"proc/meminfo": f"MemTotal: {64 * GB >> 10} kB\nMemAvailable: {60 * GB >> 10} kB\n", **files}
    for name, text in told.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"{text}\n")
    return root


V2 = "31 23 0:28 {top} /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw"
V1 = "35 31 0:32 {top} /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n36 31 0:33 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu"


def test_without_any_other_bound_it_is_the_machine(tmp_path: Path) -> None:
    assert memory(tree(tmp_path, {}), {}) == 64 * GB
    least = tightest(tmp_path, {})
    assert least is not None and least.what == "the memory of this machine" and least.free == 60 * GB


@pytest.mark.parametrize("limited", ["", "/job", "/job/step"])
def test_a_group_of_version_2_counts_at_any_depth(tmp_path: Path, limited: str) -> None:
    groups = {f"sys/fs/cgroup{path}/memory.max": 3 * GB if path == limited else "max" for path in ("", "/job", "/job/step")}
    used = {
        f"sys/fs/cgroup{limited}/memory.current": 2 * GB,
        f"sys/fs/cgroup{limited}/memory.stat": f"anon 1\ninactive_file {GB}",
    }
    tree(tmp_path, {"proc/self/cgroup": "0::/job/step", "proc/self/mountinfo": V2.format(top="/"), **groups, **used})
    least = tightest(tmp_path, {})
    assert least is not None and (least.size, least.free) == (3 * GB, 2 * GB) and least.what == f"the control group {limited or '/'}"


def test_a_group_of_version_1_counts_and_its_number_without_a_limit_does_not(tmp_path: Path) -> None:
    folder = "sys/fs/cgroup/memory"
    tree(
        tmp_path,
        {
            "proc/self/cgroup": "5:cpu:/elsewhere\n4:memory:/slurm/job_1/step_0",
            "proc/self/mountinfo": V1.format(top="/"),
            f"{folder}/memory.limit_in_bytes": 9223372036854771712,
            f"{folder}/slurm/job_1/memory.limit_in_bytes": 5 * GB,
            f"{folder}/slurm/job_1/step_0/memory.limit_in_bytes": 6 * GB,
        },
    )
    assert memory(tmp_path, {}) == 5 * GB and len(memory_bounds(tmp_path, {})) >= 3


@pytest.mark.parametrize("top", ["/docker/abc", "/docker"])
def test_a_container_sees_its_group_at_the_root_of_the_mount(tmp_path: Path, top: str) -> None:
    """Whether the path that it is told is the whole one, or one that the mount does not show."""
    name = {"proc/self/cgroup": "0::/docker/abc" if top.endswith("abc") else "0::/../other", "proc/self/mountinfo": V2.format(top=top)}
    tree(tmp_path, {**name, "sys/fs/cgroup/memory.max": 2 * GB})
    assert memory(tmp_path, {}) == 2 * GB


@pytest.mark.parametrize(
    ("environ", "wanted"),
    [
        ({"SLURM_MEM_PER_NODE": "4096"}, 4 * GB),
        ({"SLURM_MEM_PER_CPU": "1024", "SLURM_CPUS_ON_NODE": "3"}, 3 * GB),
        ({"SLURM_MEM_PER_NODE": "0"}, 64 * GB),
        ({"SLURM_MEM_PER_CPU": "1024"}, 64 * GB),
        ({"SLURM_MEM_PER_NODE": "lots"}, 64 * GB),
    ],
)
def test_what_slurm_promised_is_a_bound(tmp_path: Path, environ: dict[str, str], wanted: int) -> None:
    assert memory(tree(tmp_path, {}), environ) == wanted


def test_a_limit_of_the_process_is_a_bound() -> None:
    code = (
        "import resource; resource.setrlimit(resource.RLIMIT_AS, (1 << 29, 1 << 29))\n"
        "from tensorlang.system.memory import memory, tightest; print(memory() <= 1 << 29, tightest().free < 1 << 29)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "True True\n"
