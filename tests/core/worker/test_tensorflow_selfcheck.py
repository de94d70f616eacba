"""The requests of a self-check to a real worker, and that a planted fault shows in the answers."""

import sys

import numpy as np
import pytest

from core.networks.families import network_from_name
from core.worker.process import COMMAND, ProcessWorker
from core.worker.protocol import CellFailed, Examine, Prepare
from core.workload.spec import Pipeline, Target, Workload

pytestmark = pytest.mark.tensorflow

START_S = CELL_S = 120.0
TRAIN = Workload(network=network_from_name("64-64-10"))
# A worker whose blocks count a millisecond more a step, and whose meter hears of no memory
PLANTED = """
import core.worker.tensorflow.selfcheck as selfcheck
real = selfcheck.CellStep.run
def slow(step, steps):
    return real(step, steps) + 1.0 * steps
selfcheck.CellStep.run = slow
selfcheck.PeakMeter.peak_bytes = lambda meter: 0
from core.worker.server import main
main()
"""


def started(command=COMMAND):
    worker = ProcessWorker(Target(threads=1), None, command)
    worker.wait_ready(START_S)
    return worker


def prepare(worker, slot=0, execution="graph"):
    variant = Target(threads=1, execution=execution)
    request = Prepare(
        workload=TRAIN, pipeline=Pipeline(), batch=16, slot=slot, variant=variant, block_ms=5, warmup_ms=100
    )
    return worker.ask(request, CELL_S)


@pytest.fixture(scope="module")
def worker():
    worker = started()
    yield worker
    worker.close()


def test_loops_are_timed_in_turn(worker):
    steps = prepare(worker).steps_per_block
    found = worker.ask(Examine(look="loops", batch=16, steps=steps), CELL_S)
    assert {len(found.ms[name]) for name in ("block", "bare", "synced")} == {len(found.ms["block"])}
    assert len(found.ms["block"]) >= 9
    assert found.ms["clock"][0] < 0.1
    assert 0 < np.median(found.ms["bare"]) < 1000


def test_a_longer_computation_takes_longer_and_nothing_is_left(worker):
    found = worker.ask(Examine(look="factor"), CELL_S)
    assert found.counts["factor"] == 4
    assert np.median(found.ms["long"]) > 1.5 * np.median(found.ms["short"])
    assert min(found.ms["left"]) < min(found.ms["long"])


def test_a_known_allocation_raises_the_peak(worker):
    counts = worker.ask(Examine(look="memory"), CELL_S).counts
    assert counts["rise_bytes"] == pytest.approx(counts["known_bytes"], rel=0.1)


def test_a_compiled_step_is_one_program_and_another_is_none(worker):
    prepare(worker, 0, "graph")
    prepare(worker, 1, "xla")
    graph, xla = (worker.ask(Examine(look="clusters", batch=16, slot=s, steps=3), CELL_S).counts for s in (0, 1))
    assert (graph["clusters"], xla["clusters"], xla["operations"]) == (0, 3, 0)
    assert graph["operations"] > 3


def test_a_cell_that_is_not_there_is_refused(worker):
    with pytest.raises(CellFailed, match="not prepared"):
        worker.ask(Examine(look="loops", batch=99), CELL_S)


def test_a_slow_loop_and_a_deaf_meter_show():
    worker = started((sys.executable, "-c", PLANTED))
    try:
        steps = prepare(worker).steps_per_block
        found = worker.ask(Examine(look="loops", batch=16, steps=steps), CELL_S)
        assert np.median(found.ms["block"]) > 1 + 0.5 * np.median(found.ms["bare"])
        assert worker.ask(Examine(look="memory"), CELL_S).counts["rise_bytes"] < 0
    finally:
        worker.close()
