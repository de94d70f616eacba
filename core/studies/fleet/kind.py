"""The fleet run as a kind; its answer rests on the condensed runs of its machines."""

from core.base.numbers import counted
from core.studies.fleet.answer import FleetAnswer, answer_of
from core.studies.fleet.export import fleet_data
from core.studies.fleet.record import FleetPlan, FleetStudy
from core.studies.fleet.run import check_fleet, measure_fleet
from core.studies.fleet.text import fleet_text
from core.studies.kind import About, Kind


def _describe(plan: FleetPlan) -> str:
    where = counted(len(plan.machines), "machine") if plan.machines else "a fleet"
    return f"{plan.sweep.title} on {where}"


FLEET: Kind[FleetPlan, FleetStudy, FleetAnswer] = Kind(
    name="fleet",
    title="Fleet run",
    parts="Its machines’ runs",
    record=FleetStudy,
    example="example_fleet.json",
    describe=_describe,
    run=measure_fleet,
    check=check_fleet,
    here=False,
    answer=lambda study, context: answer_of(study, context.curves),
    text=lambda study, answer, _: fleet_text(study, answer),
    export=lambda study, answer, _: fleet_data(study, answer),
    about=lambda study: About(
        network=study.plan.sweep.workload.title,
        targets=study.plan.sweep.targets,
        machine=counted(len(study.machines), "machine") if study.machines else "",
        part_ids=study.part_ids,
        runs=study.runs,
    ),
)
KIND = FLEET
