"""The frontier study as a kind."""

from core.networks.families import families
from core.studies.frontier.answer import FrontierAnswer, frontier_answer
from core.studies.frontier.export import frontier_data, frontier_text
from core.studies.frontier.record import FrontierPlan, FrontierStudy
from core.studies.frontier.run import run_frontier
from core.studies.kind import About, Kind

FRONTIER: Kind[FrontierPlan, FrontierStudy, FrontierAnswer] = Kind(
    name="frontier",
    title="Frontier study",
    record=FrontierStudy,
    describe=lambda plan: f"Frontier of {plan.title}",
    run=run_frontier,
    targets=lambda plan: plan.targets,
    answer=lambda study, _: frontier_answer(study),
    text=lambda _, answer, __: frontier_text(answer),
    export=lambda _, answer, __: frontier_data(answer),
    about=lambda study: About(network=families()[study.plan.family].title, targets=study.plan.targets),
    example="example_frontier.json",
)
KIND = FRONTIER
