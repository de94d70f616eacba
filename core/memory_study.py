"""A memory study: how much one workload needs on one target, and the largest batch that fits. Plan and record.

Each probe is one batch in a fresh process that may hold ``limit_bytes`` and ends itself beyond that. On a CPU the limit
and the peaks are of the whole process's resident memory, the framework included, since that is what the machine must
hold; on a GPU they are of the framework's allocator, beside which the driver keeps some of the card for itself.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field, ValidationError

from core.experiment import Ended
from core.results import Environment, Gpu, Label, Outcome
from core.spec import MAX_BATCH, MAX_BUDGET_S, MIN_BUDGET_S, Batch, Frozen, Target, Workload, explain

MEMORY_SCHEMA: Literal[1] = 1
MIN_LIMIT_BYTES, MAX_LIMIT_BYTES = 100_000_000, 10**14
DEFAULT_BUDGET_S = 90.0
MAX_PROBES = 64
CPU_SHARE = 0.9  # of the memory that is free, as for every worker on the CPU (core.measure.process)
GPU_SHARE, GPU_RESERVE_BYTES = 0.97, 800_000_000  # of a card (795 published runs: the notes on hardware models)

Bytes = Annotated[int, Field(ge=0)]


def default_limit_bytes(target: Target, available_bytes: int, gpus: Sequence[Gpu]) -> int | None:
    """On a CPU most of what is free, on a GPU the card but for a reserve; None where the card's memory is not known."""
    if not target.is_gpu:
        return int(CPU_SHARE * available_bytes)
    index = int(target.device.removeprefix("gpu:"))
    total = gpus[index].memory_bytes if index < len(gpus) else None
    return None if total is None else int(GPU_SHARE * total) - GPU_RESERVE_BYTES


def parse_bytes(text: str) -> int:
    """``4GB``, ``800 MB`` or ``1.5 GB`` (powers of ten) or ``2GiB`` in bytes. Raises ValueError with a sentence."""
    found = re.fullmatch(r"(\d{1,6}(?:\.\d{1,6})?)\s*([MG])(i?)B", text.strip(), re.IGNORECASE | re.ASCII)
    if found is None:
        raise ValueError(f"The limit “{text[:40]}” is not understood; write it as 4GB, 1.5GB or 800MB.")
    power = 2 if found[2].upper() == "M" else 3
    size = round(float(found[1]) * (1024 if found[3] else 1000) ** power)
    if not MIN_LIMIT_BYTES <= size <= MAX_LIMIT_BYTES:
        raise ValueError(f"The limit “{text}” is not possible; accepted are {MIN_LIMIT_BYTES / 1e6:.0f}MB to 100000GB.")
    return size


class MemoryPlan(Frozen):
    """``run_id`` is the run that the study belongs to, if any."""

    workload: Workload
    target: Target
    limit_bytes: Annotated[int, Field(ge=MIN_LIMIT_BYTES, le=MAX_LIMIT_BYTES)]
    budget_s: Annotated[float, Field(ge=MIN_BUDGET_S, le=MAX_BUDGET_S)] = DEFAULT_BUDGET_S
    run_id: str | None = None

    @property
    def title(self) -> str:
        return f"{self.workload.title} on {self.target} within {self.limit_bytes / 1e9:.3g} GB"


class Probe(Frozen):
    """One batch tried. ``peak_bytes`` is what it reached (None where it did not get through).

    ``baseline_bytes`` is the process with the framework started and nothing built. ``predicted_bytes`` and its 95 %
    bounds are what was predicted just before, of the same memory as the peak; they said that the batch fits where even
    ``predicted_high_bytes`` is within the limit.
    """

    batch: Batch
    outcome: Outcome
    reason: str = ""
    peak_bytes: Bytes | None = None
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
        """Whether memory ended it; of a crash with so much memory in use nothing better is assumed."""
        return self.outcome in ("out_of_memory", "crashed")


class MemoryStudy(Frozen):
    """Probes in the order they were made."""

    schema_version: Literal[1] = MEMORY_SCHEMA
    plan: MemoryPlan
    probes: Annotated[tuple[Probe, ...], Field(max_length=MAX_PROBES)] = ()
    label: Label = "measured"
    status: Ended = "finished"
    created_at: str = ""
    elapsed_s: float = 0.0
    environment: Environment | None = None

    @property
    def run_id(self) -> str | None:
        return self.plan.run_id

    @property
    def baseline_bytes(self) -> int | None:
        """The framework's own memory as the newest probe found it; None where none was told."""
        return next((probe.baseline_bytes for probe in reversed(self.probes) if probe.baseline_bytes is not None), None)

    @property
    def smallest_refused(self) -> int | None:
        """The smallest batch that ran out of memory."""
        return min((probe.batch for probe in self.probes if probe.ran_out), default=None)

    @property
    def largest_fitted(self) -> int | None:
        """The largest batch that got through, below all that ran out."""
        below = self.smallest_refused or MAX_BATCH + 1
        return max((probe.batch for probe in self.probes if probe.fitted and probe.batch < below), default=None)

    def to_json(self, indent: int | None = None) -> str:
        return self.model_dump_json(indent=indent)

    @classmethod
    def from_json(cls, text: str | bytes) -> MemoryStudy:
        """Raises ValueError with a sentence."""
        try:
            return cls.model_validate_json(text)
        except ValidationError as error:
            raise ValueError(f"This is no Breakeven memory study: {explain(error)}") from None
