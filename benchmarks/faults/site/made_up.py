"""A framework that is made up: its steps only sleep, so that a worker of it starts at once and needs little."""

import math
import os
import time

from core.spec import Pipeline  # noqa: F401  # what a real one loads of ours
from core.worker.protocol import BlockDone, CellFailed, Prepared, Ready, Released

START_S, PREPARE_S = 0.4, 0.05
BLOCK_MS = 20.0


def start(hello):
    time.sleep(START_S)
    return Engine(hello.target), Ready(pid=os.getpid(), startup_ms=1e3 * START_S, device=str(hello.target))


class Engine:
    def __init__(self, target):
        slow = target.threads == 1
        self.floor_ms, self.slope_ms = (0.2, 0.02) if slow else (0.6, 0.004)

    def step_ms(self, batch):
        return math.hypot(self.floor_ms, self.slope_ms * batch)

    def prepare(self, request):
        time.sleep(PREPARE_S)
        step_ms = self.step_ms(request.batch)
        return Prepared(
            batch=request.batch, slot=request.slot, build_ms=10.0, first_call_ms=20.0, warmup_steps=4, warmup_ms=10.0,
            warmup_steady=True, latency_ms=(step_ms,) * 3,
            steps_per_block=request.steps_per_block or max(1, math.ceil(BLOCK_MS / step_ms)),
        )  # fmt: skip

    def block(self, request):
        begin = time.perf_counter()
        time.sleep(self.step_ms(request.batch) * request.steps / 1000)
        block_ms = 1000 * (time.perf_counter() - begin)
        return BlockDone(batch=request.batch, steps=request.steps, block_ms=block_ms, slot=request.slot)

    def trace(self, _):
        raise CellFailed("error", "A framework that is made up has no profiler.")

    def release(self, request):
        return Released(batch=request.batch, slot=request.slot)
