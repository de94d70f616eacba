"""Is the memory that a workload needs predicted well, and is “fits” ever wrong? Measured on this CPU.

First, one cell after the other, each in a fresh worker process: networks of all families, training and inference, graph
and XLA, several batches. The peak beyond the framework's own memory is compared with the prediction, which is made in
three ways: as shipped, fitted to all other workloads, and fitted to the workloads of all other families. Printed: the
median error, how often the peak was above the prediction (under-estimates), and how often above its upper bound. Then
searches for the largest batch under small limits, each with what it learns from the ones before, and the rate at which
“fits” was wrong.

    python -m benchmarks.memory [--only 5] [--limit-gb 1.5] [--budget 60]
"""

from __future__ import annotations

import argparse
import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchmarks.real import real_tools
from core.machine.lock import machine_lock
from core.networks.families import network_from_name
from core.studies.memory.answer import memory_answer, wrong_fits
from core.studies.memory.forecast import Forecast, Peak, fit_model
from core.studies.memory.record import MemoryPlan, MemoryStudy
from core.studies.memory.run import MemorySearch, run_memory_study
from core.worker.process import launch_processes
from core.worker.protocol import Prepare, WorkerError
from core.workload.spec import Pipeline, Target, Workload

MOST_BYTES = 3_500_000_000  # limit per cell, since the machine is shared
DEADLINE_S = 180.0
# family, network, mode, optimizer, execution, batch; the first five cover all families
CELLS = (
    ("mlp", "784-1024x8-10", "train", "adam", "graph", 4096),
    ("cnn", "lenet5", "train", "adam", "graph", 4096),
    ("recurrent", "lstm-128x1-28x28-10", "train", "adam", "graph", 1024),
    ("transformer", "transformer-64x1-h2-s64-f4-v10000-2", "train", "adam", "graph", 512),
    ("mlp", "784-512-512-10", "infer", "adam", "graph", 16_384),
    ("mlp", "784-128-10", "train", "adam", "graph", 1),
    ("mlp", "784-128-10", "train", "adam", "graph", 8192),
    ("mlp", "784-512-512-10", "train", "adam", "graph", 1024),
    ("mlp", "784-512-512-10", "train", "sgd", "graph", 16_384),
    ("mlp", "784-4096-4096-10", "train", "adam", "graph", 32),
    ("mlp", "784-4096-4096-10", "train", "momentum", "graph", 2048),
    ("mlp", "784-4096-4096-10", "infer", "adam", "graph", 1024),
    ("mlp", "784-256x32-10", "train", "adam", "graph", 4096),
    ("mlp", "8192-64-10", "train", "adam", "graph", 4096),
    ("mlp", "100-50-10", "train", "adam", "graph", 65_536),
    ("mlp", "784-1024x8-10", "infer", "adam", "graph", 8192),
    ("mlp", "784-1024x8-10", "train", "adam", "xla", 4096),
    ("mlp", "784-512-512-10", "train", "adam", "xla", 8192),
    ("mlp", "784-128-10", "train", "sgd", "xla", 1),
    ("cnn", "lenet5", "train", "adam", "graph", 64),
    ("cnn", "lenet5", "infer", "adam", "graph", 8192),
    ("cnn", "cnn-28x28x1-32x2-k3-max-10", "train", "adam", "graph", 1024),
    ("cnn", "cnn-28x28x1-32x2-k3-max-10", "infer", "adam", "graph", 4096),
    ("cnn", "resnet8", "train", "momentum", "graph", 256),
    ("cnn", "resnet8", "infer", "adam", "graph", 1024),
    ("cnn", "cnn-32x32x3-64x6-k3-bn-max-10", "train", "adam", "graph", 64),
    ("cnn", "resnet8", "train", "momentum", "xla", 256),
    ("recurrent", "lstm-128x1-28x28-10", "infer", "adam", "graph", 4096),
    ("recurrent", "lstm-32x2-128x9-6", "train", "adam", "graph", 512),
    ("recurrent", "gru-256x2-100x64-10", "train", "adam", "graph", 128),
    ("recurrent", "lstm-128x2-100x32-10", "train", "adam", "graph", 256),
    ("recurrent", "lstm-128x1-28x28-10", "train", "adam", "xla", 1024),
    ("transformer", "transformer-64x1-h2-s64-f4-v10000-2", "infer", "adam", "graph", 2048),
    ("transformer", "transformer-64x1-h2-s64-f4-v10000-2", "train", "sgd", "graph", 8),
    ("transformer", "transformer-128x2-h4-s128-f4-v20000-2", "train", "adam", "graph", 64),
    ("transformer", "transformer-128x2-h4-s128-f4-v20000-2", "infer", "adam", "graph", 256),
    ("transformer", "transformer-64x1-h2-s64-f4-v10000-2", "train", "adam", "xla", 256),
)
SEARCHES = (
    ("mlp", "784-512-512-10", "train"),
    ("mlp", "784-1024x8-10", "train"),
    ("cnn", "lenet5", "train"),
    ("cnn", "lenet5", "infer"),
    ("transformer", "transformer-64x1-h2-s64-f4-v10000-2", "train"),
)


