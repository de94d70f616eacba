"""The search on a GPU: the card's free memory is checked first, and the memory taken is reported beside the peak."""

from __future__ import annotations

import sys

import pytest

from core.machine.nvml import free_gpu_bytes
from core.studies.memory.answer import memory_answer
from core.studies.memory.export import memory_text
from core.studies.memory.record import MemoryPlan, MemoryStudy
from core.studies.memory.run import CUDA_BYTES, MemorySearch, run_memory_study
from core.studies.runner import StudyFailed
from core.worker.protocol import Prepare, Prepared
from core.workload.spec import Target, Workload
from simulated.fake_nvml import FakeCard, FakeNvml
from simulated.memories import GB, MemoryMachine, MemoryWorker, linear
from simulated.tools import tools_for

GPU = Target(device="gpu:0")
PLAN = MemoryPlan(workload=Workload(network="784-512-512-10"), target=GPU, limit_bytes=6 * GB, budget_s=600.0)


def search(free_bytes: int | None, plan: MemoryPlan = PLAN) -> tuple[MemoryStudy, MemoryMachine]:
    machine = MemoryMachine(linear(30e6, 200e3))
    return run_memory_study(tools_for(machine), MemorySearch(plan), free_gpu=lambda _: free_bytes), machine


def test_a_limit_that_the_card_does_not_have_is_refused_with_what_it_has() -> None:
    with pytest.raises(StudyFailed) as caught:
        search(5 * GB)
    words = str(caught.value)
    assert "is 6.00 GB" in words
    assert "most 4.60 GB" in words
    with pytest.raises(StudyFailed, match=r"0\.4 GB"):
        search(CUDA_BYTES)


def test_what_cuda_takes_must_be_free_too() -> None:
    assert search(PLAN.limit_bytes + CUDA_BYTES)[0].largest_fitted is not None
    with pytest.raises(StudyFailed):
        search(PLAN.limit_bytes + CUDA_BYTES - 1)


def test_a_card_that_says_nothing_is_tried_and_the_doubt_is_said() -> None:
    study, _ = search(None)
    assert [warning.code for warning in study.warnings] == ["gpu_memory_unseen"]
    assert search(8 * GB)[0].warnings == ()


def test_memory_that_is_taken_meanwhile_ends_the_search_and_keeps_what_was_found() -> None:
    free = iter((8 * GB, 8 * GB, 1 * GB))
    machine = MemoryMachine(linear(30e6, 200e3))
    study = run_memory_study(tools_for(machine), MemorySearch(PLAN), free_gpu=lambda _: next(free))
    assert (study.status, len(study.probes)) == ("failed", 2)
    assert "only 1.00 GB" in study.warnings[-1].text


def test_what_the_first_call_took_beside_the_steps_is_kept_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    prepare = MemoryWorker.prepare

    def on_gpu(self: MemoryWorker, request: Prepare, deadline_s: float) -> Prepared:
        done = prepare(self, request, deadline_s)
        return done.model_copy(update={"memory_steady_bytes": (done.memory_peak_bytes or 0) - 10**8})

    monkeypatch.setattr(MemoryWorker, "prepare", on_gpu)
    study, _ = search(8 * GB)
    fitted = next(probe for probe in study.probes if probe.batch == study.largest_fitted)
    assert fitted.steady_bytes == (fitted.peak_bytes or 0) - 10**8
    assert f"first call batch {fitted.batch:,}" in memory_text(study, memory_answer(study))
    assert MemoryStudy.from_json(study.to_json()) == study


def test_without_it_nothing_is_said() -> None:
    study, _ = search(8 * GB)
    assert "first call" not in memory_text(study, memory_answer(study))


@pytest.mark.parametrize(
    ("target", "visible", "free"),
    [
        (GPU, None, 12 * 2**30),
        (Target(device="gpu:1"), None, 20 * 2**30),
        (GPU, "1", 20 * 2**30),
        (Target(device="gpu:2"), None, None),
        (Target(), None, None),
    ],
)
def test_free_memory_is_that_of_the_card_which_the_target_names(
    monkeypatch: pytest.MonkeyPatch, target: Target, visible: str | None, free: int | None
) -> None:
    cards = [
        FakeCard(memory=16 * 2**30, memory_used=4 * 2**30, uuid="GPU-0", bus="00000000:01:00.0"),
        FakeCard(memory=24 * 2**30, memory_used=4 * 2**30, uuid="GPU-1", bus="00000000:02:00.0"),
    ]
    nvml = FakeNvml(cards)
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    monkeypatch.delenv("CUDA_DEVICE_ORDER", raising=False)
    if visible is None:
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    else:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert free_gpu_bytes(target) == free
    assert nvml.open == 0
