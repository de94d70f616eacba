"""Is the hardware model better on compiled kernels than on counted layers? With the chip held out, on the same steps.

    python -m benchmarks.hardware_compiled [--workloads 40] [--programs FILE]

Takes the published inference and training steps of compiled builds (XLA, TensorFlow's graphs with fused kernels) whose
workloads have most rows, compiles each workload at its smallest and largest published batch for one card, and puts the
kernels in the place of the counted operations; between those batches bytes and products are scaled. Both versions are
fitted and judged alike. Prints the median error, the 90th percentile and the error by chip for both. Needs
requirements-compile.txt and ../shared/data/published; some 15 minutes, most of it compiling, kept in FILE.
"""

from __future__ import annotations

import argparse
import dataclasses
import gzip
import json
import sys
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.evidence.operations import everything
from benchmarks.evidence.rows import NetworkRow
from benchmarks.evidence.table import Array, Evidence, joined, of_networks, of_points
from benchmarks.hardware_cv import Data, by_chip, fitted_without, held_out, load, network_rows
from core.base.frameworks import Precision
from core.base.schema import UserError
from core.hardware.catalogue import catalogue
from core.hardware.constants import KINDS, constants
from core.hardware.work import OpTable
from core.studies.compiled.record import CompilePlan, CompileStudy
from core.studies.compiled.run import CompileSearch, run_compile_study
from core.studies.progress import Progress
from core.studies.runner import Stop, StudyFailed, StudyTools
from core.traces.program import CompiledKernel, Program
from core.worker.clock import WallClock
from core.worker.process import launch_processes
from core.workload.spec import Workload

CARD = "A100-40GB-SXM"
PROGRAMS = Path(__file__).parent / "evidence" / "programs_2026_11_28.json.gz"
MOST_PARAMETERS = 120_000_000
OF_CLASS = {"product": "dense", "convolution": "convolution", "fusion": "elementwise"}
Key = tuple[Workload, Precision]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workloads", type=int, default=40, help="as many workloads with most rows")
    parser.add_argument("--programs", type=Path, default=PROGRAMS, help="file of the programs")
    options = parser.parse_args()
    rows = [row for row in network_rows() if usable(row)]
    common = [key for key, _ in Counter((row.workload, row.target.precision) for row in rows).most_common()]
    programs = compiled(common[: options.workloads], rows, options.programs)
    mine = [row for row in rows if (row.workload, row.target.precision) in programs]
    print(f"{len(mine)} published steps of {len(programs)} workloads with a program")
    whole = load()
    counted = of_networks(mine, dict(whole.cards), constants())
    kernels = with_kernels(counted, mine, programs)
    for name, evidence in (("counted layers", counted), ("compiled kernels", kernels)):
        judge(name, Data(joined([joined([of_points(p) for p in everything()]), evidence]), whole.cards, whole.hosts))
    return 0


def usable(row: NetworkRow) -> bool:
    """Tell whether a published step is one of a compiled build, of a network that can be compiled here."""
    is_compiled = (row.target.execution, row.conditions.build) != ("eager", "fused")
    return is_compiled and row.kind != "mlp" and row.workload.network.parameters <= MOST_PARAMETERS


def compiled(wanted: list[Key], rows: list[NetworkRow], path: Path) -> dict[Key, dict[int, Program]]:
    """Return the programs by workload and batch; those in the file are not compiled again."""
    kept: list[CompileStudy] = []
    if path.exists():
        kept = [CompileStudy.from_json(text) for text in json.loads(gzip.decompress(path.read_bytes()))]
    tools = StudyTools(launch_processes, WallClock(), Stop(), None, _silent)
    programs: dict[Key, dict[int, Program]] = {}
    for workload, precision in wanted:
        sizes = sorted({row.batch for row in rows if (row.workload, row.target.precision) == (workload, precision)})
        batches = tuple(sorted({sizes[0], sizes[-1]}))
        known = next((s for s in kept if (s.plan.workload, s.plan.precision) == (workload, precision)), None)
        if known is None:
            try:
                plan = CompilePlan(
                    workload=workload, precision=precision, cards=(catalogue()[CARD],), batches=batches, budget_s=120
                )
                known = run_compile_study(tools, CompileSearch(plan))
            except (StudyFailed, UserError, ValueError) as error:
                print(f"{workload.title} {precision}: {str(error)[:120]}", flush=True)
                continue
            kept.append(known.model_copy(update={"environment": None}))
            path.write_bytes(gzip.compress(json.dumps([study.to_json() for study in kept]).encode()))
            print(f"{workload.title[:60]} {precision} {batches}: {known.elapsed_s:.0f} s", flush=True)
        found = {step.batch: step.program for step in known.steps if step.program is not None}
        if found:
            programs[workload, precision] = found
    return programs


