"""Validations; they keep statements of their self-check, not every number, so no campaign of faults disturbs them."""

from typing import Any

from simulated import validations
from simulated.kinds import Case, thinned
from simulated.validations import Card, made_validation


def _small() -> Any:
    made = made_validation()
    return made.model_copy(update={"sweeps": tuple(map(thinned, made.sweeps[:1]))})


CASE = Case(
    study=made_validation,
    small=_small,
    on_gpu=validations.plan,
    machine=lambda seed: Card(seed=seed),
    plan=lambda: validations.plan(minutes=4.0),
)
