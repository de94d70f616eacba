"""Plan and record of a memory study: the memory that one workload needs on one target, and the largest batch that fits.

Each probe is one batch in a fresh process that may hold ``limit_bytes`` and ends itself beyond that. On a CPU the limit
and the peaks are of the whole process's resident memory, the framework included, since that is what the machine must
hold; on a GPU they are of the framework's allocator, beside which the driver keeps some of the card for itself.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, ClassVar, Self

from pydantic import Field, model_validator

from core.base.evidence import Gpu, Outcome
from core.base.fields import About
from core.base.numbers import byte_size
from core.base.schema import Frozen, UserError
from core.machine.cgroup import Killed
from core.rounds.study import Study
from core.workload.names import full_name
from core.workload.spec import (
    MAX_BATCH,
    Batch,
    Budget,
    Target,
    Workload,
    refuse_call,
    refuse_lengths_of,
    refuse_several,
    seconds,
)

MIN_LIMIT_BYTES, MAX_LIMIT_BYTES = 100_000_000, 10**14


CPU_SHARE = 0.9  # share of the free memory, as for every worker on the CPU (core.worker.process)


GPU_SHARE, GPU_RESERVE_BYTES = 0.97, 800_000_000  # share of a card (795 published runs: the notes on hardware models)


def default_limit_bytes(target: Target, available_bytes: int, gpus: Sequence[Gpu]) -> int | None:
    """Return most of the free memory for a CPU, the card less a reserve for a GPU; None if its memory is unknown."""
    if not target.is_gpu:
        return int(CPU_SHARE * available_bytes)
    totals = [gpus[index].memory_bytes if index < len(gpus) else None for index in target.gpus]
    known = [total for total in totals if total is not None]
    return None if len(known) < len(totals) else int(GPU_SHARE * min(known)) - GPU_RESERVE_BYTES


def parse_bytes(text: str) -> int:
    """Parse ``4GB``, ``800 MB`` or ``1.5 GB`` (powers of ten) or ``2GiB`` into bytes. Raises UserError."""
    match = re.fullmatch(r"(\d{1,6}(?:\.\d{1,6})?)\s*([MG])(i?)B", text.strip(), re.IGNORECASE | re.ASCII)
    if match is None:
        raise UserError(f"The limit “{text[:40]}” is not understood; write it as 4GB, 1.5GB or 800MB.")
    power = 2 if match[2].upper() == "M" else 3
    size = round(float(match[1]) * (1024 if match[3] else 1000) ** power)
    if not MIN_LIMIT_BYTES <= size <= MAX_LIMIT_BYTES:
        raise UserError(f"The limit “{text}” is not possible; accepted are {MIN_LIMIT_BYTES / 1e6:.0f}MB to 100000GB.")
    return size


class MemoryPlan(Frozen):
    """Plan of a memory study; ``run_id`` is the run that it belongs to, if any."""

    workload: Workload
    target: Target
    limit_bytes: Annotated[
        int,
        Field(ge=MIN_LIMIT_BYTES, le=MAX_LIMIT_BYTES),
        About(
            "Memory limit",
            "Such as 4GB: on a CPU of a whole worker process, TensorFlow included; on a GPU of what TensorFlow may "
            "take. A worker that passes it ends, and nothing else does.",
            unit="GB",
            empty="90 % of what is free, most of a GPU",
            scale=1e9,
            step=0.5,
        ),
    ]
    budget_s: Annotated[Budget, seconds("At most 8 batches are tried, each in a fresh process of some seconds.")] = 90.0
    run_id: str | None = None

    @model_validator(mode="after")
    def _one_device(self) -> Self:
        refuse_several(self.target, "the largest batch size is searched")
        refuse_call(self.target, "the largest batch size is searched")
        refuse_lengths_of(self.workload, "the largest batch size is searched")
        return self

    @property
    def title(self) -> str:
        return f"{self.workload.title} on {full_name(self.target)} within {byte_size(self.limit_bytes)}"


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
