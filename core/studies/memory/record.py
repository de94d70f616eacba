"""Plan and record of a memory study: the memory that one workload needs on one target, and the largest batch that fits.

Each probe is one batch in a fresh process that may hold ``limit_bytes`` and ends itself beyond that. On a CPU the limit
and the peaks are of the whole process's resident memory, the framework included, since that is what the machine must
hold; on a GPU they are of the framework's allocator, beside which the driver keeps some of the card for itself.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Self

from pydantic import Field, model_validator

from core.evidence import Outcome
from core.machine.cgroup import Killed
from core.schema import Frozen
from core.spec import MAX_BATCH, Batch
from core.studies.memory.plan import MemoryPlan
from core.studies.study import Study

MAX_PROBES = 64

Bytes = Annotated[int, Field(ge=0)]


class Probe(Frozen):
    """One batch tried.

    ``peak_bytes`` is its peak (None if it failed), and ``steady_bytes`` its peak after the first call, on a GPU (None
    elsewhere, and if not recorded): the difference is what cuDNN and XLA used once, to try their algorithms.
    ``baseline_bytes`` is the process with the framework started and nothing built. ``predicted_bytes`` and its 95 %
    bounds were predicted just before, of the same memory as the peak; they claim that the batch fits if even
    ``predicted_high_bytes`` is within the limit. ``killed`` is set if something other than the limit ended it.
    """

    batch: Batch
    outcome: Outcome
    reason: str = ""
    killed: Killed | None = None
    peak_bytes: Bytes | None = None
    steady_bytes: Bytes | None = None
    baseline_bytes: Bytes | None = None
    predicted_bytes: Bytes
    predicted_low_bytes: Bytes
    predicted_high_bytes: Bytes
    predicted_fits: bool
    took_s: Annotated[float, Field(ge=0)] = 0.0

    @property
    def fitted(self) -> bool:
        return self.outcome == "measured"

    @property
    def ran_out(self) -> bool:
        """Tell whether the limit ended it. A crash with so much memory in use is assumed to be one; a kill never is,
        since a worker that exceeds the limit ends itself.
        """
        return self.killed is None and self.outcome in ("out_of_memory", "crashed")

    @model_validator(mode="after")
    def _as_it_was_killed(self) -> Self:
        if self.killed is not None and self.outcome != self.killed.outcome:
            raise ValueError(f"a batch that was killed so has the outcome {self.killed.outcome}, not {self.outcome}")
        return self


class MemoryStudy(Study):
    """Record of a memory study, with the probes in the order they were made."""

    noun: ClassVar[str] = "memory study"

    plan: MemoryPlan
    probes: Annotated[tuple[Probe, ...], Field(max_length=MAX_PROBES)] = ()

    @property
    def run_id(self) -> str | None:
        return self.plan.run_id

    @property
    def baseline_bytes(self) -> int | None:
        """The framework's own memory in the newest probe; None if none reported it."""
        return next((probe.baseline_bytes for probe in reversed(self.probes) if probe.baseline_bytes is not None), None)

    @property
    def smallest_refused(self) -> int | None:
        """The smallest batch that ran out of memory."""
        return min((probe.batch for probe in self.probes if probe.ran_out), default=None)

    @property
    def largest_fitted(self) -> int | None:
        """The largest batch that fitted, below all that ran out."""
        below = self.smallest_refused or MAX_BATCH + 1
        return max((probe.batch for probe in self.probes if probe.fitted and probe.batch < below), default=None)

    @property
    def title(self) -> str:
        return self.plan.title
