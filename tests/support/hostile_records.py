"""A record of every kind with hostile text in every field that accepts it."""

from __future__ import annotations

import typing
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from typing import Any, Literal

from pydantic import BaseModel, ValidationError

from core.base.evidence import CardUse, Gpu, Interference, OutputDifference, ProcessUse, Warning
from core.rounds.run import EnergyWindow, Run
from core.studies.experiment.record import ArmSetup
from core.studies.fleet.record import FleetStudy
from core.studies.registry import kinds
from core.studies.scaling.record import ScalingStudy
from core.studies.selfcheck.record import CardFacts, MachineFacts
from core.studies.validation.record import Prediction, ValidationStudy
from core.workload.spec import Pipeline
from simulated.diagnoses import make_diagnosis
from simulated.fleet_studies import make_fleet
from simulated.frontier_studies import make_frontier_study
from simulated.hosts import make_host_study
from simulated.kinds import cases
from simulated.memories import linear, make_memory_study
from simulated.noises import make_noise_study
from simulated.pipelines import make_pipeline_experiment
from simulated.runs import make_environment, make_run
from simulated.scalings import make_scaling_study, setups
from simulated.validations import made_validation
from tests.support.hostile import HOSTILE, PATH, SHORT
from tests.support.loops import loop_cost, with_loops
from tests.support.traced import cpu_cell, gpu_cell, with_traces

KEYS = {
    "Run.id",
    "Diagnosis.run_id",
    "NoiseStudy.run_id",
    "NoisePlan.run_id",
    "MemoryPlan.run_id",
    "FleetMachine.run_id",
    "Arm.code",
    "Rerun.code",
}
"""Fields by which a page finds a record or its part: filled in separate records, so that the others can be shown."""


@cache
def text_fields() -> frozenset[str]:
    """Return every field of every kind's record that may hold text, as ``Model.field``."""
    found: set[str] = set()
    seen: set[type] = set()

    def walk(model: type[BaseModel]) -> None:
        if model in seen:
            return
        seen.add(model)
        for name, field in model.model_fields.items():
            look(field.annotation, f"{model.__name__}.{name}")

    def look(annotation: Any, where: str) -> None:
        if annotation is str:
            found.add(where)
        elif isinstance(annotation, type) and issubclass(annotation, BaseModel):
            walk(annotation)
        elif typing.get_origin(annotation) is not Literal:
            for part in typing.get_args(annotation):
                look(part, where)

    for kind in kinds().values():
        walk(kind.record)
    return frozenset(found)


class Filler:
    """Fills records; ``filled`` and ``refused`` name the fields that took hostile text or not, with mark or reason."""

    def __init__(self, leave: frozenset[str] = frozenset()) -> None:
        self.leave = leave
        self.filled: dict[str, str] = {}
        self.refused: dict[str, str] = {}
        self._marks: defaultdict[str, int] = defaultdict(int)
        self._names = 0

    def fill(self, value: Any, annotation: Any = None, where: str = "") -> Any:
        """Return the value with hostile text in every text field, also of its parts."""
        if isinstance(value, BaseModel):
            return self._model(value)
        if isinstance(value, tuple) and value and not isinstance(value[0], str):
            return tuple(self.fill(part, annotation, where) for part in value)
        if isinstance(value, dict):
            return {key: self.fill(part, annotation, where) for key, part in value.items()}
        return value

    def _model(self, model: BaseModel) -> BaseModel:
        made = type(model)
        values = {name: self.fill(getattr(model, name)) for name in made.model_fields}
        model = made.model_validate(values)
        for name, field in made.model_fields.items():
            where = f"{made.__name__}.{name}"
            if where in self.leave or where not in text_fields():
                continue
            for payload in (HOSTILE, SHORT, PATH):
                taken = self._taken(made, values, name, self._hostile(values[name], field.annotation, payload, where))
                if taken is not None:
                    model, values[name] = taken, getattr(taken, name)
                    self.filled[where] = mark(where)
                    self.refused.pop(where, None)
                    break
        return model

    def _taken(self, made: type[BaseModel], values: dict[str, Any], name: str, value: Any) -> BaseModel | None:
        where = f"{made.__name__}.{name}"
        try:
            return made.model_validate({**values, name: value})
        except ValidationError as error:
            if where not in self.filled:
                self.refused[where] = error.errors()[0]["msg"]
            return None

    def _hostile(self, value: Any, annotation: Any, payload: str, where: str) -> Any:
        text = f"{payload} {mark(where)}"
        if where == "FleetMachine.name":  # names must differ
            self._names += 1
            return f"{text} {self._names}"
        if isinstance(value, dict):
            return {text: next((part for part in value.values() if not isinstance(part, str)), text)} | value
        if isinstance(value, tuple):
            if value and isinstance(value[0], dict):
                return ({text: text}, *value[1:])
            if value and isinstance(value[0], tuple):  # a size and its value
                return ((text, *value[0][1:]), *value[1:])
            if "..." in str(annotation) and where != "Run.target_names":  # its length is the plan's
                return (text, *value)
            return tuple(f"{text}{place}" for place, _ in enumerate(value, start=1))
        return text


def mark(where: str) -> str:
    """Return a mark that identifies a field's text wherever it is shown, of letters and digits only."""
    return f"Q{sorted(text_fields()).index(where)}Q"


