"""Requests served by the steps of real workers: a TensorFlow step, a tf.function, LiteRT, JAX, and two instances."""

import importlib.util

import pytest

from core.networks.families import network_from_name
from core.worker.process import launch_processes
from core.worker.protocol import CellFailed, Prepare, Serve
from core.workload.spec import Pipeline, Target, Workload

pytestmark = pytest.mark.tensorflow
WAIT_S = 120.0
WORKLOAD = Workload(network=network_from_name("20-16-4"), mode="infer")
SIZES = (1, 2, 4)
REQUEST = Serve(
    rate_per_s=50.0, sizes=SIZES, limit_ms=200.0, level=0.99, part_s=0.3, parts=3, most_waiting=1000, seed=1
)
TARGETS = ("cpu,threads=1", "cpu,threads=1,call=function", "cpu,threads=1,framework=litert", "cpu,framework=jax")


def prepare(worker, size: int, slot: int) -> None:
    request = Prepare(workload=WORKLOAD, pipeline=Pipeline(kind="host"), batch=size, slot=slot, warmup_ms=200,
                      latency_samples=0, steps_per_block=1)  # fmt: skip
    worker.ask(request, WAIT_S)


@pytest.mark.parametrize("name", TARGETS)
def test_requests_are_served_by_the_target_s_own_step(name: str) -> None:
    target = Target.parse(name)
    if target.framework == "jax" and importlib.util.find_spec("jax") is None:
        pytest.skip("JAX is not installed here")
    (worker,) = launch_processes((target,), WAIT_S)
    try:
        for slot in (0, 1):
            for size in SIZES:
                prepare(worker, size, slot)
        reply = worker.ask(REQUEST, WAIT_S)
        assert (reply.served, reply.overrun) == (60, False)
        assert reply.batches >= 60 / SIZES[-1]
        assert sum(part.requests for part in reply.parts) > 20
        two = REQUEST.model_copy(update={"instances": 2})
        if target.framework == "jax":
            with pytest.raises(CellFailed, match="only one instance"):
                worker.ask(two, WAIT_S)
        else:
            both = worker.ask(two, WAIT_S)
            assert (both.served, both.overrun) == (60, False)
        over = worker.ask(REQUEST.model_copy(update={"rate_per_s": 1e6, "most_waiting": 100}), WAIT_S)
        assert over.overrun
        assert over.served < 1e5
        with pytest.raises(CellFailed):
            worker.ask(REQUEST.model_copy(update={"sizes": (1, 2, 4, 8)}), WAIT_S)
    finally:
        worker.close()
