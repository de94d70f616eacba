"""A simulated compiler: programs whose kernels and memory follow from the workload by a known law."""

from __future__ import annotations

from typing import Any

from core.base.evidence import Outcome
from core.hardware.catalogue import catalogue
from core.studies.compiled.record import CompilePlan, CompileStudy
from core.studies.compiled.run import CompileSearch, run_compile_study
from core.traces.program import CompiledKernel
from core.worker.protocol import CellFailed, Compile, StepCompiled, WorkerLost
from core.workload.spec import Target, Workload
from simulated.runs import make_environment
from simulated.simulation import Curve, Machine
from simulated.tools import tools_for

COMPILE_S = 2.0
WORKLOAD = Workload(network="784-128-10")
FIXED_BYTES, SAMPLE_BYTES = 2_000_000, 10_000
CARDS = ("T4", "RTX-4090")


def true_kernels(batch: int) -> tuple[CompiledKernel, ...]:
    """Return one product per layer, fusions, a copy, and from batch 32 on two fusions more."""
    return (
        CompiledKernel(kind="product", layer="dense", bytes=4 * (784 * batch + 784 * 128), flops=2 * 784 * 128 * batch),
        CompiledKernel(kind="product", layer="dense_1", bytes=4 * (128 * batch + 1280), flops=2 * 1280 * batch),
        CompiledKernel(kind="fusion", layer="adam", times=3 if batch < 32 else 5, bytes=400_000),
        CompiledKernel(kind="copy", times=2, bytes=8),
    )


class CompilerMachine(Machine):
    """Workers that compile, each program in :data:`COMPILE_S`. ``faults`` are outcomes by batch size."""

    def __init__(self, seed: int = 0, faults: dict[int, Outcome] | None = None, lost: bool = False) -> None:
        super().__init__((Curve(1.0, 0.1),), seed=seed, startup_s=4.0)
        self.failing, self.lost, self.compiled = faults or {}, lost, list[int]()

    def launch(self, targets: tuple[Target, ...], deadline_s: float, *rest: Any, **limits: Any) -> tuple[Any, ...]:
        assert limits.pop("limit_bytes") > 0
        (worker,) = super().launch(targets, deadline_s, *rest)
        worker.compile = self.answer  # type: ignore[attr-defined]
        return (worker,)

    def answer(self, request: Compile, deadline_s: float) -> StepCompiled:
        assert deadline_s > COMPILE_S
        self.clock.advance(COMPILE_S)
        self.compiled.append(request.batch)
        if (outcome := self.failing.get(request.batch)) is not None:
            raise (WorkerLost if self.lost else CellFailed)(outcome, f"Planted: {outcome}.")
        return StepCompiled(
            batch=request.batch, compile_ms=1000 * COMPILE_S, kernels=true_kernels(request.batch),
            argument_bytes=FIXED_BYTES, output_bytes=FIXED_BYTES, alias_bytes=FIXED_BYTES,
            temporary_bytes=SAMPLE_BYTES * request.batch,
        )  # fmt: skip


def plan(**changes: Any) -> CompilePlan:
    """Return a plan of two cards at two batch sizes."""
    known = catalogue()
    values = {"workload": WORKLOAD, "cards": tuple(known[name] for name in CARDS), "batches": (1, 64), **changes}
    return CompilePlan.model_validate(values)


def make_compile_study(machine: CompilerMachine | None = None, **changes: Any) -> CompileStudy:
    """Return a finished study of the simulated compiler."""
    study = run_compile_study(tools_for(machine or CompilerMachine()), CompileSearch(plan(**changes)))
    return study.model_copy(update={"environment": make_environment(), "created_at": "2026-01-06T09:00:00+00:00"})
