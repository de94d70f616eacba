"""The resolution study as a kind."""

from core.studies.kind import About, Kind
from core.studies.resolution.answer import Resolution, resolution
from core.studies.resolution.export import resolution_data, resolution_text
from core.studies.resolution.record import ResolutionPlan, ResolutionStudy
from core.studies.resolution.run import run_resolution

RESOLUTION: Kind[ResolutionPlan, ResolutionStudy, Resolution] = Kind(
    name="resolution",
    title="Resolution study",
    record=ResolutionStudy,
    describe=lambda plan: f"Resolution of {plan.title}",
    run=run_resolution,
    targets=lambda plan: (plan.target,),
    answer=lambda study, context: resolution(study, context.earlier),
    text=lambda study, resolution, _: resolution_text(study, resolution),
    export=lambda study, resolution, _: resolution_data(study, resolution),
    about=lambda study: About(network=study.plan.workload.title, targets=study.plan.targets),
)
KIND = RESOLUTION
