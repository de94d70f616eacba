"""Compile the shipped examples and five presets for the catalogue's NVIDIA cards, and keep them with the product.

    python -m benchmarks.record_compiled [--few] [--only WORDS] [--budget 1800]

Writes a file per network and mode into core/data/compiled. Nothing is measured; it needs requirements-compile.txt, and
about a second per program on two idle cores.
"""

from __future__ import annotations

import argparse
import gzip
import sys
import time

from core.hardware.catalogue import catalogue
from core.hardware.chip import can_be_compiled_for
from core.studies.compiled.record import CompilePlan
from core.studies.compiled.run import CompileSearch, run_compile_study
from core.studies.compiled.shipped import path_of
from core.studies.progress import Progress
from core.studies.runner import Stop, StudyTools
from core.worker.clock import WallClock
from core.worker.process import launch_processes
from core.workload.spec import Mode, Workload

STEPS: tuple[tuple[str, Mode, tuple[int, ...]], ...] = (
    ("784-512-512-10", "train", (1, 32, 256, 8192)),
    ("784-512-512-10", "infer", (1, 32, 256, 8192)),
    ("lenet5", "train", (32, 512)),
    ("resnet8", "train", (32, 256)),
    ("bert-tiny-like", "train", (8, 64)),
    ("1024-4096-4096-4096-10", "train", (32, 1024)),
    ("resnet8", "infer", (1, 64)),
    ("cnn-32x32x3-64x6-k3-bn-max-10", "train", (32, 256)),
)
"""The networks of the shipped sweeps, and five presets."""
FEW = ("T4", "A100-80GB-SXM", "RTX-4090", "H100-SXM")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--few", action="store_true", help="only some cards")
    parser.add_argument("--only", default="", help="only networks whose name contains this")
    parser.add_argument("--budget", type=float, default=1800.0, help="seconds per network and mode")
    options = parser.parse_args()
    cards = tuple(
        spec for spec in catalogue().values() if can_be_compiled_for(spec) and (not options.few or spec.name in FEW)
    )
    tools = StudyTools(launch_processes, WallClock(), Stop(), None, _report)
    for network, mode, batches in (step for step in STEPS if options.only in step[0]):
        began_s = time.monotonic()
        workload = Workload(network=network, mode=mode)
        plan = CompilePlan(workload=workload, cards=cards, batches=batches, budget_s=options.budget)
        study = run_compile_study(tools, CompileSearch(plan))
        programs = sum(step.program is not None for step in study.steps)
        took_s = time.monotonic() - began_s
        print(f"\n{study.title}: {programs} of {len(cards) * len(batches)} programs in {took_s:.0f} s", flush=True)
        kept, path = study.model_copy(update={"environment": None}), path_of(workload, plan.precision)
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(gzip.compress(kept.to_json().encode(), mtime=0))
    return 0


def _report(progress: Progress) -> None:
    print(f"\r{progress.activity} ({progress.cells_done} of {progress.cells_total})   ", end="", flush=True)


if __name__ == "__main__":
    sys.exit(main())
