"""The serving study as a kind."""

from core.base.text import in_lines
from core.studies.kind import About, Kind
from core.studies.serving.answer import ServedAnswer, served_answer
from core.studies.serving.export import served_data, served_text
from core.studies.serving.record import ServingPlan, ServingStudy
from core.studies.serving.run import run_serving

SERVING: Kind[ServingPlan, ServingStudy, ServedAnswer] = Kind(
    name="serving",
    title="Serving study",
    record=ServingStudy,
    describe=lambda plan: f"Serving of {plan.title}",
    run=run_serving,
    targets=lambda plan: plan.targets,
    answer=lambda study, _: served_answer(study),
    text=lambda study, answer, _: in_lines(served_text(study, answer)),
    export=lambda study, answer, _: served_data(study, answer),
    about=lambda study: About(network=study.plan.workload.title, targets=study.plan.targets, run_id=study.run_id),
    example="example_serving.json",
    of_a_run=True,
)
KIND = SERVING