def with_kernels(evidence: Evidence, rows: list[NetworkRow], programs: dict[Key, dict[int, Program]]) -> Evidence:
    """Return the evidence with compiled kernels in place of counted operations."""
    tables = [table_of(programs[row.workload, row.target.precision], row.batch) for row in rows]
    fields = [f.name for f in dataclasses.fields(OpTable)]
    sizes = [len(times) for _, times in tables]
    return dataclasses.replace(
        evidence,
        host_ops=np.array([float((t.kernels * times).sum()) for t, times in tables]),
        row=np.repeat(np.arange(len(rows)), sizes),
        times=np.concatenate([times for _, times in tables]),
        depth=np.zeros(sum(sizes)),
        ops=OpTable(**{name: np.concatenate([getattr(t, name) for t, _ in tables]) for name in fields}),
    )


def table_of(programs: dict[int, Program], batch: int) -> tuple[OpTable, Array]:
    """Return the kernels at a batch and how often each runs, from the program of the nearest compiled batch."""
    nearest = min(programs, key=lambda size: max(size / batch, batch / size))
    kernels = [kernel for kernel in programs[nearest].kernels if kernel.kind != "copy"]
    bytes_by = {size: sum(k.times * k.bytes for k in program.kernels) for size, program in programs.items()}
    low, high = min(programs), max(programs)
    moved = 1.0
    if high > low:
        each = (bytes_by[high] - bytes_by[low]) / (high - low)
        moved = max(0.1, (bytes_by[nearest] + each * (batch - nearest)) / bytes_by[nearest])
    kinds = np.array([KINDS.index(kind_of(kernel)) for kernel in kernels])
    return OpTable(
        kind=kinds,
        kernels=np.ones(len(kernels)),
        flops=np.array([kernel.flops * batch / nearest for kernel in kernels], dtype=float),
        bytes=np.array([kernel.bytes * moved for kernel in kernels], dtype=float),
        tiles=np.full(len(kernels), np.inf),
        tensor=np.array([kernel.kind in ("product", "convolution") for kernel in kernels]),
    ), np.array([float(kernel.times) for kernel in kernels])


def kind_of(kernel: CompiledKernel) -> str:
    if kernel.kind == "convolution" and kernel.winograd:
        return "winograd"
    return OF_CLASS.get(kernel.kind, "elementwise")


def judge(name: str, data: Data) -> None:
    """Print the errors of networks with their chip held out."""
    networks = data.evidence.host_ops > 0
    start, _ = fitted_without(data, np.zeros(len(data.evidence), dtype=bool))
    folds: dict[str, NDArray[np.bool_]] = by_chip(data)
    errors = held_out(data, folds, start, lambda _: None)
    mine = np.isin(data.evidence.family, ["cnn", "transformer"]) & ~np.isnan(errors.error) & networks
    print(f"\n{name}: {mine.sum()} steps, {words(errors.error[mine])}")
    by: dict[str, list[float]] = defaultdict(list)
    for family in ("cnn", "transformer"):
        print(f"  {family:30} {words(errors.error[mine & (data.evidence.family == family)])}")
    for fold, error in zip(errors.fold[mine], errors.error[mine], strict=True):
        by[str(fold)].append(float(error))
    for fold, values in by.items():
        print(f"  {fold:30} {len(values):4} {words(np.array(values))}")


def words(errors: Array) -> str:
    if not len(errors):
        return "none"
    relative = np.exp(np.abs(errors)) - 1
    return f"median {np.median(relative):.1%}, 90th percentile {np.quantile(relative, 0.9):.0%}"


def _silent(_: Progress) -> None: ...


if __name__ == "__main__":
    sys.exit(main())
