"""Validations of simulated cards, whose true step times lie off the model's by a known factor."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any
from unittest.mock import patch

from core.analysis.execution import expected
from core.evidence import Gpu
from core.hardware.catalogue import GpuSpec, catalogue
from core.hardware.constants import constants
from core.hardware.host_kinds import costs_of_kind
from core.hardware.model import predict
from core.spec import Target
from core.studies.validation.plan import CONDITIONS, ValidationPlan, make_plan
from core.studies.validation.record import ValidationStudy
from core.studies.validation.run import run_validation
from core.worker.protocol import Prepare
from tests.support.runs import make_environment
from tests.support.selfchecks import GPU, REFUSAL, Device, Neighbours, Watched
from tests.support.simulation import Curve, Machine, NoiseModel
from tests.support.tools import tools_for

CARD, DEVICE_NAME, HOST = "T4", "Tesla T4 (simulated)", "weak"
SPEC: GpuSpec = catalogue()[CARD]


def true_ms(request: Prepare, target: Target, factor: float, by_network: Mapping[str, float]) -> float:
    """What a step takes on the simulated card: the model's own time, and by how much that is off."""
    costs = costs_of_kind(HOST, expected(request.workload.network, target).execution)
    modelled = predict(SPEC, request.workload, target, request.batch, costs.host, constants(), CONDITIONS)
    return factor * by_network.get(request.workload.network.name, 1.0) * modelled.step_ms


class Card(Device):
    """A good device for the self-check, which gets its first worker; then a card that takes what :func:`true_ms` says."""

    def __init__(
        self, factor: float = 1.0, by_network: Mapping[str, float] | None = None, seed: int = 0, **options: Any
    ) -> None:
        super().__init__(GPU, seed=seed, **options)
        law = lambda request, target: true_ms(request, target, factor, by_network or {})  # noqa: E731
        self.sweeps = Machine((Curve(1.0, 0.01),), NoiseModel(), seed=seed, clock=self.clock, law=law)
        self.checked = False

    def launch(self, targets: tuple[Target, ...], deadline_s: float, *rest: Any) -> tuple[Any, ...]:
        if targets == (self.target,) and self.checked:
            return self.sweeps.launch(targets, deadline_s, *rest)
        self.checked |= targets == (self.target,)
        return super().launch(targets, deadline_s, *rest)


def plan(minutes: float = 30.0) -> ValidationPlan:
    return make_plan(SPEC, DEVICE_NAME, GPU, HOST, None, 60 * minutes)


def make_validation(card: Card | None = None, minutes: float = 30.0, **tools: Any) -> ValidationStudy:
    """A validation of that card, with the machine of all made records."""
    card = card or Card()
    with patch(REFUSAL, lambda _: ()):  # it looks at this machine's own cards
        study = run_validation(tools_for(card, interference=Neighbours(), meter=Watched(), **tools), plan(minutes))
    environment = make_environment().model_copy(update={"hostname_hash": "", "gpus": (Gpu(name=DEVICE_NAME),)})
    return study.model_copy(update={"environment": environment, "created_at": "2026-01-06T09:00:00+00:00"})


@cache
def made_validation(factor: float = 1.0) -> ValidationStudy:
    """One of half an hour of the simulated clock, measured once in a process."""
    return make_validation(Card(factor))
