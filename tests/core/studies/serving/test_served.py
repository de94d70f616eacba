"""A serving study on simulated servers of known capacity: its course, its conclusions, and what it refuses."""

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from core.base.schema import UserError
from core.rounds.answer.analyse import analyse
from core.studies.batch.shapes import Quantity
from core.studies.kind import Context
from core.studies.serving.answer import JUDGED, Judged, bracket, missed_share, next_rate, served_answer
from core.studies.serving.export import served_sentences
from core.studies.serving.kind import SERVING
from core.studies.serving.prediction import plan_to_serve, serving_answer
from core.studies.serving.queue import StepTimes, capacity_per_s
from core.studies.serving.run import run_serving
from core.studies.serving.service import Service
from core.workload.spec import Workload
from simulated.kinds import STILL
from simulated.kinds.serving import CURVES, PREDICTED, SERVICE, machine, make_serving_study, serving_plan
from simulated.served import make_inference_run
from simulated.tools import tools_for

MACHINES = 20


def test_the_rates_that_keep_and_miss_enclose_the_true_capacity() -> None:
    answer = served_answer(run_serving(tools_for(machine(1, STILL)), serving_plan(budget_s=90.0)))
    for target, curve in zip(answer.targets, CURVES, strict=True):
        sizes = np.arange(1, SERVICE.max_batch + 1)
        padded = [curve.step_ms(next(size for size in SERVICE.sizes if size >= batch)) for batch in sizes]
        truth = capacity_per_s(StepTimes.of(sizes, np.array(padded)), SERVICE)
        assert target.keeps <= 1.01 * truth
        assert target.misses >= 0.99 * truth
        assert target.misses <= 1.1 * target.keeps
        assert target.agrees
        assert target.needed_s is None


