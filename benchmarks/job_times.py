"""The predicted time of a job against the same script run to its end: 40 short jobs of 10 to 30 s each.

    python -m benchmarks.job_times [--jobs 40] [--budget 20] --file jobs.jsonl

Each script is seen for its first steps only (``--stop-after``), its network is measured on its own target and with XLA,
and the time of the whole job is predicted for one of the two. Then the script runs to its end, without the watch, on
that one. One line per job; the last lines of the output count how often the interval holds, and the median error.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

from core.studies.here import Instruments, measure_here
from core.studies.job.answer import job_answer
from core.studies.job.kind import JOB
from core.studies.job.record import JobPlan, Script
from core.studies.runner import NullRecorder, Stop, unheard
from core.workload.spec import Target

SCRIPT = """
import os
import keras
import numpy as np
from keras import layers

family, width, depth, batch, steps, epochs, jit = os.environ["JOB"].split()
width, depth, batch, steps, epochs = map(int, (width, depth, batch, steps, epochs))
rng = np.random.default_rng(0)
if family == "mlp":
    inputs, hidden = (784,), [layers.Dense(width, activation="relu") for _ in range(depth)]
elif family == "cnn":
    inputs = (24, 24, 3)
    hidden = [layers.Conv2D(width // 16, 3, padding="same", activation="relu") for _ in range(depth)]
    hidden.append(layers.GlobalAveragePooling2D())
else:
    inputs, hidden = (20, 16), [layers.LSTM(width // 8)]
x, y = rng.random((batch * steps, *inputs), dtype=np.float32), rng.integers(0, 10, batch * steps)
model = keras.Sequential([keras.Input(inputs), *hidden, layers.Dense(10)])
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
model.compile("adam", loss, jit_compile=jit == "xla")
model.fit(x, y, batch_size=batch, epochs=epochs, validation_split=0.1, verbose=0)
"""
XLA = Target(execution="xla")
FAMILIES = ("mlp", "mlp", "cnn", "lstm")


def job(number: int) -> dict[str, Any]:
    """Return the choices of a job, the same for each number."""
    rng = random.Random(number)
    family = FAMILIES[number % len(FAMILIES)]
    return {
        "family": family, "width": rng.choice((128, 256, 512)), "depth": rng.choice((1, 2, 3)),
        "batch": rng.choice((16, 32, 64, 128)), "steps": rng.choice((100, 200, 300)),
    }  # fmt: skip


def run_job(number: int, budget_s: float, folder: Path) -> dict[str, Any]:
    """Predict one job and run it to its end."""
    chosen, path = job(number), folder / "train.py"
    path.write_text(SCRIPT, encoding="utf-8")
    target = 1 if number % 2 else 0
    sizes = " ".join(str(value) for value in chosen.values())
    script = Script(path=str(path), python=sys.executable, folder=str(folder))
    seen = chosen["steps"] + chosen["steps"] // 2
    epochs = 1_000  # as many as 20 s hold, once the step is known
    os.environ["JOB"] = f"{sizes} {epochs} default"
    plan = JobPlan(script=script, targets=(XLA,), stop_after=seen, budget_s=budget_s)
    study = measure_here(JOB, plan, NullRecorder(), unheard, Stop(), Instruments())
    answer = job_answer(study)
    if len(answer.targets) <= target:
        return {"job": number, **chosen, "reason": answer.why_not or "not measured on both"}
    aim_s = random.Random(1_000 + number).uniform(12, 26)
    on = answer.targets[target]
    once_s = answer.targets[0].total_s.value - answer.length.epochs * answer.targets[0].epoch_s.value
    epochs = max(2, round((aim_s - once_s) / on.epoch_s.value))
    share = epochs / answer.length.epochs
    # the answer of the same record for a script that asks for so many epochs
    phases = tuple(
        phase.model_copy(update={"facts": phase.facts.model_copy(update={"epochs": epochs})})
        if phase.kind == "fit" else phase for phase in study.capture.phases
    )  # fmt: skip
    capture = study.capture.model_copy(update={"phases": phases})
    total = job_answer(study.model_copy(update={"capture": capture})).targets[target].total_s
    environment = dict(os.environ, JOB=f"{sizes} {epochs} {'xla' if target else 'default'}")
    begin = time.perf_counter()
    subprocess.run([sys.executable, str(path)], check=True, env=environment, capture_output=True)
    real_s = time.perf_counter() - begin
    return {
        "job": number, **chosen, "epochs": epochs, "target": on.name, "share": share, "predicted_s": total.value,
        "low_s": total.low, "high_s": total.high, "real_s": real_s, "inside": total.low <= real_s <= total.high,
        "error": total.value / real_s - 1, "unexplained": answer.unexplained,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=40)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--budget", type=float, default=20.0)
    parser.add_argument("--file", type=Path, required=True)
    chosen = parser.parse_args()
    results = []
    with tempfile.TemporaryDirectory() as folder:
        for number in range(chosen.first, chosen.first + chosen.jobs):
            results.append(run_job(number, chosen.budget, Path(folder)))
            with chosen.file.open("a", encoding="utf-8") as file:
                file.write(json.dumps(results[-1]) + "\n")
            print(results[-1], flush=True)
    done = [result for result in results if "real_s" in result]
    inside = sum(result["inside"] for result in done)
    error = median(abs(result["error"]) for result in done)
    print(f"{len(done)} of {len(results)} jobs: the interval holds in {inside}, median error {100 * error:.1f} %")


if __name__ == "__main__":
    main()