def _run() -> Run:
    run = make_run(3, (4, 32, 256), processes=2, passes=1, rounds_per_pass=2, with_failures=True)
    environment = make_environment().model_copy(update={"gpus": (Gpu(name="Card"),)})
    noisy = Interference(other_cpu_pct=99.0, busiest=(ProcessUse(name="other", cpu_pct=99.0),), gpu_shared_by=("x",))
    rounds = tuple(one.model_copy(update={"interference": noisy}) for one in run.rounds)
    held = tuple(one.model_copy(update={"inherited_threads": {"OMP_NUM_THREADS": "1"}}) for one in run.processes)
    run = run.model_copy(update={"environment": environment, "rounds": rounds, "processes": held})
    run = run.model_copy(update={"energy": (EnergyWindow(target=0, skipped="Because."), *energy_windows())})
    int8 = OutputDifference(samples=9, largest=0.1, mean=0.01, agreeing=0.9, quantised="3 of 4 layers")
    setups = tuple(one.model_copy(update={"output_difference": int8}) for one in run.setups)
    held_back = tuple(one.model_copy(update={"inherited_threads": {"OMP": "1"}}) for one in run.processes)
    run = run.model_copy(update={"setups": setups, "processes": held_back})
    run = with_loops(run, loop_cost(0), loop_cost(1).model_copy(update={"times": None, "reason": "Because."}))
    return with_traces(run, gpu_cell(4), cpu_cell(4))


def energy_windows() -> list[EnergyWindow]:
    card = CardUse(length_s=2.0, samples=9, busy=9, util_pct=50.0, energy_j=9.0, energy_from="counter")
    window = EnergyWindow(target=1, batch=32, steps=9, length_s=2.0, card=card)
    return [window.model_copy(update={"index": index}) for index in range(3)]


def _fleet() -> FleetStudy:
    """Return a fleet with every optional part, and prices of its machines."""
    study = make_fleet(second=((0.5, 0.01),) * 3, prices={"sim-0": 1.0, "sim-1": 2.0}, absent=2, batches=(4, 32, 256))
    plan = study.plan.model_copy(update={"machines": ({"kind": "a"},), "address": "auto"})
    return study.model_copy(update={"plan": plan, "warnings": (Warning(code="x", text="Something."),)})


def _scaling() -> ScalingStudy:
    study = make_scaling_study(batches=(32, 64), processes=1, trace=(64,))
    failed = study.cells[-1].model_copy(update={"outcome": "out_of_memory", "reason": "Because."})
    return study.model_copy(update={"cells": (*study.cells[:-1], failed), "setups": setups("xla", "graph")})


def _validation() -> ValidationStudy:
    """One sweep of its ten, a step that was withheld, and every fact of the machine."""
    study = made_validation()
    assert study.selfcheck is not None
    facts = MachineFacts(cpu="A CPU", gpus=(CardFacts(name="Card"),), versions={"keras": "3"})
    check = study.selfcheck.model_copy(update={"machine": facts, "notes": ("A note.",)})
    withheld = Prediction(part=9, batch=1, reason="Because.")
    steps = study.predictions.steps
    return study.model_copy(
        update={
            "sweeps": study.sweeps[:1],
            "selfcheck": check,
            "host": make_host_study(rounds=2),
            "predictions": study.predictions.model_copy(update={"steps": (*steps[:4], withheld)}),
            "warnings": (Warning(code="x", text="Something."),),
        }
    )


@cache
def plain_records() -> dict[str, Any]:
    """Return a small record of each kind, with every optional part."""
    run = _run()
    again = make_run(91, (4, 32, 256), processes=1, passes=1, rounds_per_pass=1)
    diagnosis = make_diagnosis(run, {"steps-32": 3.0}, batch=32, reruns={"steps-32": again}, failed={"xla": "No XLA."})
    setup = run.setups[0].model_dump(exclude={"target", "process"})
    diagnosis = diagnosis.model_copy(
        update={"experiment": diagnosis.experiment.model_copy(update={"setups": (ArmSetup(arm=0, **setup),)})}
    )
    memory = make_memory_study(linear(30e6, 20e3))
    probes = (memory.probes[0].model_copy(update={"reason": "Because."}), *memory.probes[1:])
    base = Pipeline.model_validate({"kind": "tfdata", "preprocess_us": 20.0})
    return {name: case.study() for name, case in cases().items()} | {
        "sweep": run,
        "diagnosis": diagnosis,
        "pipeline": make_pipeline_experiment(base=base, processes=1, rounds=2, failed={"host": "No host."}),
        "frontier": make_frontier_study(starts=2, rounds=1, failed={0: "Too deep."}),
        "scaling": _scaling(),
        "memory": memory.model_copy(update={"probes": probes}),
        "noise": make_noise_study(run),
        "host": make_host_study(rounds=3),
        "fleet": _fleet(),
        "validation": _validation(),
    }


@cache
def hostile_records(keys: bool = False) -> tuple[dict[str, Any], Filler]:
    """Return a record of each kind filled with hostile text, and its filler; with ``keys`` also :data:`KEYS`."""
    filler = Filler(frozenset() if keys else frozenset(KEYS))
    return {name: filler.fill(record) for name, record in plain_records().items()}, filler


def hostile_run() -> Run:
    """Return the run of :func:`hostile_records`."""
    run: Run = hostile_records()[0]["sweep"]
    return run


def texts_of(value: Any) -> Iterator[str]:
    """Yield every text within data of any depth."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, part in value.items():
            yield from texts_of(key)
            yield from texts_of(part)
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from texts_of(part)
