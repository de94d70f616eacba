"""The answer of a job, against jobs whose truth is known."""

from __future__ import annotations

import pytest

from core.networks.families import network_from_name
from core.studies.job.answer import Bounds, job_answer
from core.studies.job.capture import Capture
from core.studies.job.export import job_data, job_text, verdict_sentence
from core.studies.job.kind import JOB
from core.studies.job.record import JobStudy
from core.workload.spec import Workload
from simulated.jobs import BATCH, EPOCHS, STEP_S, STEPS, fit_phase, made_capture, made_job
from simulated.runs import true_step_ms

SLOWER = {"floors_ms": (0.3, 0.6), "slopes_ms": (0.02, 0.05)}
EQUAL = {"floors_ms": (0.3, 0.3), "slopes_ms": (0.02, 0.02)}
TRUE_RATIO = true_step_ms(0.2, 0.005, BATCH) / true_step_ms(0.3, 0.02, BATCH)  # of made_job's curves


def job_of(epochs: int, once_ms: float = 0.0, capture: Capture | None = None, **curves: object) -> JobStudy:
    """Return a job of so many epochs, whose second target needs ``once_ms`` more for start and first call."""
    job = made_job(capture=capture or _of_epochs(epochs), **curves)
    assert job.sweep is not None
    setups = tuple(
        item.model_copy(update={"first_call_ms": 100.0 + once_ms * item.target}) for item in job.sweep.setups
    )
    processes = tuple(item.model_copy(update={"startup_ms": 1000.0}) for item in job.sweep.processes)
    return job.model_copy(update={"sweep": job.sweep.model_copy(update={"setups": setups, "processes": processes})})


def _of_epochs(epochs: int) -> Capture:
    facts = {"epochs": epochs, "steps_per_epoch": STEPS, "batch_size": BATCH, "feed": "ArrayData"}
    return made_capture(fit_phase(facts=facts))


def test_the_scripts_own_target_takes_what_the_script_took() -> None:
    answer = job_answer(job_of(EPOCHS))
    own = answer.targets[0]
    assert own.step_s.value == pytest.approx(STEP_S, rel=0.02)
    assert own.total_s.value == pytest.approx(made_capture().wall_s, rel=0.02)
    assert own.total_s.low <= own.total_s.value <= own.total_s.high


def test_a_faster_target_without_extra_cost_is_faster_from_the_first_epoch() -> None:
    answer = job_answer(job_of(EPOCHS))
    assert (answer.reason, answer.best) == ("pays_at_once", 1)
    assert answer.targets[1].ratio.low < TRUE_RATIO < answer.targets[1].ratio.high


@pytest.mark.parametrize(("epochs", "reason"), [(400, "pays"), (3, "never")])
def test_the_length_from_which_it_is_faster_is_extra_cost_over_gain_per_epoch(epochs: int, reason: str) -> None:
    answer = job_answer(job_of(epochs, once_ms=2_000.0))
    own, faster = answer.targets
    expected = faster.extra_s.value / (own.epoch_s.value - faster.epoch_s.value)
    assert faster.extra_s.value == pytest.approx(2.0)
    assert (answer.reason, answer.best) == (reason, 1)
    assert answer.pays_from is not None
    assert answer.pays_from.value == pytest.approx(expected)
    assert answer.pays_from.low < expected < answer.pays_from.high


@pytest.mark.parametrize(("curves", "reason"), [(SLOWER, "same"), (EQUAL, "within_interval")])
def test_without_a_clearly_faster_target_nothing_is_claimed(curves: dict[str, object], reason: str) -> None:
    answer = job_answer(job_of(EPOCHS, **curves))
    assert (answer.reason, answer.best, answer.pays_from) == (reason, 0, None)


def test_a_script_that_waits_for_a_prefetched_input_does_not_get_faster_than_the_input() -> None:
    facts = {"epochs": EPOCHS, "steps_per_epoch": STEPS, "batch_size": BATCH, "feed": "GeneratorData"}
    waiting = fit_phase(facts=facts, wait_s=0.0005 * STEPS * EPOCHS, durations_s=[0.0015] * 500)
    answer = job_answer(job_of(EPOCHS, capture=made_capture(waiting)))
    assert [target.step_s.value for target in answer.targets] == pytest.approx([0.0015, 0.0015])


def test_without_a_sweep_the_answer_is_where_the_time_went_and_why_no_more() -> None:
    study = made_job().model_copy(update={"sweep": None, "reason": "Net is code of your own."})
    answer = job_answer(study)
    assert (answer.reason, answer.targets, answer.why_not) == ("not_measured", (), "Net is code of your own.")
    assert verdict_sentence(answer) == ""
    assert job_text(study, answer).startswith("train.py took ")


def test_a_sweep_that_did_not_reach_the_jobs_batch_leaves_where_the_time_went_and_why() -> None:
    study = made_job(capture=made_capture(fit_phase(batch=7, facts={"epochs": EPOCHS, "steps_per_epoch": STEPS})))
    answer = job_answer(study)
    assert (answer.reason, answer.targets) == ("not_measured", ())
    assert "Batch 7 was not measured" in answer.why_not
    assert answer.why_not in job_text(study, answer)
    assert sum(answer.seconds.values()) == pytest.approx(study.capture.wall_s)


def test_modelled_cards_have_a_step_and_an_epoch_but_no_start() -> None:
    study = made_job()
    assert study.sweep is not None
    assert study.sweep.plan is not None
    plan = study.sweep.plan.model_copy(update={"workload": Workload(network=network_from_name("784-128-10"))})
    sweep = study.sweep.model_copy(update={"plan": plan})
    answer = job_answer(study.model_copy(update={"gpus": ("T4", "no such card"), "sweep": sweep}))
    known, unknown = answer.cards
    assert known.step_s is not None
    assert known.epoch_s is not None
    assert known.epoch_s.value > STEPS * known.step_s.value
    assert known.step_s.low < known.step_s.value < known.step_s.high
    assert (unknown.step_s, bool(unknown.reason)) == (None, True)


def test_the_export_reads_back_and_has_the_numbers_of_the_answer() -> None:
    study = job_of(400, once_ms=2_000.0)
    answer = job_answer(study)
    data = job_data(study, answer)
    assert JobStudy.from_data(data["record"]) == study
    assert data["pays_from"]["value"] == answer.pays_from.value  # type: ignore[union-attr]
    assert data["targets"][1]["name"] in JOB.text(study, answer, None)  # type: ignore[arg-type]


def test_bounds_are_shifted_and_scaled_as_a_whole() -> None:
    assert Bounds(2.0, 1.0, 3.0).plus(1.0).times(2.0).least(5.0) == Bounds(6.0, 5.0, 8.0)
