"""The scaling study as a kind."""

from core.studies.kind import About, Kind
from core.studies.scaling.answer import ScalingAnswer, scaling_answer
from core.studies.scaling.export import scaling_data, scaling_text
from core.studies.scaling.record import ScalingPlan, ScalingStudy
from core.studies.scaling.run import run_scaling

SCALING: Kind[ScalingPlan, ScalingStudy, ScalingAnswer] = Kind(
    name="scaling",
    title="Scaling study",
    example="example_scaling.json",
    record=ScalingStudy,
    describe=lambda plan: f"Scaling of {plan.title}",
    run=run_scaling,
    targets=lambda plan: plan.targets,
    answer=lambda study, _: scaling_answer(study),
    text=lambda _, answer, __: scaling_text(answer),
    export=lambda _, answer, __: scaling_data(answer),
    about=lambda study: About(network=study.plan.workload.title, targets=study.plan.targets),
)
KIND = SCALING
