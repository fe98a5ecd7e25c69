"""How much memory is in use, as the files of different systems say it."""

import os
from pathlib import Path

from streaming_jobs.memory import MemoryUse, memory_use
from streaming_jobs.statistics import resident_bytes

MEMINFO = "MemTotal:  1000 kB\nMemFree:  100 kB\nMemAvailable:  400 kB\nHugePages_Total:  0\n"
MACHINE = MemoryUse(600 * 1024, 1000 * 1024)


def system(root: Path, files: dict[str, str]) -> Path:
    for name, text in {"proc/meminfo": MEMINFO, **files}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_a_machine_without_control_groups(tmp_path: Path) -> None:
    assert memory_use(system(tmp_path, {})) == MACHINE


def test_a_group_without_a_limit(tmp_path: Path) -> None:
    files = {
        "proc/self/cgroup": "0::/\n",
        "sys/fs/cgroup/memory.max": "max\n",
        "sys/fs/cgroup/memory.current": "5\n",
        "sys/fs/cgroup/memory.stat": "inactive_file 1\n",
    }
    assert memory_use(system(tmp_path, files)) == MACHINE


def test_a_container(tmp_path: Path) -> None:
    files = {
        "proc/self/cgroup": "0::/\n",
        "sys/fs/cgroup/memory.max": "4096\n",
        "sys/fs/cgroup/memory.current": "3000\n",
        "sys/fs/cgroup/memory.stat": "anon 7\ninactive_file 1000\n",
    }
    assert memory_use(system(tmp_path, files)) == MemoryUse(2000, 4096)


def test_the_fullest_group_counts(tmp_path: Path) -> None:
    """A service within a slice: both have limits."""
    files = {"proc/self/cgroup": "3:cpu:/\n0::/a.slice/b.service\n"}
    for group, limit, used in (("a.slice", 8000, 7000), ("a.slice/b.service", 4000, 1000)):
        files |= {
            f"sys/fs/cgroup/{group}/memory.max": str(limit),
            f"sys/fs/cgroup/{group}/memory.current": str(used),
            f"sys/fs/cgroup/{group}/memory.stat": "inactive_file 0\n",
        }
    assert memory_use(system(tmp_path, files)) == MemoryUse(7000, 8000)


def test_groups_of_the_first_kind(tmp_path: Path) -> None:
    files = {
        "proc/self/cgroup": "9:name=systemd:/x\n4:memory:/docker/abc\n0::/\n",
        "sys/fs/cgroup/memory/memory.limit_in_bytes": "4096\n",
        "sys/fs/cgroup/memory/memory.usage_in_bytes": "3000\n",
        "sys/fs/cgroup/memory/memory.stat": "inactive_file 5\ntotal_inactive_file 1000\n",
    }
    assert memory_use(system(tmp_path, files)) == MemoryUse(2000, 4096)


def test_no_linux(tmp_path: Path) -> None:
    assert memory_use(tmp_path) is None


def test_memory_of_another_process() -> None:
    assert resident_bytes(os.getpid()) > 1_000_000
    assert resident_bytes(2**30) == 0