class Normal:
    """A machine's random numbers whose tails are normal: those of Student's t have no largest quantile to play."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng

    def __getattr__(self, name: str) -> Any:
        return getattr(self._rng, name)

    def standard_t(self, _: float) -> float:
        return float(self._rng.standard_normal())


@pytest.mark.statistical
def test_steps_that_scatter_leave_the_true_capacity_inside() -> None:
    scatter, sizes = 0.1, np.arange(1, SERVICE.max_batch + 1)
    spread = np.exp(scatter * np.random.default_rng(0).standard_normal(20_000))
    truths = []
    for curve in CURVES:
        padded = [curve.step_ms(next(size for size in SERVICE.sizes if size >= batch)) for batch in sizes]
        truths.append(capacity_per_s(StepTimes.of(sizes, np.array(padded), {1: spread}), SERVICE))
    widths, held = [], 0
    for seed in range(MACHINES):
        made = machine(seed, dataclasses.replace(STILL, tail=scatter))
        made.rng = Normal(made.rng)  # type: ignore[assignment]
        answer = served_answer(run_serving(tools_for(made), serving_plan(budget_s=120.0)))
        for target, truth in zip(answer.targets, truths, strict=True):
            held += target.keeps <= 1.01 * truth and target.misses >= 0.99 * truth
            widths.append(target.misses / target.keeps)
    assert held >= 0.95 * 2 * MACHINES
    assert np.median(widths) < 1.1


def test_a_wrong_prediction_is_followed_and_named() -> None:
    wrong = tuple(Quantity(each.value / 3, each.low / 3, each.high / 3) for each in PREDICTED)
    answer = served_answer(run_serving(tools_for(machine(1, STILL)), serving_plan(predicted=wrong, budget_s=120.0)))
    assert [target.agrees for target in answer.targets] == [False, False]
    assert all(target.keeps > target.predicted.high for target in answer.targets)
    assert "unlike what was predicted" in served_sentences(answer)[0]


def test_the_share_that_missed_has_an_interval_that_holds_and_knows_of_clusters() -> None:
    rng, held, truth = np.random.default_rng(0), 0, 0.02
    for _ in range(400):
        # half of the parts have all the misses, as where a queue builds up
        share = truth * 2 * (rng.random(24) < 0.5)
        requests = np.full(24, 400)
        known = missed_share(requests.tolist(), rng.binomial(requests, share).tolist())
        held += known.low <= truth <= known.high
    assert held >= (JUDGED - 0.02) * 400
    even = missed_share([400] * 24, [8] * 24)
    uneven = missed_share([400] * 24, [16, 0] * 12)
    assert uneven.high - uneven.low > 1.5 * (even.high - even.low)
    none = missed_share([100] * 6, [0] * 6)
    assert (none.value, none.low) == (0.0, 0.0)
    assert none.high == pytest.approx(6.63 / (600 + 6.63), rel=0.01)
    assert missed_share([100], [1]).low is None


def rate(per_s: float, state: str, visits: int = 2) -> Judged:
    return Judged(per_s, 1000, Quantity(0.0, 0.0, 0.0), state, None, 1.0, visits)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("rates", "expected"),
    [
        ((), 90.0),
        ((rate(90.0, "keeps"),), 110.0),
        ((rate(90.0, "keeps"), rate(110.0, "keeps")), 70.0),
        ((rate(70.0, "keeps"), rate(90.0, "keeps"), rate(110.0, "unclear")), 110.0),
        ((rate(70.0, "keeps"), rate(90.0, "keeps"), rate(110.0, "keeps")), 110.0 * 11 / 9),
        ((rate(70.0, "misses"), rate(90.0, "misses"), rate(110.0, "misses")), 70.0 * 9 / 11),
        ((rate(70.0, "keeps"), rate(90.0, "keeps"), rate(110.0, "misses")), math.sqrt(90.0 * 110.0)),
        ((rate(70.0, "keeps"), rate(90.0, "keeps"), rate(95.0, "misses"), rate(110.0, "misses")), None),
    ],
)
def test_the_next_rate_is_where_it_is_not_clear(rates: tuple[Judged, ...], expected: float | None) -> None:
    shares = [share * 100.0 for share in (0.7, 0.9, 1.1)]  # as floats come out
    rates = tuple(
        rate(
            min(shares, key=lambda known: abs(known - each.rate_per_s)) if each.rate_per_s != 95.0 else 95.0, each.state
        )
        for each in rates
    )
    asked = next_rate(rates, 100.0)
    assert asked is expected is None or asked == pytest.approx(expected)


def test_a_rate_that_keeps_above_one_that_misses_does_not_count() -> None:
    assert bracket((rate(70.0, "keeps"), rate(90.0, "misses"), rate(110.0, "keeps"))) == (70.0, 90.0)
    assert bracket(()) == (0.0, math.inf)


def test_one_visit_makes_nothing_clear() -> None:
    study = make_serving_study()
    once = study.model_copy(update={"visits": study.visits[:2]})
    answer = served_answer(once)
    assert [target.agrees for target in answer.targets] == [None, None]
    assert all(target.needed_s for target in answer.targets)
    with pytest.raises(UserError):
        served_answer(study.model_copy(update={"visits": ()}))


def test_late_batchers_and_other_programs_are_said() -> None:
    study = make_serving_study()
    late = study.visits[0].model_copy(update={"late_ms": 0.2 * SERVICE.limit_ms})
    busy = study.visits[0].interference.model_copy(update={"steal_pct": 50.0})
    disturbed = study.visits[1].model_copy(update={"interference": busy})
    answer = served_answer(study.model_copy(update={"visits": (late, disturbed, *study.visits[2:])}))
    assert (answer.late_ms, answer.disturbed) == (late.late_ms, 1)
    assert len(served_sentences(answer)) == len(served_sentences(served_answer(study))) + 2


@pytest.mark.statistical
def test_the_plan_of_a_run_serves_its_targets_padded_and_leaves_out_what_no_request_keeps() -> None:
    run = make_inference_run(2)
    padded = Service(limit_ms=5.0, max_batch=8, pads=True)
    answer = serving_answer(run, analyse(run), padded)
    plan = plan_to_serve(run, answer, budget_s=30.0)
    assert (plan.run_id, plan.targets, plan.budget_s) == (run.id, run.plan.targets, 30.0)
    assert [each.value for each in plan.predicted] == [target.capacity_per_s.value for target in answer.targets]
    unpadded = serving_answer(run, analyse(run), padded.model_copy(update={"pads": False}))
    for with_pads, without in zip(answer.targets, unpadded.targets, strict=True):
        assert with_pads.capacity_per_s.value <= 1.02 * without.capacity_per_s.value
    tight = serving_answer(run, analyse(run), Service(limit_ms=1.0, max_batch=1, pads=True))
    assert len(plan_to_serve(run, tight).targets) == 1
    with pytest.raises(UserError):
        plan_to_serve(run, serving_answer(run, analyse(run), Service(limit_ms=0.01, max_batch=1, pads=True)))


@pytest.mark.parametrize(
    "changes",
    [
        {"service": Service(pads=False)},
        {"predicted": PREDICTED[:1]},
        {"predicted": (Quantity(0.0, 0.0, 0.0),) * 2},
        {"workload": Workload(network="784-128-10")},
        {"budget_s": 5.0},
    ],
)
def test_a_plan_that_serves_nothing_is_refused(changes: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        serving_plan(**changes)


@pytest.mark.parametrize(("most", "sizes"), [(1, (1,)), (8, (1, 2, 4, 8)), (12, (1, 2, 4, 8, 12))])
def test_padded_sizes_are_powers_of_two_and_the_largest(most: int, sizes: tuple[int, ...]) -> None:
    assert Service(max_batch=most).sizes == sizes


def test_the_export_reads_back_and_the_text_begins_with_the_verdict() -> None:
    study = make_serving_study()
    answer = SERVING.answer(study, Context())
    assert SERVING.text(study, answer, Context()).startswith("Measured at p99 ≤ 8 ms: CPU keeps it at ")
    assert SERVING.record.from_data(SERVING.export(study, answer, Context())["record"]) == study
