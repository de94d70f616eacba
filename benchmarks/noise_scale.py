"""Is the gradient noise scale right for a known answer, and does it predict the steps that other batches take?

Known answer: linear regression with known gradient covariance (simulated/noises.py) in a real worker, whose task it
replaces, in many independent studies, with the coverage of their intervals. Steps: a small network on a teacher's task
is really trained to the same loss at several batches, each at the best learning rate of a grid, and its steps are
printed beside those predicted from the noise scale measured at the reference batch alone.

    python -m benchmarks.noise_scale [--studies 60] [--network 64-128-10] [--optimizer sgd] [--seeds 3]
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys

from benchmarks.real import real_tools
from core.machine.lock import machine_lock
from core.studies.batch.times import steps_at
from core.studies.noise.answer import noise_scale, training_noise
from core.studies.noise.record import GradientDraw, LossPoint, NoisePlan, steps_to
from core.studies.noise.run import run_noise_study
from core.worker.process import ProcessWorker, launch_processes
from core.worker.protocol import CellFailed, OpenTraining, SampleGradients, Train
from core.workload.spec import Target, Workload

DEADLINE_S = 300.0
INPUTS, DISTANCE = 20, 0.5
TRACE, SQUARED = (INPUTS + 1) * DISTANCE**2 + INPUTS, DISTANCE**2  # simulated/noises.py derives both
SMALL, PARTS, DRAWS = 16, 16, 8
REFERENCE, BATCHES = 64, (16, 64, 256, 1024, 4096)
RATES = {"sgd": 0.05, "momentum": 0.005, "adam": 0.001}  # middle of each grid at the reference batch
FACTORS = (0.5, 1.0, 2.0, 4.0, 8.0)
TARGET_LOSS, MOST_SAMPLES = 1.0, 2_000_000

REGRESSION = f"""
import keras
import tensorflow as tf
from core.worker.tensorflow import training

def make_task(request):
    model = keras.Sequential([keras.layers.Input(({INPUTS},)), keras.layers.Dense(1, use_bias=False)])
    model.set_weights([tf.one_hot([0], {INPUTS}) [0][:, None] * {DISTANCE}])
    def draw(samples, seed):
        x = tf.random.stateless_normal((samples, {INPUTS}), seed)
        return x, tf.random.stateless_normal((samples, 1), seed + 1_000_003)
    loss = lambda y, outputs: 0.5 * tf.reduce_mean(tf.square(outputs - y))
    return training.Task(model, loss, draw, draw(256, tf.constant([1, 2])))

training.make_task = make_task
from core.worker.server import main
main()
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--studies", type=int, default=60)
    parser.add_argument("--network", default="64-128-10")
    parser.add_argument("--optimizer", choices=sorted(RATES), default="sgd")
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    with machine_lock("benchmarks/noise_scale.py"):
        regression(options.studies)
        steps(Workload(network=options.network, optimizer=options.optimizer), options.seeds)


def regression(studies: int) -> None:
    """Print the real worker's estimates of the known noise scale, and the coverage of their 95 % intervals."""
    worker = ProcessWorker(Target(), command=(sys.executable, "-c", REGRESSION))
    estimates = []
    try:
        worker.wait_ready(DEADLINE_S)
        plain = Workload(network=f"{INPUTS}-8-2", optimizer="sgd")  # replaced by the worker
        worker.ask(OpenTraining(workload=plain, batch=REFERENCE, learning_rate=0.1), DEADLINE_S)
        for _ in range(studies):
            request = SampleGradients(small=SMALL, parts=PARTS, draws=DRAWS)
            reply = worker.ask(request, DEADLINE_S)
            sizes = {"step": 0, "small": SMALL, "big": SMALL * PARTS}
            estimates.append(noise_scale([GradientDraw(**sizes, small_norm2=s, big_norm2=b) for s, b in reply.norms2]))
    finally:
        worker.close()
    truth = TRACE / SQUARED
    inside = sum(estimate.low <= truth and (estimate.high is None or truth <= estimate.high) for estimate in estimates)
    middle = statistics.median(estimate.value for estimate in estimates if estimate.value is not None)
    print(f"Linear regression: true noise scale {truth:.1f}, median of {studies} estimates {middle:.1f}")
    print(f"95 % intervals that hold the truth: {inside} of {studies} ({inside / studies:.0%})")


def steps(workload: Workload, seeds: int) -> None:
    """Print the steps to the target loss, measured at each batch's best learning rate, beside those predicted."""
    (worker,) = launch_processes((Target(),), DEADLINE_S)
    try:
        measured = {batch: best_rate(worker, workload, batch, seeds) for batch in BATCHES}
    finally:
        worker.close()
    rate = measured[REFERENCE][0]
    plan = NoisePlan(workload=workload, batch=REFERENCE, learning_rate=rate, target_loss=TARGET_LOSS, budget_s=60.0)
    with real_tools() as tools:
        noise = training_noise(run_noise_study(tools, plan))
    if noise is None or noise.value is None or noise.steps is None:
        print("The study did not reach the loss.")
        return
    high = "no upper bound" if noise.high is None else f"{noise.high:,.0f}"
    print(f"\n{workload.title}, loss {TARGET_LOSS:g}, {seeds} seeds; noise scale {noise.value:,.0f} "
          f"(95 %: {noise.low:,.0f} to {high}), {noise.steps:,.0f} steps at batch {REFERENCE}")  # fmt: skip
    print("batch  best rate   steps (seeds from, to)  predicted (95 % from, to)  measured / predicted")
    for batch, (best, took) in measured.items():
        predicted, middle = steps_at(noise, batch), statistics.median(took)
        assert predicted is not None
        print(
            f"{batch:>5} {best:>10.4g} {middle:>7.0f} ({min(took):>6.0f}, {max(took):>6.0f}) {predicted.value:>10.0f} "
            f"({predicted.low or 0:>6.0f}, {predicted.high or math.inf:>6.0f}) {middle / predicted.value:>21.2f}"
        )


def best_rate(worker: ProcessWorker, workload: Workload, batch: int, seeds: int) -> tuple[float, list[float]]:
    """Return the learning rate of the grid with the fewest steps to the target loss, and the steps of each seed.

    The grid scales with the square root of the batch, the middle between the rules in use.
    """
    middle = RATES[workload.optimizer] * math.sqrt(batch / REFERENCE)
    tried = []
    for factor in FACTORS:
        tried.append((steps_to_loss(worker, workload, batch, factor * middle, seed=0), factor * middle))
    first, rate = min(tried)
    return rate, [first, *(steps_to_loss(worker, workload, batch, rate, seed) for seed in range(1, seeds))]


def steps_to_loss(worker: ProcessWorker, workload: Workload, batch: int, rate: float, seed: int) -> float:
    """Return the steps until the held-out loss reaches the target, counted as in a study; infinite if it does not."""
    request = OpenTraining(workload=workload, batch=batch, learning_rate=rate, seed=seed)
    losses = [LossPoint(step=0, loss=worker.ask(request, DEADLINE_S).loss)]
    while losses[-1].step * batch < MOST_SAMPLES:
        try:
            done = worker.ask(Train(steps=max(1, round(0.05 * losses[-1].step))), DEADLINE_S)
        except CellFailed:  # diverged
            return math.inf
        losses.append(LossPoint(step=done.step, loss=done.loss))
        if (needed := steps_to(TARGET_LOSS, losses)) is not None:
            return needed
    return math.inf


if __name__ == "__main__":
    main()
