"""The engine of frontier studies on simulated machines: its requests, its budget, failures and cancelling."""

import threading
from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import pytest

from core.base.evidence import Environment
from core.studies.frontier.answer import frontier_answer
from core.studies.frontier.record import FrontierPlan, FrontierStudy
from core.studies.frontier.run import MAX_FIRST_FAILURES, MAX_LOSSES, ROUNDS, Limits, VisitCosts
from core.studies.progress import Progress
from core.studies.runner import StudyFailed
from core.worker.protocol import Prepare
from core.workload.spec import Target
from simulated.frontiers import FIRST, SECOND, SMALL, UNUSED, machine, make_plan, measure, random_truth
from simulated.simulation import Fault, Machine, NoiseModel, SimulatedWorker

TRUTH = random_truth(0)


@dataclass
class Watched(Machine):
    """Machine that notes what was launched, prepared and released."""

    launched: list[tuple[Target, ...]] = field(default_factory=list)
    asked: list[Prepare] = field(default_factory=list)
    most_live: int = 0

    def launch(self, targets: tuple[Target, ...], deadline_s: float, *_: object) -> tuple[SimulatedWorker, ...]:
        self.launched.append(targets)
        return tuple(Noted(self, i, w._runs_on) for i, w in enumerate(super().launch(targets, deadline_s)))


class Noted(SimulatedWorker):
    _machine: Watched

    def prepare(self, request: Prepare, deadline_s: float):  # type: ignore[no-untyped-def]
        self._machine.asked.append(request)
        done = super().prepare(request, deadline_s)
        self._machine.most_live = max(self._machine.most_live, len(self._cells))
        return done


def watched(**options: object) -> Watched:
    return Watched(UNUSED, NoiseModel(), law=TRUTH.law, **options)  # type: ignore[arg-type]


def small(**changes: object) -> FrontierPlan:
    return make_plan(**SMALL | changes)


def test_every_visit_has_its_rounds_in_alternating_order() -> None:
    study = measure(machine(TRUTH), small())
    assert study.status == "finished"
    visits = Counter((r.setting, r.blocks[0].process) for r in study.rounds)
    assert set(visits.values()) == {ROUNDS}
    assert [r.index for r in study.rounds] == list(range(len(study.rounds)))
    for item in study.rounds:
        assert [block.target for block in item.blocks] == ([0, 1] if item.index % 2 == 0 else [1, 0])
        assert len({block.process for block in item.blocks}) == 1


def test_both_targets_live_side_by_side_in_several_starts_and_cells_are_let_go() -> None:
    made = watched()
    study = measure(made, small())
    assert set(made.launched) == {(FIRST, SECOND)}
    assert 3 <= study.starts == len(made.launched) <= 5
    assert made.most_live == 1
    for request in made.asked:
        assert request.variant == (FIRST, SECOND)[request.slot]
        assert request.pipeline.kind == "resident"


def test_targets_of_the_same_device_and_threads_share_a_worker() -> None:
    made = watched()
    measure(made, small(targets=(Target(), Target(execution="xla"))))
    assert set(made.launched) == {(Target(),)}
    assert {request.variant for request in made.asked} == {Target(), Target(execution="xla")}
    assert made.most_live == 2


def test_blocks_keep_their_steps_from_start_to_start() -> None:
    study = measure(machine(TRUTH), small())
    steps = {(r.setting, b.target, b.steps) for r in study.rounds for b in r.blocks}
    assert len(steps) == 2 * len(study.measured)


@pytest.mark.parametrize("budget_s", [20.0, 60.0, 240.0])
def test_the_budget_is_kept(budget_s: float) -> None:
    made = machine(TRUTH)
    study = measure(made, make_plan(budget_s=budget_s))
    assert study.elapsed_s == made.clock.now_s() <= budget_s + 3.0  # the visit that was under way
    assert study.rounds


def test_the_operating_point_is_measured_in_every_start_also_off_the_grid() -> None:
    plan = small(point=(3, 200, 32), budget_s=90.0)
    study = measure(machine(TRUTH), plan)
    index = plan.settings.index((3, 200, 32))
    assert index == len(plan.grid)
    assert {r.blocks[0].process for r in study.rounds if r.setting == index} == set(range(study.starts))
    point = frontier_answer(study).point
    assert point.label == "measured"
    truth = TRUTH.log2_speed_up(np.array([[3, 200, 32]], dtype=float))[0]
    assert point.low - 0.05 <= truth <= point.high + 0.05


def test_progress_tells_the_setting_and_carries_the_map_so_far() -> None:
    told: list[Progress] = []
    study = measure(machine(TRUTH), small(), report=told.append)
    words = [p.activity for p in told]
    assert "2 worker processes" in words[0]
    assert any("width 16, batch" in text for text in words)
    assert words[-1] == "Finished"
    last = told[-1]
    assert last.record.rounds == study.rounds
    assert last.cells_done == len(study.measured)
    assert last.cells_total == 32


