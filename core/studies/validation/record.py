"""The record of a validation: predictions with their time, the self-check, and every sweep, raw. It names nobody."""

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
    """``predictions`` were written before any block was measured, ``again`` once the host had been measured and before
    the first sweep. ``card`` is the catalogue's, ``device_name`` what the driver calls it.

    ``host`` is a host study of its own, where the self-check had no time for one.
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
        """The card as its driver calls it, and as which card it was modelled where that is another name."""
        return self.device_name if self.device_name == self.card else f"{self.device_name} (modelled as {self.card})"

    def sweep_of(self, part: int) -> Run | None:
        """The sweep that measured a part; None where none did."""
        workload = self.parts[part].workload if part < len(self.parts) else None
        return next((run for run in self.sweeps if run.plan is not None and run.plan.workload == workload), None)


def private_environment(environment: Environment) -> Environment:
    """The machine without what tells it from others of its kind."""
    cards = tuple(gpu.model_copy(update={"uuid_hash": None}) for gpu in environment.gpus)
    return environment.model_copy(update={"hostname_hash": "", "gpus": cards})


def private(record: R) -> R:
    """A sweep or a host study without its machine, which stands in the study, names of other programs, and paths."""
    rounds = tuple(item.model_copy(update={"interference": _unnamed(item.interference)}) for item in record.rounds)
    changes: dict[str, Any] = {"environment": None, "rounds": rounds, "warnings": private_warnings(record.warnings)}
    if isinstance(record, Run):
        changes["cells"] = tuple(one.model_copy(update={"reason": anonymous(one.reason)}) for one in record.cells)
    return record.model_copy(update=changes)


def private_warnings(warnings: Iterable[Warning]) -> tuple[Warning, ...]:
    return tuple(one.model_copy(update={"text": anonymous(one.text)}) for one in warnings)


def _unnamed(seen: Interference) -> Interference:
    """What other programs took, without their names; that a GPU was shared stays."""
    return seen.model_copy(update={"busiest": (), "gpu_shared_by": (UNSAID,) * bool(seen.gpu_shared_by)})
