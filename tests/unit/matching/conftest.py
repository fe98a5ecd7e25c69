"""What tests of matching share."""

import pytest

from broker.documents import LabelPaths


@pytest.fixture
def labels() -> LabelPaths:
    """A table of label paths, as one feed has it."""
    return LabelPaths()
