"""The pipeline study as a kind."""

from core.studies.experiment.record import Experiment
from core.studies.experiment.run import ExperimentPlan, measure_arms
from core.studies.kind import About, Kind
from core.studies.pipeline.answer import PipelineAnswer, pipeline_answer
from core.studies.pipeline.export import pipeline_data, pipeline_text
from core.studies.pipeline.plan import PipelinePlan

PIPELINE: Kind[PipelinePlan, Experiment, PipelineAnswer] = Kind(
    name="pipeline",
    title="Pipeline study",
    record=Experiment,
    describe=lambda plan: f"Input pipeline of {plan.title}",
    run=lambda tools, plan: measure_arms(tools, ExperimentPlan(plan.workload, plan.arms, plan.budget_s)),
    targets=lambda plan: (plan.target,),
    answer=lambda experiment, _: pipeline_answer(experiment),
    text=lambda experiment, answer, _: pipeline_text(experiment, answer),
    export=lambda experiment, answer, _: pipeline_data(experiment, answer),
    about=lambda experiment: About(network=experiment.workload.title, targets=(experiment.arms[0].target,)),
    example="example_pipeline.json",
)
KIND = PIPELINE
