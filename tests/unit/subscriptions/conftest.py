"""A registry of its own for each test."""

import pytest

from tests.unit.subscriptions.registry_broker import Broker


@pytest.fixture
def broker() -> Broker:
    """A registry with its logs."""
    return Broker()
