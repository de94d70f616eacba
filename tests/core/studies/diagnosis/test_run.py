"""A diagnosis on simulated machines with a known hidden cause: the right remedy ranks first, and nothing else does."""

import pytest

from core.rounds.answer.analyse import analyse
from core.studies.diagnosis.answer import best_arms, diagnose
from core.studies.diagnosis.record import Diagnosis
from core.studies.diagnosis.remedies import family
from core.studies.diagnosis.run import (
    DiagnosisPlan,
    default_batch,
    default_target,
    rerun_plan,
    run_diagnosis,
    try_remedies,
)
from core.studies.progress import Progress
from core.studies.runner import StudyFailed, StudyTools
from simulated.causes import BATCH, CAUSES, RIGHT, Case, make_case
from simulated.runs import planned
from simulated.simulation import QUIET, Curve, Fault, Machine, NoiseModel
from simulated.tools import tools_for

MANY = pytest.mark.statistical
ANY = (Curve(1.0, 0.01), Curve(1.0, 0.01))  # unused, since the case's law gives the step time


def machine_of(case: Case, seed: int, noise: NoiseModel, **options: object) -> Machine:
    return Machine(ANY, noise, seed=seed, law=case.law, **options)  # type: ignore[arg-type]


def tools_of(machine: Machine, said: list[Progress] | None = None) -> StudyTools:
    return tools_for(machine, (said if said is not None else []).append)


def tried(case: Case, seed: int, noise: NoiseModel | None = None) -> Diagnosis:
    return try_remedies(tools_of(machine_of(case, seed, noise or NoiseModel())), case.run, 1, BATCH, 72.0)


@pytest.mark.parametrize("machines", [3, pytest.param(25, marks=MANY)])
@pytest.mark.parametrize("cause", [c for c in CAUSES if c != "none"])
def test_the_right_remedy_ranks_first(cause: str, machines: int) -> None:
    right = 0
    for seed in range(machines):
        case = make_case(cause, seed)
        findings = diagnose(case.run, tried(case, seed)).findings
        # a larger batch comes last, whatever it gains
        by_gain = max(findings, key=lambda f: (f.judgement == "helps", f.gain or 0.0))
        first = by_gain if cause == "batch" else findings[0]
        right += first.family == RIGHT[cause] and first.judgement == "helps"
    assert right >= 0.95 * machines


@pytest.mark.parametrize("machines", [5, pytest.param(50, marks=MANY)])
def test_without_a_cause_nothing_is_recommended(machines: int) -> None:
    recommended = 0
    for seed in range(machines):
        case = make_case("none", seed)
        answer = diagnose(case.run, tried(case, seed))
        recommended += any(finding.judgement == "helps" for finding in answer.findings)
    assert recommended <= 0.05 * machines


@pytest.mark.parametrize("machines", [8, pytest.param(60, marks=MANY)])
def test_gains_lie_in_their_intervals(machines: int) -> None:
    inside = []
    for seed in range(machines):
        case = make_case("precision", seed)
        best = diagnose(case.run, tried(case, seed)).findings[0]
        assert best.high is not None
        inside.append(best.low <= case.gain <= best.high)
    assert sum(inside) >= 0.88 * len(inside)  # 95 % asked for; the chance of fewer than 53 of 60 is 0.6 %


def test_the_crossover_is_measured_anew_with_what_helps() -> None:
    case = make_case("precision", 3)
    machine = machine_of(case, 3, QUIET)
    said: list[Progress] = []
    found = run_diagnosis(tools_of(machine, said), DiagnosisPlan(case.run, 1, BATCH, 120.0))
    assert [rerun.code.partition("-")[0] for rerun in found.reruns][:1] == ["precision"]
    rerun = found.reruns[0]
    assert rerun.run.plan.targets[1].precision != "float32"
    assert rerun.run.plan.targets[0] == case.run.plan.targets[0]  # type: ignore[union-attr]
    assert BATCH in rerun.run.batches
    assert rerun.run.label == "measured"
    assert machine.clock.now_s() < 1.2 * 120
    finding = diagnose(case.run, found).findings[0]
    assert "Before:" in finding.crossover
    assert any("crossover again" in progress.activity for progress in said)
    elapsed = [progress.elapsed_s for progress in said]
    assert elapsed == sorted(elapsed)  # of the whole diagnosis, also while a part of it begins anew
    assert all(p.elapsed_s + p.remaining_s == pytest.approx(max(120.0, p.elapsed_s)) for p in said)
    assert rerun.run.environment == found.experiment.environment


