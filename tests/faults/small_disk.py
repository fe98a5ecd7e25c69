"""A disk that is soon full: a file system in memory, in a namespace that a process keeps open."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


class SmallDisk:
    """Where it is for processes that are started on it (`path`), and where for us (`seen`)."""

    def __init__(self, path: Path, keeper: int) -> None:
        self.path = path
        self.seen = Path(f"/proc/{keeper}/root") / path.relative_to("/")
        self.entering = [
            *("nsenter", "--preserve-credentials", "--user", "--mount"),
            *("--target", str(keeper)),
        ]
        """What a command starts with that is to have it."""

    def fill(self, but: int = 0) -> None:
        """Leave so many bytes of it."""
        space = os.statvfs(self.seen)
        (self.seen / "ballast").write_bytes(bytes(max(0, space.f_bavail * space.f_bsize - but)))

    def make_space(self) -> None:
        (self.seen / "ballast").unlink()


@contextmanager
def small_disk(path: Path, size: int) -> Iterator[SmallDisk]:
    """A disk of so many bytes on an empty directory; skips where nobody may mount one."""
    path.mkdir()
    mounting = f'mount -t tmpfs -o size={size} tmpfs "$0" && echo mounted && exec sleep infinity'
    with subprocess.Popen(
        ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", mounting, str(path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as keeper:
        assert keeper.stdout is not None
        assert keeper.stderr is not None
        try:
            if keeper.stdout.readline() != "mounted\n":
                pytest.skip(f"no file system of our own here: {keeper.stderr.read().strip()}")
            yield SmallDisk(path, keeper.pid)
        finally:
            keeper.kill()
