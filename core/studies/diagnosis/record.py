"""Record of a diagnosis."""

from __future__ import annotations

from typing import ClassVar, Self

from pydantic import Field

from core.base.evidence import Environment, Label, Status, TargetIndex
from core.base.schema import Frozen
from core.rounds.run import Run
from core.rounds.study import Record
from core.studies.experiment.record import Experiment
from core.workload.spec import Batch


class Rerun(Frozen):
    """Crossover re-measured with one remedy applied: ``code`` is the arm's, ``run`` a whole small sweep."""

    code: str
    run: Run


class Diagnosis(Record):
    """Remedies measured for one target of a finished run at one batch; findings are derived from this each time.

    ``experiment.arms[0]`` is the target as the run had it. ``skipped`` maps remedies to the reason for not trying them.
    """

    noun: ClassVar[str] = "diagnosis"

    run_id: str
    target: TargetIndex
    batch: Batch
    experiment: Experiment
    skipped: dict[str, str] = Field(default_factory=dict)
    reruns: tuple[Rerun, ...] = ()

    @property
    def title(self) -> str:
        return f"What would help {self.experiment.title}"

    @property
    def label(self) -> Label:
        return self.experiment.label

    @property
    def status(self) -> Status:
        return self.experiment.status

    @property
    def created_at(self) -> str:
        return self.experiment.created_at

    @property
    def elapsed_s(self) -> float:
        return self.experiment.elapsed_s

    def as_recorded(self) -> Self:
        """Return the diagnosis marked as not measured here."""
        return self.model_copy(update={"experiment": self.experiment.as_recorded()})

    @property
    def environment(self) -> Environment | None:
        return self.experiment.environment
