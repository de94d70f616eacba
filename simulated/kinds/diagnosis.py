"""Diagnoses."""

from functools import cache
from typing import Any

from core.studies.diagnosis.run import DiagnosisPlan
from core.studies.registry import load_example
from simulated import causes
from simulated.diagnoses import make_diagnosis
from simulated.kinds import RUN, STILL, Case, Scenario, thinned
from simulated.runs import make_run, on_card
from simulated.simulation import Curve, Machine, NoiseModel

UNUSED = (Curve(1.0, 0.01), Curve(1.0, 0.01))  # the law gives the step time


@cache
def _slow(seed: int = 1) -> causes.Case:
    return causes.make_case("precision", seed)


def _small() -> Any:
    whole = load_example("diagnosis")
    reruns = tuple(rerun.model_copy(update={"run": thinned(rerun.run)}) for rerun in whole.reruns[:1])
    return whole.model_copy(update={"experiment": thinned(whole.experiment), "reruns": reruns})


def _scenario() -> Scenario:
    slow = _slow(3)
    machine = Machine(UNUSED, STILL, startup_s=2.0, prepare_s=0.3, law=slow.law)
    return Scenario(
        kind="diagnosis", machine=machine, plan=DiagnosisPlan(slow.run, 1, causes.BATCH, 60.0), budget_s=60.0, size=16
    )


CASE = Case(
    study=lambda: make_diagnosis(RUN),
    small=_small,
    on_gpu=lambda: DiagnosisPlan(on_card(make_run()), 1, 8),
    machine=lambda seed: Machine(UNUSED, NoiseModel(), seed=seed, startup_s=2.0, law=_slow().law),
    plan=lambda: DiagnosisPlan(_slow().run, 1, causes.BATCH, 60.0),
    scenario=_scenario,
    command="diagnose run.json --budget 60",
)
