"""Sentences about a traced cell follow from its numbers."""

import re
from dataclasses import replace

import pytest

from core.rounds.answer.analyse import analyse
from core.rounds.answer.answer import Fit
from core.traces.record import HostOp, TracedCell
from core.ui.overhead import words
from simulated.commands import holds
from simulated.runs import make_run
from tests.support.traced import GEMM, HOST_OPS, RELU, cpu_cell, gpu_cell


def fit_with(share: float, batch: int = 32) -> Fit:
    """Return a fit with this overhead share at the batch: q = 1 and a step of 1 ms."""
    fit = analyse(make_run(4)).fits[1]
    assert fit is not None
    return replace(fit, q=1.0, floor_ms=share, slope_ms=(1 - share) / batch)


def explained(cell: TracedCell, fit: Fit | None) -> str:
    return " ".join(words.fitted_against_traced(cell, fit))


@pytest.mark.parametrize(("cell", "sentence"), [
    (gpu_cell(32), "At batch 32 the device computes during 61 % (61 to 61 %) of a traced step; the largest part of the "
                   "rest is launch and host work (25 %)."),
    (cpu_cell(1024), "At batch 1,024 operations run during 70 % (70 to 70 %) of a traced step; the rest is framework "
                     "between operations."),
    (cpu_cell(8, shares={"compute": 1.0}),
     "At batch 8 operations run during 100 % (100 to 100 %) of a traced step; nothing else takes time."),
], ids=["gpu", "cpu", "all compute"])  # fmt: skip
def test_headline_names_compute_and_the_largest_part_of_the_overhead(cell: TracedCell, sentence: str) -> None:
    assert words.headline(cell) == sentence


@pytest.mark.parametrize("cell", [cpu_cell(32, ratio=1.31), gpu_cell(32, dropped_events=1)], ids=["slowed", "lost"])
def test_a_trace_that_is_not_to_be_trusted_is_no_headline(cell: TracedCell) -> None:
    assert words.headline(cell).startswith("Trace disturbed")


def test_a_slowed_profiler_leaves_what_the_gpu_itself_timed() -> None:
    cell = gpu_cell(32, ratio=1.5)
    assert words.kernel_share(cell) == pytest.approx(1.5 * (1 - cell.device.mean().overhead_share))
    assert "without the profiler" in words.headline(cell)
    assert words.kernel_share(gpu_cell(32, ratio=50.0)) is None, "more than the step"


def test_the_all_reduce_of_several_devices_is_said_with_its_interval() -> None:
    cell = gpu_cell(32)
    assert words.all_reduced(cell) is None
    step_ms = cell.device.mean().step_ms
    each = [step_ms * (0.2 + 0.01 * (index % 2)) for index in range(len(cell.device.steps))]
    several = cell.model_copy(update={"device": cell.device.model_copy(update={"all_reduces_ms": tuple(each)})})
    said = words.all_reduced(several) or ""
    assert re.search(r"during 2.*to 2", said)
    one = cell.device.model_copy(update={"all_reduces_ms": tuple(each[:1]), "steps": cell.device.steps[:1]})
    assert words.all_reduced(cell.model_copy(update={"device": one})) is None


def test_small_shares_are_not_rounded_to_nothing() -> None:
    assert [words.percent(share) for share in (0.0, 0.001, 0.614, 1.0)] == ["0 %", "below 1 %", "61 %", "100 %"]


def test_distrust_begins_above_the_ratio_or_with_a_lost_event_and_gives_the_numbers() -> None:
    assert words.distrust(gpu_cell(ratio=1.29)) is None
    holds(words.distrust(gpu_cell(step_ms=3.2, ratio=1.6)) or "", "3.2 ms", "2 ms", "1.6 times", "at most 1.3")
    assert words.distrust(gpu_cell(32, ratio=1.0, dropped_events=0)) is None
    holds(words.distrust(gpu_cell(32, ratio=1.0, dropped_events=1_200)) or "", "batch 32", "lost 1,200 events")


def test_retraces_are_reported_with_the_remedy() -> None:
    assert words.retraced(gpu_cell()) is None
    assert "again once within" in (words.retraced(gpu_cell(retraces=1)) or "")
    assert "3 times within" in (words.retraced(gpu_cell(retraces=3)) or "")


