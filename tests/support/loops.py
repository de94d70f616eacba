"""Keras's own loop beside blocks, with known truth. Nothing about it was measured."""

import math

import numpy as np

from core.base.evidence import LoopPair, LoopTimes
from core.rounds.run import LoopCost, Run

STEPS = 40


def loop_cost(
    target: int = 0, added_ms: float = 0.2, step_ms: float = 0.5, call_ms: float = 8.0, batch: int = 4,
    noise: float = 0.0, seed: int = 0, pairs: int = 9,
) -> LoopCost:  # fmt: skip
    """Return calls that cost ``call_ms`` and add ``added_ms`` to each step; ``noise`` is relative, heavy-tailed."""
    rng = np.random.default_rng(seed)
    true_ms = [call_ms + STEPS * (step_ms + added_ms), call_ms + 3 * STEPS * (step_ms + added_ms), 2 * STEPS * step_ms]
    rows = [[ms * math.exp(noise * float(rng.standard_t(3))) for ms in true_ms] for _ in range(pairs)]
    taken = tuple(LoopPair(short_ms=short, long_ms=long, own_ms=own) for short, long, own in rows)
    return LoopCost(target=target, batch=batch, times=LoopTimes(batch=batch, steps=STEPS, pairs=taken))


def with_loops(run: Run, *costs: LoopCost) -> Run:
    return run.model_copy(update={"loops": costs})