def test_a_remedy_that_makes_both_targets_the_same_has_no_crossover() -> None:
    case = make_case("threads", 1)
    found = run_diagnosis(tools_of(machine_of(case, 1, QUIET)), DiagnosisPlan(case.run, 1, BATCH, 120.0))
    best = next(i for i in best_arms(found) if family(found.experiment.arms[i].code) == "threads")
    same = planned(case.run, targets=(found.experiment.arms[best].target, case.run.plan.targets[1]))
    assert rerun_plan(same, found, best, 30.0) is None
    again = run_diagnosis(tools_of(machine_of(case, 1, QUIET)), DiagnosisPlan(same, 1, BATCH, 120.0))
    assert "be the same" in " ".join(again.skipped.values())


def test_none_of_these_helps_is_said_plainly() -> None:
    case = make_case("none", 0)
    answer = diagnose(case.run, tried(case, 0, QUIET))
    assert answer.reason in ("none_helps", "none_helps_behind")
    assert "None of these" in answer.sentence


def test_a_variant_that_fails_is_told_and_the_others_go_on() -> None:
    case = make_case("precision", 2)
    machine = machine_of(case, 2, QUIET, faults=(Fault(0, 4 * BATCH, "out_of_memory"),))
    found = try_remedies(tools_of(machine), case.run, 1, BATCH, 72.0)
    outcomes = {found.experiment.arms[o.arm].code: o.outcome for o in found.experiment.outcomes}
    assert outcomes == {"batch-256": "out_of_memory", "batch-1024": "out_of_memory"}
    answer = diagnose(case.run, found)
    failed = next(f for f in answer.findings if f.family == "batch")
    assert failed.judgement == "failed"
    assert "Planted fault" in failed.evidence
    assert answer.findings[0].family == "precision"


def test_a_lost_worker_costs_its_variant_only() -> None:
    case = make_case("precision", 2)
    machine = machine_of(case, 2, QUIET, faults=(Fault(0, 4 * BATCH, "crashed", in_block=True, lost=True),))
    found = try_remedies(tools_of(machine), case.run, 1, BATCH, 90.0)
    assert {o.outcome for o in found.experiment.outcomes} == {"crashed"}
    assert diagnose(case.run, found).findings[0].family == "precision"


def test_without_the_step_as_it_is_there_is_no_diagnosis() -> None:
    case = make_case("precision", 2)
    machine = machine_of(case, 2, QUIET, faults=(Fault(0, 1, "out_of_memory"),))
    with pytest.raises(StudyFailed, match="Planted fault"):
        try_remedies(tools_of(machine), case.run, 1, BATCH, 72.0)


def test_cancelling_keeps_what_there_is() -> None:
    case = make_case("precision", 2)
    machine = machine_of(case, 2, QUIET)
    tools = tools_of(machine)

    def stop(progress: Progress) -> None:
        if progress.activity.startswith("Measuring all") and progress.elapsed_s > 20:
            tools.cancel.set()

    stopping = StudyTools(tools.launcher, tools.clock, tools.cancel, tools.interference, stop)
    found = run_diagnosis(stopping, DiagnosisPlan(case.run, 1, BATCH, 120.0))
    assert found.experiment.status == "cancelled"
    assert found.experiment.rounds
    assert found.reruns == ()
    assert any("cancelled first" in reason for reason in found.skipped.values())


def test_it_looks_at_the_gpu_where_it_is_behind() -> None:
    case = make_case("precision", 0)
    answer = analyse(case.run)
    target = default_target(case.run)
    assert case.run.plan.targets[target].is_gpu
    batch = default_batch(case.run, answer, target)
    at = next(s for s in answer.speed_ups if s.batch == batch)
    assert at.high < 1  # the second target is behind there
