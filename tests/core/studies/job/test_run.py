"""Jobs measured on a simulated machine, and what the watch writes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from core.base.schema import UserError
from core.studies.job.answer import job_answer
from core.studies.job.breakdown import captured_workload
from core.studies.job.kind import JOB
from core.studies.job.record import JobPlan, Script
from core.studies.job.run import job_targets, read_capture, run_job
from core.workload.spec import Target
from simulated.jobs import BATCH, made_capture, plan
from simulated.kinds import cases
from simulated.tools import tools_for

SCRIPT = Script(path="train.py", python="/usr/bin/python3", folder="/home/me")


def test_a_capture_is_measured_at_its_batch_and_around_it_with_its_own_target_first() -> None:
    case = cases()["job"]
    assert case.machine is not None
    study = run_job(tools_for(case.machine(1)), plan(targets=(Target(execution="xla"),)))
    assert study.sweep is not None
    assert study.sweep.plan is not None
    assert study.sweep.plan.batches == (BATCH // 2, BATCH, 2 * BATCH)
    assert study.sweep.plan.targets == (Target(), Target(execution="xla"))
    assert study.sweep.plan.pipeline.kind == "host"
    assert len(job_answer(study).targets) == 2


def test_a_target_that_is_the_scripts_own_is_measured_once() -> None:
    workload = captured_workload(made_capture())
    chosen = (Target(), Target(execution="graph"), Target(threads=1))
    assert job_targets(made_capture(), chosen, workload) == (Target(), Target(threads=1))


def test_a_page_never_starts_a_script() -> None:
    for refused in (JobPlan(script=SCRIPT), plan(rerun=True)):
        with pytest.raises(UserError, match="from the command line only"):
            JOB.check(refused)
    JOB.check(plan())


@pytest.mark.parametrize("values", [{}, {"script": SCRIPT, "capture": made_capture()}])
def test_a_plan_has_one_source(values: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="not both"):
        JobPlan.model_validate(values)


def test_what_the_watch_wrote_is_read_with_the_end_of_the_process(tmp_path: Path) -> None:
    data = made_capture().model_dump(mode="json", exclude={"script", "exit_status"}) | {"ended": "running"}
    path = tmp_path / "capture.json"
    path.write_text(json.dumps(data), encoding="utf-8")
    capture = read_capture(path, "train.py", data["wall_s"] + 0.7, 1)
    assert (capture.ended, capture.exit_status) == ("interrupted", 1)
    assert capture.seconds["end"] == pytest.approx(0.7)


def test_a_script_that_cannot_be_used_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "capture.json"
    data = made_capture().model_dump(mode="json", exclude={"script", "exit_status"}) | {"phases": [{"kind": 3}]}
    path.write_text(json.dumps(data), encoding="utf-8")
    with pytest.raises(UserError, match="cannot be used: phases"):
        read_capture(path, "train.py", 1.0, 0)