@dataclass(frozen=True)
class Cell:
    """A measured cell, and the framework's own memory in its process."""

    peak: Peak
    baseline_bytes: int

    @property
    def family(self) -> str:
        return str(self.peak.workload.network.model_dump()["family"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", type=int, default=len(CELLS), help="number of cells, from the first")
    parser.add_argument("--limit-gb", type=float, default=1.5, help="limit of the searches; 0: none")
    parser.add_argument("--budget", type=float, default=60.0, help="seconds for each search")
    options = parser.parse_args()
    with machine_lock("benchmarks/memory.py"):
        cells = [cell for row in CELLS[: options.only] if (cell := measure(row)) is not None]
        tell_errors(cells)
        if options.limit_gb:
            tell_searches(round(1e9 * options.limit_gb), options.budget)


def measure(row: tuple[str, str, str, str, str, int]) -> Cell | None:
    """Measure one cell in a fresh process; if it fails, print the reason and return None."""
    family, name, mode, optimizer, execution, batch = row
    network = network_from_name(name, family)
    workload = Workload.model_validate({"network": network, "mode": mode, "optimizer": optimizer})
    target = Target.model_validate({"execution": execution})
    (worker,) = launch_processes((target,), DEADLINE_S, limit_bytes=MOST_BYTES)
    request = Prepare(
        workload=workload, pipeline=Pipeline(), batch=batch, warmup_ms=50, latency_samples=0, steps_per_block=1
    )
    try:
        peak, baseline = worker.ask(request, DEADLINE_S).memory_peak_bytes, worker.ready.memory_bytes
    except WorkerError as error:
        print(f"{name}, {mode}, {execution}, batch {batch:,}: {error.reason}")
        return None
    finally:
        worker.close()
    assert peak is not None
    assert baseline is not None
    return Cell(Peak(workload, target, batch, float(peak - baseline)), baseline)


def tell_errors(cells: Sequence[Cell]) -> None:
    ways: dict[str, Callable[[Cell, Cell], bool]] = {
        "as shipped": lambda *_: False,
        "fitted to other workloads": lambda cell, other: cell.peak.workload != other.peak.workload,
        "fitted to other families": lambda cell, other: cell.family != other.family,
    }
    predicted = {name: [predict(cell, cells, may_use) for cell in cells] for name, may_use in ways.items()}
    print(
        f"{'network':<38} {'mode':<6} {'execution':<9} {'batch':>6} "
        f"{'measured MB':>11} {'as shipped':>10} {'fitted':>7}"
    )
    for place, cell in enumerate(cells):
        peak = cell.peak
        shipped, fitted = (rows[place][0] / 1e6 for rows in list(predicted.values())[:2])
        print(
            f"{peak.workload.network.name:<38} {peak.workload.mode:<6} {peak.target.execution:<9} {peak.batch:>6,} "
            f"{peak.added_bytes / 1e6:>11.1f} {shipped:>10.1f} {fitted:>7.1f}"
        )
    print(f"\nThe framework's own: {statistics.median(cell.baseline_bytes for cell in cells) / 1e6:.0f} MB")
    for name, rows in predicted.items():
        logs = [math.log(cell.peak.added_bytes / middle) for cell, (middle, _) in zip(cells, rows, strict=True)]
        whole = [
            abs(cell.peak.added_bytes - middle) / (cell.peak.added_bytes + cell.baseline_bytes)
            for cell, (middle, _) in zip(cells, rows, strict=True)
        ]
        under = sum(error > 0 for error in logs)
        beyond = sum(cell.peak.added_bytes > high for cell, (_, high) in zip(cells, rows, strict=True))
        print(
            f"{name:<26} median error {100 * statistics.median(abs(math.expm1(-e)) for e in logs):.1f} % "
            f"(of the whole process {100 * statistics.median(whole):.1f} %), spread of log {rms(logs):.2f}, "
            f"under-estimates {under} of {len(cells)}, above the upper bound {beyond}"
        )


def rms(values: Sequence[float]) -> float:
    return math.sqrt(statistics.fmean(value**2 for value in values))


def predict(cell: Cell, cells: Sequence[Cell], may_use: Callable[[Cell, Cell], bool]) -> tuple[float, float]:
    """Return predicted bytes beyond the framework's own and the upper bound, from the cells that may be used."""
    used = [other.peak for other in cells if may_use(cell, other)]
    peak = cell.peak
    bounds = Forecast(peak.workload, peak.target, fit_model(used, peak.workload, peak.target), 0).at(peak.batch)
    return bounds.bytes, bounds.high


def tell_searches(limit_bytes: int, budget_s: float) -> None:
    studies: list[MemoryStudy] = []
    print(f"\nThe largest batch within {limit_bytes / 1e9:g} GB:")
    for family, name, mode in SEARCHES:
        workload = Workload.model_validate({"network": network_from_name(name, family), "mode": mode})
        plan = MemoryPlan(workload=workload, target=Target(), limit_bytes=limit_bytes, budget_s=budget_s)
        with real_tools() as tools:
            study = run_memory_study(tools, MemorySearch(plan, tuple(studies)))
        answer = memory_answer(study, studies)
        largest = answer.prediction.largest
        tried = ", ".join(f"{probe.batch:,}{'' if probe.fitted else ' no'}" for probe in study.probes)
        print(f"  {plan.title}: predicted {largest.batch:,} ({largest.low:,} to {largest.high:,})")
        print(f"    {answer.sentence} Tried {tried} in {study.elapsed_s:.0f} s.")
        studies.insert(0, study)
    print(f"\n{wrong_fits(studies).sentence}")


if __name__ == "__main__":
    main()
