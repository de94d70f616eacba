"""Compile the shipped examples and five presets for the catalogue's NVIDIA cards, and keep them with the product.

    python -m benchmarks.record_compiled [--only WORDS] [--budget 1800]

Writes a file per network and mode into core/data/compiled, the steps of a validation included for the cards that are
rented or bought most. Programs of files that are there already are used again. Nothing is measured; it needs
requirements-compile.txt, and one to ten seconds per program on two idle cores.
"""

from __future__ import annotations

import argparse
import gzip
import sys

from core.hardware.catalogue import catalogue
from core.hardware.chip import can_be_compiled_for
from core.studies.compiled.record import CompilePlan, CompileStudy
from core.studies.compiled.run import CompileSearch, run_compile_study
from core.studies.compiled.shipped import path_of, shipped
from core.studies.progress import Progress
from core.studies.runner import Stop, StudyTools
from core.studies.validation.record import parts
from core.worker.clock import WallClock
from core.worker.process import launch_processes
from core.workload.spec import Mode, Workload

STEPS: tuple[tuple[str, Mode, tuple[int, ...]], ...] = (
    ("784-512-512-10", "train", (1, 32, 256, 8192)),
    ("784-512-512-10", "infer", (1, 32, 256, 8192)),
    ("lenet5", "train", (32, 512)),
    ("resnet8", "train", (32, 256)),
    ("bert-tiny-like", "train", (8, 64)),
    ("1024-4096-4096-4096-10", "train", (32, 1024, 4096)),
    ("resnet8", "infer", (1, 64)),
    ("cnn-32x32x3-64x6-k3-bn-max-10", "train", (32, 256)),
)
"""The networks of the shipped sweeps, five presets, and the step of the self-check."""
VALIDATED = (
    "T4",
    "L4",
    "A10G",
    "A100-40GB-SXM",
    "A100-80GB-SXM",
    "RTX-3090",
    "RTX-4090",
    "RTX-5090",
    "H100-SXM",
    "H200",
)
"""Cards for which the steps of a validation ship, too."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="only networks whose name contains this")
    parser.add_argument("--budget", type=float, default=1800.0, help="seconds per network and mode")
    options = parser.parse_args()
    tools = StudyTools(launch_processes, WallClock(), Stop(), None, _report)
    for workload, wanted in planned().items():
        if options.only not in workload.network.name:
            continue
        path = path_of(workload, "float32")
        kept = (shipped(path),) if path.exists() else ()
        studies = [
            run_compile_study(tools, CompileSearch(plan, tuple(study for study in kept if study is not None)))
            for plan in plans(workload, wanted, options.budget)
        ]
        study = merged(studies)
        programs = sum(step.program is not None for step in study.steps)
        print(f"\n{study.title}: {programs} programs, {sum(each.elapsed_s for each in studies):.0f} s", flush=True)
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(gzip.compress(study.to_json().encode(), mtime=0))
    return 0


def planned() -> dict[Workload, dict[str, set[int]]]:
    """Return the batch sizes by card for each workload."""
    cards = [spec.name for spec in catalogue().values() if can_be_compiled_for(spec)]
    wanted: dict[Workload, dict[str, set[int]]] = {}
    for network, mode, batches in STEPS:
        wanted[Workload(network=network, mode=mode)] = {name: set(batches) for name in cards}
    for part in parts():
        by_card = wanted.setdefault(part.workload, {})
        for name in VALIDATED:
            by_card.setdefault(name, set()).update(part.batches)
    return wanted


def plans(workload: Workload, wanted: dict[str, set[int]], budget_s: float) -> list[CompilePlan]:
    """Return a plan for each set of batch sizes, with the cards that want it."""
    sizes = sorted({tuple(sorted(batches)) for batches in wanted.values()})
    cards = catalogue()
    return [
        CompilePlan(
            workload=workload, batches=size, budget_s=budget_s,
            cards=tuple(cards[name] for name, batches in wanted.items() if tuple(sorted(batches)) == size),
        )
        for size in sizes
    ]  # fmt: skip


def merged(studies: list[CompileStudy]) -> CompileStudy:
    """Return one study with the steps of all, without this machine."""
    named = {card.name for study in studies for card in study.plan.cards}
    cards = tuple(spec for spec in catalogue().values() if spec.name in named)
    batches = tuple(sorted({batch for study in studies for batch in study.plan.batches}))
    place = {card.name: index for index, card in enumerate(cards)}
    steps = [
        step.model_copy(update={"card": place[study.plan.cards[step.card].name]})
        for study in studies
        for step in study.steps
    ]
    plan = studies[0].plan.model_copy(update={"cards": cards, "batches": batches})
    ordered = tuple(sorted(steps, key=lambda step: (step.card, step.batch)))
    return studies[0].model_copy(update={"plan": plan, "steps": ordered, "environment": None})


def _report(progress: Progress) -> None:
    print(f"\r{progress.activity} ({progress.cells_done} of {progress.cells_total})   ", end="", flush=True)


if __name__ == "__main__":
    sys.exit(main())
