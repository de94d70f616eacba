"""The batcher on a virtual clock: who is served when, what an overrun queue costs, and what is recorded."""

import time

import numpy as np
import pytest

from core.worker.protocol import Serve
from core.worker.serving import Queue, RealClock, gaps, serve
from simulated.simulation import VirtualClock, VisitClock

REQUEST = Serve(
    rate_per_s=1000.0, sizes=(1, 2, 4, 8), limit_ms=10.0, level=0.99, part_s=0.5, parts=4, most_waiting=1000, seed=1
)


def played(step_ms: float, late_ms: float = 0.0, **changes: object):
    """Return the reply of a server of constant step time, whose batcher begins each batch so much too late."""
    clock = VirtualClock()

    class Late(VisitClock):
        def wait(self, seconds: float) -> None:
            super().wait(seconds + late_ms / 1000)

    def run(size: int) -> None:
        sizes.append(size)
        clock.advance(step_ms / 1000)

    sizes: list[int] = []
    return serve(REQUEST.model_copy(update=changes), [run], Late(clock, 0.0)), sizes


def test_a_server_that_keeps_up_serves_every_request_within_two_steps() -> None:
    reply, sizes = played(2.0)
    assert (reply.overrun, reply.served, sum(sizes), len(sizes)) == (False, 2500, 2500, reply.batches)
    assert sum(part.requests for part in reply.parts) == pytest.approx(2000, rel=0.1)
    assert all(part.missed == 0 and 2.0 <= part.latency_ms <= 4.0 for part in reply.parts)
    assert reply.late_ms < 0.01


def test_single_requests_wait_as_m_d_1_says() -> None:
    reply, _ = played(0.5, sizes=(1,), parts=40, level=0.5, limit_ms=0.5001)
    waited = sum(part.missed for part in reply.parts) / sum(part.requests for part in reply.parts)
    assert waited == pytest.approx(0.5, abs=0.03)  # a request waits with the probability of a busy server, its load


def test_an_overrun_queue_ends_the_visit_and_what_waited_has_missed() -> None:
    reply, sizes = played(20.0, most_waiting=50)
    assert reply.overrun
    assert reply.served == sum(sizes) < 100
    assert reply.parts == ()  # it was cut off while it filled
    behind, _ = played(9.0, most_waiting=100)
    last = behind.parts[-1]
    assert behind.overrun
    assert last.missed == last.requests > 0


def test_a_late_batcher_is_found() -> None:
    assert played(0.1, late_ms=3.0)[0].late_ms == pytest.approx(3.0, rel=0.05)


def test_the_oldest_waits_for_others_at_most_the_delay() -> None:
    request = REQUEST.model_copy(update={"max_delay_ms": 5.0})
    queue = Queue((0.0, 0.001, 0.1), request)
    assert queue.ready_s() == 0.005
    assert queue.take(0.005) == 2
    assert queue.ready_s() == pytest.approx(0.105)
    full = Queue(tuple(0.001 * i for i in range(9)), request)
    assert full.ready_s() == 0.005
    assert Queue(tuple(0.0001 * i for i in range(9)), request).ready_s() == pytest.approx(0.0007)


def test_two_instances_share_the_queue() -> None:
    def run(_: int) -> None:
        time.sleep(0.002)

    request = REQUEST.model_copy(update={"part_s": 0.1, "parts": 2})
    reply = serve(request, [run, run], RealClock(spins=False))
    assert reply.served == 300
    assert not reply.overrun


@pytest.mark.parametrize("burstiness", [0.0, 1.0, 4.0])
def test_gaps_have_the_mean_and_the_burstiness_asked_for(burstiness: float) -> None:
    drawn = gaps(np.random.default_rng(0), burstiness, (200_000,))
    assert drawn.mean() == pytest.approx(1.0, rel=0.03)
    assert drawn.var() == pytest.approx(burstiness, rel=0.05, abs=0.01)
