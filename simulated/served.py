"""Inference sweeps of simulated targets whose single steps scatter in a known way, and their true capacity."""

from __future__ import annotations

import numpy as np

from core.rounds.run import Run
from core.studies.serving.queue import StepTimes, capacity_per_s
from core.studies.serving.service import Service
from simulated.runs import BATCHES, make_run, planned, true_step_ms

SINGLES_PER_SETUP = 60
TRUE_SINGLES = 20_000


def make_inference_run(
    seed: int = 0,
    floors_ms: tuple[float, ...] = (0.3, 0.8),
    slopes_ms: tuple[float, ...] = (0.02, 0.01),
    scatter: float = 0.3,
    singles: int = SINGLES_PER_SETUP,
    noise: float = 0.02,
) -> Run:
    """Make an inference run; single steps have a lognormal spread of ``scatter`` (relative) about their own mean."""
    run = make_run(seed, floors_ms=floors_ms, slopes_ms=slopes_ms, noise=noise)
    assert run.plan is not None
    rng = np.random.default_rng(seed)
    setups = []
    for setup in run.setups:
        step_ms = true_step_ms(floors_ms[setup.target], slopes_ms[setup.target], setup.batch)
        drawn = step_ms * _spread(rng, scatter, singles)
        setups.append(setup.model_copy(update={"latency_ms": tuple(float(ms) for ms in drawn)}))
    workload = run.plan.workload.model_copy(update={"mode": "infer"})
    return planned(run, workload=workload).model_copy(update={"setups": tuple(setups)})


def true_capacity_per_s(floor_ms: float, slope_ms: float, scatter: float, service: Service) -> float:
    """Return the capacity of a target with these true step times."""
    step_ms = np.array([true_step_ms(floor_ms, slope_ms, batch) for batch in BATCHES])
    spread = _spread(np.random.default_rng(1), scatter, TRUE_SINGLES)
    return capacity_per_s(StepTimes.of(np.array(BATCHES, dtype=float), step_ms, {1: spread}), service)


def _spread(rng: np.random.Generator, scatter: float, count: int) -> np.ndarray:
    return np.asarray(rng.lognormal(-(scatter**2) / 2, scatter, count))
