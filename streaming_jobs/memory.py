"""How much memory there is where the driver runs, and how much of it is in use.

With `local[N]` all is there: the driver, Spark's JVM, the workers, and Kafka if it is embedded. It
is the sum that the kernel looks at when it ends one of them, so it is the sum that is watched.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple


class MemoryUse(NamedTuple):
    """Of the container, or of the machine if it sets no limit."""

    used: int
    """Without what the kernel would give back at once: files that it keeps."""
    limit: int


class _Files(NamedTuple):
    """Where a kind of control groups has what is asked of it."""

    base: str
    group: re.Pattern[str]
    """A process's group, in its own list of them."""
    limit: str
    used: str
    kept: str
    """The line of `memory.stat` with the bytes of files."""


_KINDS = (
    _Files(
        "sys/fs/cgroup",
        re.compile(r"^0::(/.*)$", re.MULTILINE),
        "memory.max",
        "memory.current",
        "inactive_file",
    ),
    _Files(
        "sys/fs/cgroup/memory",
        re.compile(r"^\d+:memory:(/.*)$", re.MULTILINE),
        "memory.limit_in_bytes",
        "memory.usage_in_bytes",
        "total_inactive_file",
    ),
)


def memory_use(root: Path = Path("/")) -> MemoryUse | None:
    """What there is and what is used now; None where the system doesn't say (it is no Linux)."""
    try:
        machine = _of_machine(root)
    except (OSError, KeyError):
        return None
    limited = [each for each in _of_groups(root) if each.limit < machine.limit]
    # The fullest of the groups that this process is in: that one is the first to run over.
    return max(limited, key=lambda each: each.used / each.limit, default=machine)


def _of_machine(root: Path) -> MemoryUse:
    lines = (root / "proc/meminfo").read_text().splitlines()
    kilobytes = {name: int(rest.split()[0]) for name, _, rest in (x.partition(":") for x in lines)}
    limit = 1024 * kilobytes["MemTotal"]
    return MemoryUse(limit - 1024 * kilobytes["MemAvailable"], limit)


def _of_groups(root: Path) -> Iterator[MemoryUse]:
    """The groups of this process and those around them, as far as they are seen from here."""
    try:
        groups = (root / "proc/self/cgroup").read_text()
    except OSError:
        return
    for kind in _KINDS:
        found = kind.group.search(groups)
        if found is None:
            continue
        base = root / kind.base
        own = base / found.group(1).lstrip("/")
        for directory in {own, *own.parents, base}:
            if directory == base or base in directory.parents:
                yield from _of_group(directory, kind)


def _of_group(directory: Path, kind: _Files) -> Iterator[MemoryUse]:
    try:
        limit = int((directory / kind.limit).read_text())
        used = int((directory / kind.used).read_text())
        statistics = dict(x.split() for x in (directory / "memory.stat").read_text().splitlines())
        yield MemoryUse(used - int(statistics[kind.kept]), limit)
    except (OSError, ValueError, KeyError):
        return  # no limit ("max"), or none of this kind here
