"""The study kind of jobs."""

from core.base.schema import UserError
from core.studies.job.answer import JobAnswer, job_answer
from core.studies.job.export import job_data, job_text
from core.studies.job.record import JobPlan, JobStudy
from core.studies.job.run import describe, run_job
from core.studies.kind import About, Kind
from core.worker.interpreters import refuse_python


def _check(plan: JobPlan) -> None:
    """Refuse the user's own code, and programs named by a target, which nobody asked to run from a page."""
    if plan.script is not None or plan.rerun:
        raise UserError(f"A script is run from the command line only: python -m core run -- {plan.name}")
    refuse_python(plan.targets)


def _about(study: JobStudy) -> About:
    plan = None if study.sweep is None else study.sweep.plan
    if plan is None:
        return About()
    return About(network=plan.workload.title, targets=plan.targets)


JOB: Kind[JobPlan, JobStudy, JobAnswer] = Kind(
    name="job",
    title="Job",
    record=JobStudy,
    describe=describe,
    run=run_job,
    targets=lambda plan: plan.targets,
    check=_check,
    answer=lambda study, _: job_answer(study),
    text=lambda study, answer, _: job_text(study, answer),
    export=lambda study, answer, _: job_data(study, answer),
    about=_about,
    example="example_job.json",
)
KIND = JOB