def test_cancelling_keeps_what_there_is() -> None:
    cancel = threading.Event()

    def report(progress: Progress) -> None:
        if progress.cells_done >= 12:
            cancel.set()

    made = machine(TRUTH)
    study = measure(made, small(), cancel, report)
    assert study.status == "cancelled"
    assert 12 <= len(study.measured) <= 14
    assert FrontierStudy.from_json(study.to_json()) == study


def test_running_out_of_memory_bars_larger_settings_only() -> None:
    made = machine(TRUTH, faults=(Fault(target=1, batch=512, outcome="out_of_memory"),))
    study = measure(made, small())
    failed = [o for o in study.outcomes if o.outcome == "out_of_memory"]
    assert failed
    assert all(study.plan.settings[o.setting].batch == 512 and o.target == 1 for o in failed)
    skipped = [o for o in study.outcomes if o.outcome == "skipped"]
    assert all(study.plan.settings[o.setting].batch == 512 for o in skipped)
    assert all("ran out of" in o.reason for o in skipped)
    assert all(study.plan.settings[i].batch < 512 for i in study.measured)
    answer = frontier_answer(study)
    assert {f.setting for f in answer.failed}.isdisjoint({c.setting for c in answer.cells})


@pytest.mark.parametrize(("times", "outcomes"), [(1, []), (2, ["crashed"])])
def test_a_setting_whose_worker_is_lost_twice_is_out_and_each_loss_costs_a_start(
    times: int, outcomes: list[str]
) -> None:
    fault = Fault(target=0, batch=64, outcome="crashed", lost=True, in_block=True, times=times)
    made = machine(TRUTH, faults=(fault,))
    study = measure(made, small(budget_s=120.0))
    assert [o.outcome for o in study.outcomes if o.outcome != "skipped"] == outcomes
    assert study.status == "finished"
    assert study.starts >= 4
    (lost,) = study.warnings
    assert f"{study.plan.names[0]} was lost" in lost.text


def test_workers_that_keep_dying_end_the_study_with_what_it_has() -> None:
    made = machine(TRUTH, faults=(Fault(target=0, batch=64, outcome="crashed", lost=True),))
    study = measure(made, small(budget_s=600.0))
    assert made.starts <= MAX_LOSSES + 5
    assert study.rounds


def test_what_fails_everywhere_ends_soon_with_its_reason() -> None:
    made = machine(TRUTH, faults=(Fault(target=1, batch=1, outcome="error"),))
    with pytest.raises(StudyFailed, match="Planted fault: error"):
        measure(made, small())
    assert made.clock.now_s() < made.startup_s + 2 * made.prepare_s * MAX_FIRST_FAILURES + 1


def test_settings_that_cannot_fit_are_skipped_with_the_reason() -> None:
    plan = make_plan(widths=(16, 16_384), depths=(1, 64), batches=(1, 64))
    limits = Limits(plan, Environment(captured_at="", memory_available_bytes=8_000_000_000))
    names = {plan.settings[i] for i in limits.outcomes}
    assert names == {(64, 16_384, 1), (64, 16_384, 64)}
    assert all("Needs about" in o.reason and o.target is None for o in limits.outcomes.values())
    assert not Limits(plan, Environment(captured_at="", memory_available_bytes=None)).outcomes
    contained = Environment(captured_at="", memory_available_bytes=8_000_000_000, container_memory_bytes=9_000_000_000)
    reasons = [outcome.reason for outcome in Limits(plan, contained).outcomes.values()]
    assert all(reason.endswith("of 9 GB).") for reason in reasons)


def test_dear_settings_are_left_to_interpolation(monkeypatch: pytest.MonkeyPatch) -> None:
    roomy = Environment(captured_at="", memory_available_bytes=100_000_000_000)
    monkeypatch.setattr("core.studies.runner.capture_environment", lambda: roomy)
    plan = make_plan(widths=(16, 8_192), budget_s=30.0)
    study = measure(machine(TRUTH), plan)
    costs = VisitCosts(plan)
    dear = {i for i in range(len(plan.settings)) if TRUTH.step_ms(0, *plan.settings[i]) > 2_000}
    assert dear
    assert dear.isdisjoint(study.measured)
    assert not study.outcomes
    assert costs.flops.max() > 1e12


def test_costs_learn_floor_and_rate() -> None:
    plan = small()
    costs = VisitCosts(plan)
    order = np.argsort(costs.flops)
    for index in (order[0], order[-1]):
        for target in (0, 1):
            costs.stepped(int(index), target, 0.001 + costs.flops[index] / 50e9)
    assert costs.step_s(0) == pytest.approx(0.001 + costs.flops / 50e9, rel=0.1)
    costs.prepared(2.0)
    assert costs.visit_s().min() >= 2.0 + 2 * ROUNDS * 0.02