@pytest.mark.parametrize(("cell", "fit", "parts", "absent"), [
    (gpu_cell(ratio=1.0), fit_with(0.41), ["agree within 5 percentage points"], []),
    (gpu_cell(ratio=1.0), fit_with(0.8),
     ["the fixed-cost share is 41 percentage points higher", "leaves most of the device idle"], ["farther apart"]),
    (cpu_cell(ratio=1.0), fit_with(0.8), ["50 percentage points higher", "while any thread runs it"],
     ["farther apart"]),
    (gpu_cell(ratio=1.2), fit_with(0.8), ["1.2 times as long, mostly by work on the host, so without it"], []),
    (gpu_cell(ratio=1.2), fit_with(0.1),
     ["the overhead share is 29 percentage points higher", "waiting for input are 12 %", "comes out too high"], []),
    (cpu_cell(ratio=1.0), fit_with(0.1), ["gaps between operations"], ["Copies", "too high"]),
    (gpu_cell(ratio=1.6), replace(fit_with(0.8), trusted=False, note="Measure larger batches."),
     ["read with care. Measure larger batches.", "go by the fixed-cost share"], []),
    (gpu_cell(dropped_events=1), fit_with(0.8), ["go by the fixed-cost share"], []),
    (gpu_cell(), None, ["three batch sizes"], []),
], ids=["agree", "idle device", "threads", "slowed", "copies", "gaps", "doubts", "lost events", "no fit"])  # fmt: skip
def test_what_separates_the_two_shares_is_explained(
    cell: TracedCell, fit: Fit | None, parts: list[str], absent: list[str]
) -> None:
    reported = explained(cell, fit)
    holds(reported, *parts)
    assert not [part for part in absent if part in reported]


@pytest.mark.parametrize(("cell", "sentence"), [
    (gpu_cell(), "2 operations fell back to the host and took 0.125 ms of a traced step. 1 operation more ran there as "
                 "expected."),
    (gpu_cell(host_ops=HOST_OPS[:1]), "nothing fell back"),
    (gpu_cell(host_ops=()), "no operation is known"),
    (cpu_cell(), "The target is the host itself"),
], ids=["fallbacks", "none", "unknown", "cpu"])  # fmt: skip
def test_placement_counts_fallbacks_apart_from_what_belongs_on_the_host(cell: TracedCell, sentence: str) -> None:
    assert sentence in words.placement(cell)


def test_host_table_has_fallbacks_first_and_does_not_invent_bytes() -> None:
    table = words.host_table(make_run(4), gpu_cell())
    assert list(table["operation"]) == ["model/Where", "model/Unique", "while/IteratorGetNext"]
    assert [why.startswith("fell back") for why in table["why"]] == [True, True, False]
    assert table["why"][2] == f"expected: {words.WHY['input']}"
    assert list(table["moved"]) == [words.NO_BYTES, "512 bytes", "401 kB"]
    assert set(table["label"]) == {"recorded"}


def test_every_reason_of_the_reader_has_words() -> None:
    for why in ("input", "summary", "string", "control"):
        op = HostOp(name="a", op_type="A", count=1, total_ms=1.0, expected=True, why=why)
        (said,) = words.host_table(make_run(4), gpu_cell(host_ops=(op,)))["why"]
        assert said == f"expected: {words.WHY[why]}"


def test_kernels_have_a_readable_name_the_whole_one_and_their_share_of_busy_time() -> None:
    table = words.kernels_table(gpu_cell(step_ms=2.0))
    assert list(table["kernel"]) == ["cutlass::Kernel2", "Eigen::internal::EigenMetaKernel"]
    assert list(table["name"]) == [GEMM, RELU]
    assert table["busy_pct"][0] == pytest.approx(100 * 2.0 / (4 * 2.0 * 0.61))


@pytest.mark.parametrize(("name", "short"), [
    ("sequential/dense/MatMul:_MklMatMul", "sequential/dense/MatMul:_MklMatMul"),
    ("ampere_sgemm_128x64_nn", "ampere_sgemm_128x64_nn"),
    ("void (anonymous namespace)::bn_fw<float, (int)4>(float*)", "bn_fw"),
    ("<<<>>>", "<<<>>>"),
    ("(x)", "(x)"),
])  # fmt: skip
def test_readable_names(name: str, short: str) -> None:
    assert words.readable(name) == short
