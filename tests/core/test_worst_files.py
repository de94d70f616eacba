"""The worst files at the limits of size, each through its whole command: none takes a gigabyte, and each one ends."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import readers

SHAPES = {shape.name: shape for group in readers.GROUPS.values() for shape in group()}
CHOSEN = (
    "run: one process per round, verdict",
    "run: 5,000 processes at 1,000 batches, report",
    "run: broken rounds, verdict",
    "run: neighbours, verdict",
    "run: steps of a trace, verdict",
    "csv: one process per round at 7 batches, report",
    "data: npz, header of 500 MB",
    "study: numbers",
    "trace: 1.5 million events with 6 values",
    "trace: 16 GPUs beside 1,900 threads",
    "trace: 50 million empty lines",
)


@pytest.mark.statistical
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", CHOSEN)
def test_it_ends_and_takes_less_than_a_gigabyte(name: str, tmp_path: Path) -> None:
    """Run the command; CPU time beyond :data:`benchmarks.readers.GIVEN_UP_S` and memory beyond 6 GB end it with a
    signal.
    """
    cost = readers.cost(SHAPES[name], tmp_path)
    assert cost.status in (0, 1, 2), cost
    assert cost.peak_mb < readers.MOST_MB, cost
    assert "Traceback" not in cost.said
