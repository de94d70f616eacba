"""Validations of simulated cards, whose true step times lie off the model's by a known factor."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any
from unittest.mock import patch

from core.base.evidence import Gpu
from core.hardware.catalogue import GpuSpec, catalogue
from core.hardware.constants import constants
from core.hardware.host import HostKind, costs_of_kind
from core.hardware.model import predict
from core.studies.validation.record import CONDITIONS, ValidationPlan, ValidationStudy, make_plan
from core.studies.validation.run import run_validation
from core.worker.protocol import Examine, Prepare, R, Request
from core.workload.execution import expected
from core.workload.spec import Target
from simulated.runs import make_environment
from simulated.selfchecks import GPU, REFUSAL, CheckedWorker, Device, Neighbours, Watched
from simulated.simulation import Curve, Machine, NoiseModel
from simulated.tools import tools_for

CARD, DEVICE_NAME = "T4", "Tesla T4 (simulated)"
HOST: HostKind = "weak"
SPEC: GpuSpec = catalogue()[CARD]


def true_ms(request: Prepare, target: Target, factor: float, by_network: Mapping[str, float]) -> float:
    """Return the step time on the simulated card: the model's own time, and by how much that is off."""
    costs = costs_of_kind(HOST, expected(request.workload.network, target).execution)
    modelled = predict(SPEC, request.workload, target, request.batch, costs.host, constants(), CONDITIONS)
    return factor * by_network.get(request.workload.network.name, 1.0) * modelled.step_ms


class Card(Device):
    """For the self-check a good device, for sweeps a card that takes what :func:`true_ms` says."""

    def __init__(
        self, factor: float = 1.0, by_network: Mapping[str, float] | None = None, seed: int = 0, **options: Any
    ) -> None:
        super().__init__(GPU, seed=seed, **options)
        self.sweeps = Machine((Curve(1.0, 0.01),), NoiseModel(), seed=seed, clock=self.clock)
        self.sweeps.law = lambda request, target: true_ms(request, target, factor, by_network or {})

    def launch(self, targets: tuple[Target, ...], deadline_s: float, *rest: Any) -> tuple[Any, ...]:
        if targets != (self.target,):
            return super().launch(targets, deadline_s, *rest)
        (swept,) = self.sweeps.launch(targets, deadline_s, *rest)
        self.open_workers += 1
        return (CardWorker(self, swept),)


class CardWorker(CheckedWorker):
    """As a checked worker where a self-check has prepared the cell, which names a variant, else as a sweep's."""

    def __init__(self, card: Card, swept: Any) -> None:
        super().__init__(card)
        self._swept, self._checked = swept, False

    def ask(self, request: Request[R], deadline_s: float) -> R:
        if isinstance(request, Prepare):
            self._checked = request.variant is not None
        checked = self._checked or isinstance(request, Examine)
        return super().ask(request, deadline_s) if checked else self._swept.ask(request, deadline_s)

    def close(self) -> None:
        super().close()
        self._swept.close()


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
