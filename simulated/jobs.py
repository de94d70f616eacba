"""Jobs with a known truth, made from numbers: what the watch would write of a script, and a sweep of its network."""

from typing import Any

from core.studies.job.capture import Capture
from core.studies.job.record import JobPlan, JobStudy
from simulated import keras_files
from simulated.runs import make_environment, make_run

BATCH, STEPS, EPOCHS = 32, 100, 20
STEP_S, FIRST_S, IMPORT_S, EPOCH_S, VALIDATION_S, CALLBACK_S = 0.001, 0.5, 3.0, 0.02, 0.1, 0.4
SLOW = {"floors_ms": (0.3, 0.2), "slopes_ms": (0.02, 0.005)}
"""Curves of a sweep whose second target takes 0.36 ms for a batch of 32, and the first 0.94 ms."""


def architecture() -> str:
    """Return the configuration of 784-128-10 as Keras writes it."""
    layers = (
        keras_files.source(784),
        keras_files.layer("Dense", "hidden", "image", units=128, activation="relu", use_bias=True),
        keras_files.layer("Dense", "out", "hidden", units=10, activation="linear", use_bias=True),
    )
    return keras_files.text(keras_files.functional(*layers)).decode()


def fit_phase(**changes: Any) -> dict[str, Any]:
    """Return the phase of a ``fit`` without waits whose first step traces."""
    steps = STEPS * EPOCHS
    seconds = FIRST_S + STEP_S * steps
    phase: dict[str, Any] = {
        "kind": "fit", "model": 0, "calls": 1, "steps": steps, "samples": BATCH * steps, "batch": BATCH,
        "seconds": seconds, "durations_s": [STEP_S] * 500, "traced": [[FIRST_S + STEP_S, 0.0]],
        "epochs": [[seconds / EPOCHS, STEPS]] * EPOCHS,
        "facts": {"epochs": EPOCHS, "steps_per_epoch": STEPS, "batch_size": BATCH, "feed": "ArrayData"},
    }  # fmt: skip
    return phase | changes


def made_capture(*phases: dict[str, Any], seconds: dict[str, float] | None = None, **changes: Any) -> Capture:
    """Return a capture of these phases; the parts are those of one ``fit`` unless some ``seconds`` differ."""
    parts = {
        "start": 0.04, "import": IMPORT_S, "build": 0.05, "own": 0.2, "steps": FIRST_S + STEP_S * STEPS * EPOCHS,
        "epoch": EPOCH_S * EPOCHS, "callbacks": CALLBACK_S, "validation": VALIDATION_S * EPOCHS, "watch": 0.01,
        "end": 0.3,
    } | (seconds or {})  # fmt: skip
    model = {
        "kind": "Functional", "name": "net", "plain": True, "parameters": 101770, "loss": "mse", "optimizer": "Adam",
        "inputs": [[None, 784]], "outputs": [[None, 10]], "architecture": architecture(),
    }  # fmt: skip
    data: dict[str, Any] = {
        "script": "train.py", "ended": "finished", "exit_status": 0, "wall_s": sum(parts.values()), "seconds": parts,
        "callbacks": {"Logger": CALLBACK_S}, "imports": {"keras": 2.9}, "optimizers": {"Adam": False},
        "versions": {"python": "3.11.7", "keras": "3.15.1", "backend": "tensorflow"},
        "phases": list(phases) or [fit_phase()], "models": [model],
    }  # fmt: skip
    return Capture.model_validate(data | changes)


def made_job(seed: int = 0, capture: Capture | None = None, **curves: Any) -> JobStudy:
    """Return a finished job whose sweep compares the CPU with a GPU."""
    run = make_run(seed, batches=(BATCH // 2, BATCH, 2 * BATCH), **(curves or SLOW))
    return JobStudy(
        label="recorded", created_at=run.created_at, elapsed_s=run.elapsed_s, environment=make_environment(),
        capture=capture or made_capture(), sweep=run,
    )  # fmt: skip


def plan(**changes: Any) -> JobPlan:
    return JobPlan(**({"capture": made_capture(), "budget_s": 40.0} | changes))
