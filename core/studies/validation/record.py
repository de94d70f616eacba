"""The record of a validation: timed predictions, the self-check, and every raw sweep, without personal data."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import Field

from core.evidence import Environment, Interference, Warning
from core.selfcheck.private import UNSAID, anonymous
from core.selfcheck.record import SelfCheck
from core.spec import Target
from core.studies.host.record import HostStudy
from core.studies.study import Study
from core.studies.sweep.record import Run
from core.studies.validation.plan import MAX_PARTS, Part, Predictions, Words

R = TypeVar("R", Run, HostStudy)


class ValidationStudy(Study):
    """Stored record of a validation.

    ``predictions`` were written before any block was measured, ``again`` after the host had been measured and before
    the first sweep. ``card`` is the catalogue's name, ``device_name`` the driver's. ``host`` is a separate host study
    if the self-check had no time for one.
    """

    noun: ClassVar[str] = "validation"

    target: Target
    card: Words
    device_name: Words
    parts: Annotated[tuple[Part, ...], Field(min_length=1, max_length=MAX_PARTS)]
    predictions: Predictions
    again: Predictions | None = None
    selfcheck: SelfCheck | None = None
    host: HostStudy | None = None
    sweeps: Annotated[tuple[Run, ...], Field(max_length=MAX_PARTS)] = ()

    @property
    def title(self) -> str:
        return f"Predicted and measured: {self.device_words}"

    @property
    def device_words(self) -> str:
        """The driver's name of the card, with the catalogue's name if it differs."""
        return self.device_name if self.device_name == self.card else f"{self.device_name} (modelled as {self.card})"

    def sweep_of(self, part: int) -> Run | None:
        """Return the sweep that measured a part, or None."""
        workload = self.parts[part].workload if part < len(self.parts) else None
        return next((run for run in self.sweeps if run.plan is not None and run.plan.workload == workload), None)


def private_environment(environment: Environment) -> Environment:
    """Return the machine without what distinguishes it from others of its kind."""
    cards = tuple(gpu.model_copy(update={"uuid_hash": None}) for gpu in environment.gpus)
    return environment.model_copy(update={"hostname_hash": "", "gpus": cards})


def private(record: R) -> R:
    """Return a sweep or a host study without paths, names of other programs, and its machine, which the study holds."""
    rounds = tuple(item.model_copy(update={"interference": _unnamed(item.interference)}) for item in record.rounds)
    changes: dict[str, Any] = {"environment": None, "rounds": rounds, "warnings": private_warnings(record.warnings)}
    if isinstance(record, Run):
        changes["cells"] = tuple(one.model_copy(update={"reason": anonymous(one.reason)}) for one in record.cells)
    return record.model_copy(update=changes)


def private_warnings(warnings: Iterable[Warning]) -> tuple[Warning, ...]:
    """Return the warnings without personal names and paths."""
    return tuple(one.model_copy(update={"text": anonymous(one.text)}) for one in warnings)


def _unnamed(seen: Interference) -> Interference:
    """Return the interference without the names of other programs; that a GPU was shared is kept."""
    return seen.model_copy(update={"busiest": (), "gpu_shared_by": (UNSAID,) * bool(seen.gpu_shared_by)})
