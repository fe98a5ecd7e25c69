"""What all tests share: how hard hypothesis tries, where the NITF data is, and what runs."""

import logging
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.live import admin, kafka, spark, topic_prefix

__all__ = ["admin", "kafka", "spark", "topic_prefix"]

settings.register_profile(
    "default",
    deadline=None,
    max_examples=150,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.register_profile("thorough", parent=settings.get_profile("default"), max_examples=5000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # So it is for what a shell starts in the background, and commands that tests interrupt would
    # inherit it.
    signal.signal(signal.SIGINT, signal.default_int_handler)

DATA = Path(__file__).parent / "data"
NITF = Path(__file__).parents[2] / "shared" / "data" / "nitf"


@pytest.fixture(autouse=True)
def _log_as_before() -> Iterator[None]:
    """A command that runs in a test logs to an output that ends with the test; threads of longer
    tests that log later have nowhere to write then.
    """
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    yield
    for handler in list(root.handlers):
        if type(handler) is logging.StreamHandler and handler not in before:
            root.removeHandler(handler)
    root.setLevel(level)


@pytest.fixture(scope="session")
def nitf() -> Path:
    """YFilter 1.0's NITF workload, which is not part of this project."""
    if not NITF.is_dir():
        pytest.skip("the NITF workload is not beside this checkout")
    return NITF
