"""The answer of a frontier study: read-outs, verdicts, slices and labels, on machines with known truth."""

from dataclasses import dataclass

import numpy as np
import pytest

from core.studies.frontier.answer import (
    FrontierAnswer,
    band_of,
    frontier_answer,
    lead_sentence,
    reading,
    sign_of,
    slice_of,
)
from core.studies.frontier.record import FrontierOutcome, FrontierStudy, Setting
from core.worker.protocol import Prepare
from core.workload.names import are
from core.workload.spec import Target
from simulated.frontiers import FIRST, SMALL, UNUSED, Truth, machine, make_plan, make_study, measure, random_truth
from simulated.simulation import QUIET, Machine

NAMES = ("1 thread", "all threads")


@dataclass(frozen=True)
class Power:
    """Truth with log2 speed-up of the second: lead + slope · log2(batch / 16) + along · log2(width / 128)."""

    lead: float = 0.0
    slope: float = 0.5
    along: float = 0.0

    def law(self, request: Prepare, target: Target) -> float:
        if target == FIRST:
            return 2.0
        width = request.workload.network.layers[0].activations
        f = self.lead + self.slope * np.log2(request.batch / 16) + self.along * np.log2(width / 128)
        return float(2.0 / 2.0**f)


def study_of(power: Power, **changes: object) -> FrontierStudy:
    plan = make_plan(**SMALL | {"budget_s": 120.0} | changes)
    return measure(Machine(UNUSED, QUIET, law=power.law), plan)


def answer_of(power: Power, **changes: object) -> FrontierAnswer:
    return frontier_answer(study_of(power, **changes))


def test_the_read_out_stands_where_the_truth_is() -> None:
    answer = answer_of(Power(along=0.5), point=(2, 256, 64))
    found = reading(answer, "batch", Setting(2, 256, 1))
    assert found.reach == "from"
    assert found.value == pytest.approx(8.0, rel=0.1)
    assert found.low <= 8.0 <= found.high
    assert found.sentence.startswith("At depth 2 and width 256, all threads are faster from batch ")
    assert found.sentence.endswith("; interpolated).")
    width = reading(answer, "width", Setting(2, 1, 8))
    assert width.value == pytest.approx(256.0, rel=0.1)
    assert width in answer.readings or answer.readings[0].axis == "width"


def test_where_small_batches_pay_it_says_up_to() -> None:
    found = reading(answer_of(Power(slope=-0.5)), "batch", Setting(2, 64, 1))
    assert found.reach == "up to"
    assert found.value == pytest.approx(16.0, rel=0.1)
    assert "up to batch" in found.sentence


@pytest.mark.parametrize(("lead", "reach", "code"), [(6, "throughout", "second"), (-6, "nowhere", "first")])
def test_one_ahead_everywhere(lead: float, reach: str, code: str) -> None:
    answer = answer_of(Power(lead=lead))
    ahead = NAMES[1] if lead > 0 else NAMES[0]
    assert answer.code == f"{code} throughout"
    assert f"{ahead} {are(ahead)} faster throughout" in answer.sentence
    assert {one.reach for one in answer.readings} == {reach}
    assert f"{are(ahead)} faster at every" in answer.readings[0].sentence
    assert answer.readings[0].value is None


def test_a_tie_everywhere_is_not_resolved() -> None:
    answer = answer_of(Power(slope=0.0))
    assert answer.code == "unresolved"
    assert {one.reach for one in answer.readings} == {"unresolved"}
    assert "where on the" in answer.sentence


def test_the_operating_point_comes_first_in_the_verdict() -> None:
    answer = answer_of(Power(), point=(2, 256, 64))
    assert answer.point.ahead == "second"
    assert answer.point.label == "measured"
    assert answer.point.log2_speed_up == pytest.approx(1.0, abs=0.05)
    assert "256, batch 64," in answer.sentence
    assert "1 thread (95" in answer.sentence
    assert answer.at == (2, 256, 64)


def test_a_point_without_rounds_is_said_to_be_interpolated() -> None:
    study = study_of(Power(), point=(2, 256, 64))
    index = study.plan.settings.index(Setting(2, 256, 64))
    without = study.model_copy(update={"rounds": tuple(r for r in study.rounds if r.setting != index)})
    point = frontier_answer(without).point
    assert point.label == "interpolated"
    assert point.low <= 1.0 <= point.high
    assert point.sentence.endswith("; interpolated).")


