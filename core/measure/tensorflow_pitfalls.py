"""The process behind :mod:`core.measure.pitfalls`: times one workload by each method on the CPU.

Reads one JSON line (``workload``, ``batch``) and writes one JSON line (``method``, ``step_ms``) for each method; ends
when stdin closes.
"""

from __future__ import annotations

import json
import queue
import statistics
import threading
import time
from collections.abc import Iterator
from typing import Any

from core.measure.protocol import Prepare, RunBlock
from core.measure.worker import end_with_stdin, take_stdout
from core.spec import Pipeline, Target, Workload

PREDICT_CALLS = 5
EPOCH_STEPS = 20
OUR_BLOCKS = 5
TARGET = Target()


def measure(workload: Workload, batch: int) -> Iterator[tuple[str, float]]:
    """Method and its milliseconds a step, one after the other; ``infer`` and ``train`` are our own figures.

    The wall clock is ``time.time`` where the method is an article's: that is part of the method.
    """
    from core.measure.tensorflow_model import CellStep, build_model
    from core.measure.tensorflow_pipeline import make_arrays, make_feed

    train = workload.model_copy(update={"mode": "train"})
    infer = workload.model_copy(update={"mode": "infer"})
    (x,) = make_arrays(infer, batch)
    model = build_model(infer, TARGET)
    times_s = []
    for _ in range(PREDICT_CALLS):
        start = time.time()
        model.predict(x, batch_size=batch, verbose=0)
        times_s.append(time.time() - start)
    yield "predict_first", 1000 * statistics.fmean(times_s)
    yield "predict_loop", 1000 * statistics.fmean(times_s[1:])

    feed = make_feed(infer, TARGET, Pipeline(), batch, "CPU:0")
    step = CellStep(build_model(infer, TARGET), infer, feed)
    with step.fed():
        start = time.time()
        step.call()
        took_s = time.time() - start
    yield "single_call", 1000 * took_s
    yield "infer", ours(infer, batch)

    arrays = make_arrays(train, EPOCH_STEPS * batch)
    model = build_model(train, TARGET)
    start = time.time()
    model.fit(*arrays, batch_size=batch, epochs=1, verbose=0)
    yield "first_epoch", 1000 * (time.time() - start) / EPOCH_STEPS
    yield "train", ours(train, batch)


def ours(workload: Workload, batch: int) -> float:
    """Median step of a few blocks, by this project's rules, on a host array as the other methods use."""
    from core.measure.tensorflow_worker import TensorFlowEngine

    engine = TensorFlowEngine(TARGET)
    prepared = engine.prepare(Prepare(workload=workload, pipeline=Pipeline(kind="host"), batch=batch))
    steps = prepared.steps_per_block
    step_ms = statistics.median(
        engine.block(RunBlock(batch=batch, steps=steps)).block_ms / steps for _ in range(OUR_BLOCKS)
    )
    engine.release(batch)
    return step_ms


def main() -> None:
    out = take_stdout()
    requests: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=end_with_stdin, args=(requests,), daemon=True).start()
    request: dict[str, Any] = json.loads(requests.get())
    for method, step_ms in measure(Workload.model_validate(request["workload"]), int(request["batch"])):
        out.write(json.dumps({"method": method, "step_ms": step_ms}).encode() + b"\n")


if __name__ == "__main__":
    main()
