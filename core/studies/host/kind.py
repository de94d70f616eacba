"""The host study as a kind."""

from dataclasses import asdict

from core.hardware.host_record import HostStudy
from core.studies.host.answer import HostStep, host_steps, host_text
from core.studies.host.run import HostPlan, run_host_study
from core.studies.kind import Kind

HOST: Kind[HostPlan, HostStudy, tuple[HostStep, ...]] = Kind(
    name="host",
    title="Host study",
    record=HostStudy,
    describe=lambda _: "Host overhead of this machine",
    run=run_host_study,
    answer=lambda study, _: host_steps(study),
    text=lambda study, steps, _: host_text(study, steps),
    export=lambda study, steps, _: {
        "verdict": study.title,
        "steps": [asdict(step) for step in steps],
        "record": study.model_dump(mode="json"),
    },
    example="example_host.json",
)
KIND = HOST
