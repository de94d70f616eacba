"""The sweep as a kind of study. Its request is a run without rounds, or a stopped run to resume."""

from core.base.evidence import Environment
from core.base.schema import UserError
from core.machine.environment import capture_environment
from core.networks.families.code import refuse_code
from core.rounds.answer.analyse import analyse
from core.rounds.answer.answer import Answer
from core.rounds.plan import SweepPlan
from core.rounds.run import Run
from core.rounds.show.export import verdict_text
from core.rounds.study import new_id
from core.studies.kind import About, Kind
from core.studies.runner import now
from core.studies.sweep.supervisor import run_sweep
from core.worker.interpreters import refuse_python


def _check(run: Run) -> None:
    """Refuse the user's own code, and programs named by a target, which nobody asked to run from a page."""
    if run.plan is None:
        raise UserError("Only points were imported for this run; it has no plan that could go on.")
    refuse_code(run.plan.workload.network)
    refuse_python(run.plan.targets)


SWEEP: Kind[Run, Run, Answer] = Kind(
    name="sweep",
    title="Sweep",
    record=Run,
    describe=lambda run: run.name,
    run=run_sweep,
    targets=lambda run: run.plan.targets if run.plan is not None else (),
    check=_check,
    id_of=lambda run: run.id,
    answer=lambda run, _: analyse(run),
    text=lambda run, answer, _: verdict_text(run, answer),
    export=lambda run, _, __: run.model_dump(mode="json"),  # every command derives the answer from this
    about=lambda run: About(network=run.plan.workload.title if run.plan is not None else ""),
    example="example.json",
    streams=True,
)
KIND = SWEEP


def new_run(
    plan: SweepPlan, name: str | None = None, run_id: str | None = None, environment: Environment | None = None
) -> Run:
    """Return a run without rounds, with this machine's environment unless one is given."""
    return Run(
        id=run_id or new_id(),
        name=name or plan.title,
        created_at=now(),
        label="measured",
        status="running",
        target_names=plan.target_names,
        plan=plan,
        environment=environment or capture_environment(),
    )
