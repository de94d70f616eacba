"""Sentences about a traced cell follow from its numbers."""

from dataclasses import replace

import pytest

from core.rounds.answer.analyse import analyse
from core.rounds.answer.answer import Fit
from core.traces.record import HostOp, TracedCell
from core.ui.overhead import words
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


@pytest.mark.parametrize("cell", [gpu_cell(32, ratio=1.31), gpu_cell(32, dropped_events=1)], ids=["slowed", "lost"])
def test_a_trace_that_is_not_to_be_trusted_is_no_headline(cell: TracedCell) -> None:
    assert words.headline(cell) == "Trace disturbed; trace again."


def test_the_all_reduce_of_several_devices_is_said_with_its_interval() -> None:
    cell = gpu_cell(32)
    assert words.all_reduced(cell) is None
    step_ms = cell.device.mean().step_ms
    each = [step_ms * (0.2 + 0.01 * (index % 2)) for index in range(len(cell.device.steps))]
    several = cell.model_copy(update={"device": cell.device.model_copy(update={"all_reduces_ms": tuple(each)})})
    said = words.all_reduced(several) or ""
    assert said.startswith("The all-reduce, which sums the gradients of all devices, runs during 2")
    assert " to 2" in said
    one = cell.device.model_copy(update={"all_reduces_ms": tuple(each[:1]), "steps": cell.device.steps[:1]})
    assert words.all_reduced(cell.model_copy(update={"device": one})) is None


def test_small_shares_are_not_rounded_to_nothing() -> None:
    assert [words.percent(share) for share in (0.0, 0.001, 0.614, 1.0)] == ["0 %", "below 1 %", "61 %", "100 %"]


def test_distrust_begins_above_the_ratio_and_gives_the_numbers() -> None:
    assert words.distrust(gpu_cell(ratio=1.29)) is None
    reported = words.distrust(gpu_cell(step_ms=3.2, ratio=1.6))
    assert "3.2 ms under the profiler and 2 ms without it, 1.6 times as long (at most 1.3 is trusted)" in reported


def test_lost_events_are_reported_whatever_the_ratio() -> None:
    reported = words.distrust(gpu_cell(32, ratio=1.0, dropped_events=1_200))
    assert reported is not None
    assert "split at batch 32 is not to be trusted: the profiler lost 1,200 events of the device" in reported
    assert words.distrust(gpu_cell(32, ratio=1.0, dropped_events=0)) is None
    assert "go by the fixed-cost share" in explained(gpu_cell(dropped_events=1), fit_with(0.8))


def test_retraces_are_reported_with_the_remedy() -> None:
    assert words.retraced(gpu_cell()) is None
    assert "again once within" in (words.retraced(gpu_cell(retraces=1)) or "")
    assert "again 3 times within" in (words.retraced(gpu_cell(retraces=3)) or "")


def test_shares_that_agree_need_no_explanation() -> None:
    (reported,) = words.fitted_against_traced(gpu_cell(ratio=1.0), fit_with(0.41))
    assert "agree within 5 percentage points" in reported


@pytest.mark.parametrize(("cell", "why"), [
    (gpu_cell(ratio=1.0), "leaves most of the device idle"),
    (cpu_cell(ratio=1.0), "while any thread runs it"),
])  # fmt: skip
def test_a_higher_fit_is_explained_by_what_does_not_grow(cell: TracedCell, why: str) -> None:
    reported = explained(cell, fit_with(0.8))
    points = round(100 * (0.8 - cell.device.mean().overhead_share))
    assert f"the fixed-cost share is {points} percentage points higher" in reported
    assert why in reported
    assert "farther apart" not in reported


def test_a_profiler_that_slows_hides_part_of_a_higher_fit() -> None:
    assert "1.2 times as long, mostly by work on the host, so without it" in explained(
        gpu_cell(ratio=1.2), fit_with(0.8)
    )


def test_a_higher_trace_is_explained_by_copies_and_the_profiler() -> None:
    reported = explained(gpu_cell(ratio=1.2), fit_with(0.1))
    assert "the overhead share is 29 percentage points higher" in reported
    assert "Copies and waiting for input are 12 %" in reported
    assert "comes out too high" in reported


def test_a_higher_trace_without_copies_or_slowing_is_explained_by_gaps() -> None:
    reported = explained(cpu_cell(ratio=1.0), fit_with(0.1))
    assert "gaps between operations" in reported
    assert "Copies" not in reported
    assert "too high" not in reported


def test_doubts_about_either_side_are_added() -> None:
    doubtful = replace(fit_with(0.8), trusted=False, note="Measure larger batches.")
    reported = explained(gpu_cell(ratio=1.6), doubtful)
    assert "read with care. Measure larger batches." in reported
    assert "go by the fixed-cost share" in reported


def test_without_a_fit_there_is_nothing_to_compare() -> None:
    assert "three batch sizes" in explained(gpu_cell(), None)


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
    assert list(table["why"]) == ["fell back to the host", "fell back to the host", "expected: input pipeline"]
    assert list(table["moved"]) == ["not reported by the trace", "512 bytes", "401 kB"]
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
