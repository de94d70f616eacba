"""A GPU's memory as it is predicted beside its compiler's plan, for forty networks.

    python -m benchmarks.memory_compiled [--gpu A100-80GB-SXM] [--json FILE]

Both leave out libraries, the CUDA context and what else lives on a card. Printed: the ratio for each network, the
median error, how many plans lie inside the 95 % interval, and the same with the copies fitted to all other families.
Needs requirements-compile.txt; nothing is measured. Some six minutes on two idle cores.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
from pathlib import Path

from benchmarks.memory import CELLS
from core.hardware.catalogue import catalogue, find_gpu
from core.networks.families import network_from_name
from core.studies.compiled.record import CompilePlan
from core.studies.compiled.run import CompileSearch, run_compile_study
from core.studies.memory.forecast import Forecast, Peak, fit_model
from core.studies.progress import Progress
from core.studies.runner import Stop, StudyTools
from core.worker.clock import WallClock
from core.worker.process import launch_processes
from core.workload.spec import Mode, Target, Workload

GPU = Target(device="gpu:0", execution="xla")
FURTHER: tuple[tuple[str, str, Mode, str, int], ...] = (
    ("cnn", "resnet20", "train", "adam", 128),
    ("cnn", "mobilenetv2", "train", "adam", 16),
    ("transformer", "bert-tiny-like", "train", "adam", 32),
    ("decoder", "decoder-256x4-h4-s256-f4-v16000-prefill", "infer", "adam", 8),
    ("decoder", "decoder-256x4-h4-s256-f4-v16000-decode", "infer", "adam", 8),
    ("decoder", "decoder-128x2-h4-s128-f4-v8000-prefill", "infer", "adam", 32),
    ("cnn", "resnet20", "infer", "adam", 512),
    ("cnn", "mobilenetv2", "infer", "adam", 32),
    ("transformer", "bert-tiny-like", "infer", "adam", 64),
    ("mlp", "1024-4096-4096-4096-10", "train", "adam", 4096),
    ("mlp", "784-2048-2048-10", "infer", "adam", 256),
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gpu", default="A100-80GB-SXM", help="card of the catalogue")
    parser.add_argument("--json", type=Path, help="write the plans to this file, or read them from it if it is there")
    options = parser.parse_args()
    plans: dict[str, int] = json.loads(options.json.read_text()) if options.json and options.json.exists() else {}
    cells = {key(*cell[1:]): cell for cell in wanted()}
    for name, cell in cells.items():
        if name not in plans and (size := planned_bytes(options.gpu, *cell[1:])) is not None:
            plans[name] = size
    if options.json:
        options.json.write_text(json.dumps(plans, indent=1))
    peaks = [(cells[name][0], peak_of(size, *cells[name][1:])) for name, size in plans.items() if name in cells]
    report("as shipped", [(peak, ()) for _, peak in peaks])
    report("fitted to other families", [(peak, [p for f, p in peaks if f != family]) for family, peak in peaks])
    for mode in ("train", "infer"):
        print(mode, fit_model([peak for _, peak in peaks], workload("784-128-10", mode, "adam"), GPU).copies)
    return 0


def wanted() -> list[tuple[str, str, Mode, str, int]]:
    """Return family, network, mode, optimizer and batch of each cell; recurrent ones run cuDNN's kernels, not XLA's."""
    seen = {(f, n, m, o, b): None for f, n, m, o, _, b in CELLS if f != "recurrent"}
    return [*seen, *FURTHER]  # type: ignore[list-item]


def key(network: str, mode: str, optimizer: str, batch: int) -> str:
    return f"{network} {mode} {optimizer} {batch}"


def workload(network: str, mode: str, optimizer: str) -> Workload:
    return Workload(network=network_from_name(network), mode=mode, optimizer=optimizer)  # type: ignore[arg-type]


def planned_bytes(gpu: str, network: str, mode: str, optimizer: str, batch: int) -> int | None:
    """Return the memory of one compiled step; None if it cannot be compiled."""
    plan = CompilePlan(
        workload=workload(network, mode, optimizer), cards=(find_gpu(gpu, catalogue()),), batches=(batch,)
    )
    tools = StudyTools(launch_processes, WallClock(), Stop(), None, _silent)
    step = run_compile_study(tools, CompileSearch(plan)).steps[0]
    if step.program is None:
        print(f"{key(network, mode, optimizer, batch)}: {step.reason}")
        return None
    return step.program.memory_bytes


def peak_of(size: int, network: str, mode: str, optimizer: str, batch: int) -> Peak:
    return Peak(workload(network, mode, optimizer), GPU, batch, float(size))


def report(title: str, pairs: list[tuple[Peak, list[Peak] | tuple[()]]]) -> None:
    """Print each plan beside its prediction from other plans."""
    errors, inside = [], 0
    print(f"\n{title}:")
    for peak, others in pairs:
        bounds = Forecast(peak.workload, GPU, fit_model(others, peak.workload, GPU), 0).at(peak.batch)
        errors.append(abs(math.log(bounds.bytes / peak.added_bytes)))
        inside += bounds.low <= peak.added_bytes <= bounds.high
        print(
            f"  {peak.workload.title:60} {peak.batch:7,} {peak.added_bytes / 1e6:9.1f} MB, predicted "
            f"{bounds.bytes / 1e6:9.1f} MB, ratio {bounds.bytes / peak.added_bytes:5.2f}"
        )
    print(
        f"  median error {math.expm1(statistics.median(errors)):.0%}, 90th percentile "
        f"{math.expm1(sorted(errors)[int(0.9 * len(errors))]):.0%}; {inside} of {len(errors)} in the interval"
    )


def _silent(_: Progress) -> None: ...


if __name__ == "__main__":
    sys.exit(main())
