"""Checks for every test of the engine."""

from collections.abc import Iterator

import pytest

from simulated.simulation import LAUNCHED


@pytest.fixture(autouse=True)
def no_worker_is_left() -> Iterator[None]:
    """Check that no simulated worker is left open, whatever a test measures and however that ends."""
    LAUNCHED.clear()
    yield
    assert [machine.open_workers for machine in LAUNCHED if machine.open_workers] == []
