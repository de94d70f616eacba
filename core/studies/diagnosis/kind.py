"""The diagnosis as a kind; an answer needs the run that it belongs to."""

from core.base.schema import UserError
from core.rounds.run import Run
from core.studies.diagnosis.answer import DiagnosisAnswer, diagnose
from core.studies.diagnosis.export import diagnosis_data, diagnosis_text
from core.studies.diagnosis.record import Diagnosis
from core.studies.diagnosis.run import DiagnosisPlan, run_diagnosis
from core.studies.kind import About, Context, Kind


def _run(context: Context) -> Run:
    if context.run is None:
        raise UserError("The run of this diagnosis is not here, and a diagnosis says nothing without it.")
    run: Run = context.run
    return run


DIAGNOSIS: Kind[DiagnosisPlan, Diagnosis, DiagnosisAnswer] = Kind(
    name="diagnosis",
    title="Diagnosis",
    record=Diagnosis,
    describe=lambda plan: f"Diagnosis of {plan.title}",
    run=run_diagnosis,
    targets=lambda plan: plan.run.plan.targets if plan.run.plan is not None else (),
    answer=lambda diagnosis, context: diagnose(_run(context), diagnosis),
    text=lambda diagnosis, answer, context: diagnosis_text(_run(context), diagnosis, answer),
    export=lambda diagnosis, answer, _: diagnosis_data(diagnosis, answer),
    about=lambda diagnosis: About(
        network=diagnosis.experiment.workload.title,
        targets=(diagnosis.experiment.arms[0].target,),
        run_id=diagnosis.run_id,
    ),
    example="example_diagnosis.json",
    of_a_run=True,
)
KIND = DIAGNOSIS
