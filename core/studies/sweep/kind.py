"""The sweep as a kind of study. Its request is a run without rounds, or a stopped run to resume."""

from core.families.code import refuse_code
from core.schema import UserError
from core.studies.kind import Kind
from core.studies.sweep.analyse import analyse
from core.studies.sweep.answer import Answer
from core.studies.sweep.export import verdict_text
from core.studies.sweep.record import Run
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
    example="example.json",
    streams=True,
)
KIND = SWEEP
