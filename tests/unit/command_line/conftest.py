"""Run the command line as a person would, in this process."""

import logging
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from xmlbroker.cli import main


class Ran(NamedTuple):
    """What a command did."""

    status: int
    out: str
    err: str


Run = Callable[..., Ran]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    """Run `xmlbroker` with arguments, in an empty directory."""
    monkeypatch.chdir(tmp_path)
    # The Spark of other tests, in this process, is not what a command's errors are of.
    for name in ("org.apache", "spark"):
        monkeypatch.setattr(logging.getLogger(name), "propagate", False)

    def run_command(*arguments: str | Path) -> Ran:
        monkeypatch.setattr(sys, "argv", ["xmlbroker", *map(str, arguments)])
        with pytest.raises(SystemExit) as caught:
            main()
        out, err = capfd.readouterr()
        code = caught.value.code
        return Ran(code if isinstance(code, int) else 1 if code else 0, out, err)

    return run_command
