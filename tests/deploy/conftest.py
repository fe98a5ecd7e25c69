"""The image's own files, built as deploy/Dockerfile builds them: once for all processes."""

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.deploy.dockerfile import instructions, make_context
from tests.deploy.project import search_path

IN_THE_IMAGE = "/opt/xmlbroker"


@pytest.fixture(scope="session")
def image_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the image has in /opt/xmlbroker, made in an empty directory with an empty home.

    pip may use its cache: half a gigabyte would be fetched for every run. Nothing else is shared.
    """
    base = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        base = base.parent
    directory = base / "image"
    root = directory / "root"
    with (base / "image.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not directory.exists():
            _build(directory, root)
    assert (root / "built").exists(), "the build failed, in another process; see there"
    return root


def _build(directory: Path, root: Path) -> None:
    context, home = directory / "context", directory / "home"
    context.mkdir(parents=True)
    home.mkdir()
    make_context(context)
    asked = subprocess.run(
        [sys.executable, "-m", "pip", "cache", "dir"], capture_output=True, text=True, check=True
    )
    kept = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
    environment = {
        **kept,
        "PATH": search_path(Path(sys.executable).parent),
        "HOME": str(home),
        "PIP_CACHE_DIR": asked.stdout.strip(),
    }
    steps = [each.value for each in instructions("RUN") if each.stage == 1]
    for step in steps:
        assert IN_THE_IMAGE in step
        subprocess.run(
            ["/bin/sh", "-c", step.replace(IN_THE_IMAGE, str(root))],
            cwd=context,
            env=environment,
            check=True,
        )
    (root / "built").touch()
