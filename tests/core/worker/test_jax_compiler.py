"""XLA's CUDA compiler in a real worker, on a machine without a GPU: six live compilations."""

import importlib.metadata
import threading
import time
from pathlib import Path

import pytest

from core.hardware.catalogue import catalogue
from core.machine.installed import COMPILER_PACKAGE, why_missing
from core.studies.compiled.answer import compile_answer
from core.studies.compiled.record import CompilePlan
from core.studies.compiled.run import CompileSearch, run_compile_study
from core.studies.compiled.shipped import study_of
from core.studies.runner import Cancelled, StudyTools
from core.worker.clock import WallClock
from core.worker.process import launch_processes
from core.workload.spec import Workload

MISSING = why_missing("jax")
pytestmark = [pytest.mark.tensorflow, pytest.mark.skipif(MISSING is not None, reason=MISSING or "")]
CANCEL_S = 3.0


def has_compiler() -> bool:
    try:
        return bool(importlib.metadata.version(COMPILER_PACKAGE))
    except importlib.metadata.PackageNotFoundError:
        return False


needs_compiler = pytest.mark.skipif(not has_compiler(), reason=f"{COMPILER_PACKAGE} is not installed")


def tools(cancel: threading.Event | None = None, report=lambda _: None) -> StudyTools:
    return StudyTools(launch_processes, WallClock(), cancel or threading.Event(), None, report)


def plan(network: str, cards: tuple[str, ...], batches: tuple[int, ...], **workload: str) -> CompileSearch:
    known = catalogue()
    made = Workload.model_validate({"network": network, **workload})
    return CompileSearch(CompilePlan(workload=made, cards=tuple(known[name] for name in cards), batches=batches))


@needs_compiler
def test_steps_are_compiled_without_a_card_an_assembler_or_a_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    before = set(Path("/tmp").glob("breakeven-*"))
    study = run_compile_study(tools(), plan("784-512-512-10", ("T4", "H200"), (1, 32)))
    assert [step.outcome for step in study.steps] == ["measured"] * 4
    kernels = {(step.card, step.batch): step.program.launches for step in study.steps if step.program}
    assert kernels[1, 1] == pytest.approx(23, abs=3), "JAX's traced step on a real H200 launched 23"
    known = study_of(study.plan.workload, "float32", ("T4", "H200"))
    assert known is not None
    names = [card.name for card in known.plan.cards]
    shipped = {(known.plan.cards[s.card].name, s.batch): s.program for s in known.steps}
    for step in study.steps:
        assert step.program == shipped[("T4", "H200")[step.card], step.batch], names
    assert compile_answer(study).cards[0].largest
    assert set(Path("/tmp").glob("breakeven-*")) <= before


@needs_compiler
def test_convolutions_and_loops_are_compiled_for_old_and_new_cards() -> None:
    study = run_compile_study(tools(), plan("lenet5", ("V100-16GB-SXM2",), (32,)))
    (step,) = study.steps
    assert step.program is not None
    assert step.program.count("convolution") == 5
    study = run_compile_study(tools(), plan("lstm-16x1-8x4-2", ("B200",), (4,), mode="infer"))
    (step,) = study.steps
    assert step.program is not None
    assert {kernel.times % 8 for kernel in step.program.kernels if kernel.loop} == {0}


@needs_compiler
def test_a_cancel_ends_a_compilation_within_three_seconds() -> None:
    cancel, asked_s = threading.Event(), []

    def report(at) -> None:
        if at.activity.startswith("Compiling") and not asked_s:
            threading.Timer(1.0, lambda: (asked_s.append(time.monotonic()), cancel.set())).start()
            asked_s.append(time.monotonic())

    with pytest.raises(Cancelled):
        run_compile_study(tools(cancel, report), plan("resnet8", ("T4",), (32,)))
    assert time.monotonic() - asked_s[-1] < CANCEL_S


def test_a_worker_without_the_compiler_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("core.worker.jax.compiler.COMPILER_PACKAGE", "no-such-package")
    from core.hardware.chip import chip
    from core.worker.jax.compiler import compile_step
    from core.worker.protocol import CellFailed, Compile

    workload = Workload(network="784-128-10")
    request = Compile(workload=workload, precision="float32", batch=1, chip=chip(catalogue()["T4"]))
    with pytest.raises(CellFailed, match=r"requirements-compile\.txt"):
        compile_step(request)
