"""What all tests share: how hard hypothesis tries, and where the NITF data is."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "default",
    deadline=None,
    max_examples=150,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.register_profile("thorough", parent=settings.get_profile("default"), max_examples=5000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))

DATA = Path(__file__).parent / "data"
NITF = Path(__file__).parents[2] / "shared" / "data" / "nitf"


@pytest.fixture(scope="session")
def nitf() -> Path:
    """YFilter 1.0's NITF workload, which is not part of this project."""
    if not NITF.is_dir():
        pytest.skip("the NITF workload is not beside this checkout")
    return NITF