def test_leads_in_words_name_the_faster_target() -> None:
    at = Setting(1, 2, 3)
    first = lead_sentence(at, NAMES, -1.0, -1.5, -0.5, "measured")
    assert first == (
        "At depth 1, width 2, batch 3, 1 thread is 2.00 times as fast as all threads (95 %: 1.41 to 2.83; measured)."
    )
    tie = lead_sentence(at, NAMES, 0.1, -0.1, 0.3, "measured")
    assert "it is not clear which target is faster: all threads are 0.93 to 1.23 times" in tie
    assert [sign_of(*bounds) for bounds in ((-2.0, -1.0), (-1.0, 1.0), (1.0, 2.0))] == ["first", "tie", "second"]


def test_points_are_measured_and_cells_interpolated() -> None:
    study = make_study()
    answer = frontier_answer(study)
    assert {point.label for point in answer.points} == {"recorded"}
    assert {cell.label for cell in answer.cells} == {"interpolated"}
    assert {c.setting for c in answer.cells if c.measured} == {p.setting for p in answer.points}
    assert sum(point.rounds for point in answer.points) == len(study.rounds)
    for point in answer.points:
        assert point.low < point.log2_speed_up < point.high
        assert point.log2_speed_up == pytest.approx(np.log2(point.first_ms / point.second_ms), abs=0.2)
    truth = random_truth(0).log2_speed_up(np.array([c.setting for c in answer.cells], dtype=float))
    sure = [(cell.second_ahead, value > 0) for cell, value in zip(answer.cells, truth, strict=True)]
    assert all(right == (p > 0.5) for p, right in sure if p < 0.001 or p > 0.999)
    assert f"{len(study.measured)} of 32 settings" in answer.reason


def test_fewer_starts_make_wider_bands() -> None:
    study = make_study()
    one = study.model_copy(update={"rounds": tuple(r for r in study.rounds if r.blocks[0].process == 0)})
    assert band_of(one) > band_of(study) > 1.96


def test_too_few_settings_are_refused() -> None:
    study = make_study()
    few = study.model_copy(update={"rounds": study.rounds[:6]})
    with pytest.raises(ValueError, match="Only 1 settings"):
        frontier_answer(few)


@pytest.mark.parametrize(("fixed", "x", "y"), [("depth", "batch", "width"), ("width", "batch", "depth")])
def test_a_slice_has_the_contour_where_the_truth_is(fixed: str, x: str, y: str) -> None:
    answer = answer_of(Power())
    value = 2 if fixed == "depth" else 64
    found = slice_of(answer, fixed, value)  # type: ignore[arg-type]
    assert (found.x_axis, found.y_axis) == (x, y)
    assert found.mean.shape == found.sd.shape == found.measured.shape == (len(found.y), len(found.x))
    assert found.fine_mean.shape == (len(found.fine_y), len(found.fine_x))
    assert {v for line in found.contour for v in np.round(np.log2(line.x))} == {4.0}
    for line in (*found.lower, *found.upper):
        assert all(8.0 < v < 32.0 for v in line.x)
    low, high = (np.mean([v for line in lines for v in line.x]) for lines in (found.lower, found.upper))
    assert low < 16.0 < high
    have = {p.setting for p in answer.points}
    for i, b in enumerate(found.y):
        for j, a in enumerate(found.x):
            values = {fixed: value, x: a, y: b}
            assert found.measured[i, j] == (Setting(**values) in have)


def test_a_slice_leaves_out_what_cannot_run() -> None:
    study = study_of(Power())
    index = study.plan.settings.index(Setting(2, 256, 64))
    failed = FrontierOutcome(setting=index, target=1, outcome="out_of_memory", reason="No memory.")
    kept = tuple(r for r in study.rounds if r.setting != index)
    answer = frontier_answer(study.model_copy(update={"rounds": kept, "outcomes": (failed,)}))
    found = slice_of(answer, "depth", 2)
    gone = np.isnan(found.mean)
    assert gone.tolist() == [[False] * 4, [False] * 4, [False, False, True, True], [False, False, True, True]]
    assert Setting(2, 256, 64) not in {cell.setting for cell in answer.cells}
    assert answer.failed[0].target == "cpu"
    assert reading(answer, "batch", Setting(2, 1024, 1)).reach == "from"


def test_a_map_of_two_axes() -> None:
    answer = answer_of(Power(), depths=(2,))
    found = slice_of(answer, answer.study.plan.held_axis, 2)
    assert (found.x_axis, found.y_axis) == ("batch", "width")
    assert {one.axis for one in answer.readings} == {"width", "batch"}
    flat = slice_of(answer, "width", 64)
    assert flat.contour == ()
    assert flat.mean.shape == (1, 4)


def test_the_answer_is_the_same_each_time() -> None:
    truth: Truth = random_truth(2)
    study = measure(machine(truth, 2), make_plan(**SMALL))
    assert frontier_answer(study).cells == frontier_answer(study).cells
