"""Inputs of several lengths in real workers: how often each way of padding and calling is traced, and its step."""

import pytest

from core.base.frameworks import Call, Padding
from core.machine.installed import why_missing
from core.networks.families import network_from_name
from core.worker.process import launch_processes
from core.worker.protocol import Prepare, RunBlock
from core.workload.lengths import mix
from core.workload.spec import Pipeline, Target, Workload

pytestmark = pytest.mark.tensorflow

WAIT_S = 180.0
GRU = network_from_name("gru-4x1-20x4-3")
LENGTHS = ((5, 2), (9, 1), (12, 2), (20, 1))
HOST = Pipeline(kind="host")
WAYS: dict[tuple[Call, Padding], int] = {
    ("step", "none"): 2,  # Keras's own functions reduce retracing
    ("function", "none"): 4,
    ("relaxed", "none"): 2,
    ("function", "buckets"): 3,
    ("function", "longest"): 1,
}
"""Traces of each way, for four lengths."""


def test_each_way_is_traced_as_often_as_it_meets_new_shapes() -> None:
    workload = Workload(network=GRU, mode="infer", lengths=LENGTHS)
    (worker,) = launch_processes((Target(threads=1),), WAIT_S)
    try:
        traces = {}
        for slot, (call, pad) in enumerate(WAYS):
            target = Target(threads=1, call=call, pad=pad)
            request = Prepare(
                workload=workload, batch=4, slot=slot, pipeline=HOST, variant=target, warmup_ms=100, latency_samples=1
            )
            setup = worker.ask(request, WAIT_S)
            traces[call, pad] = setup.traces
            assert setup.steps_per_block % len(mix(LENGTHS)) == 0  # whole passes
            block = worker.ask(RunBlock(batch=4, slot=slot, steps=setup.steps_per_block), WAIT_S)
            assert block.steps == setup.steps_per_block
        assert traces == WAYS
    finally:
        worker.close()


def test_training_meets_every_length_without_tracing_each() -> None:
    workload = Workload(network=GRU, lengths=LENGTHS)
    (worker,) = launch_processes((Target(threads=1),), WAIT_S)
    try:
        request = Prepare(workload=workload, batch=4, slot=0, pipeline=HOST, warmup_ms=100, latency_samples=1)
        assert worker.ask(request, WAIT_S).traces == 2
    finally:
        worker.close()


def test_jax_compiles_once_per_length() -> None:
    if (missing := why_missing("jax")) is not None:
        pytest.skip(missing)
    workload = Workload(network=GRU, mode="infer", lengths=LENGTHS)
    (worker,) = launch_processes((Target(framework="jax", threads=1),), WAIT_S)
    try:
        for slot, (pad, compiled) in enumerate((("none", 4), ("longest", 1))):
            target = Target(framework="jax", threads=1, pad=pad)
            request = Prepare(
                workload=workload, batch=4, slot=slot, pipeline=HOST, variant=target, warmup_ms=100, latency_samples=1
            )
            assert worker.ask(request, WAIT_S).traces == compiled
    finally:
        worker.close()
