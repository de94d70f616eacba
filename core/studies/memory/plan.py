"""Plan of a memory study: one workload and target within a limit."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Self

from pydantic import Field, model_validator

from core.evidence import Gpu
from core.names import full_name
from core.numbers import byte_size
from core.schema import Frozen, UserError
from core.spec import MAX_BUDGET_S, MIN_BUDGET_S, Target, Workload, refuse_several

MIN_LIMIT_BYTES, MAX_LIMIT_BYTES = 100_000_000, 10**14


DEFAULT_BUDGET_S = 90.0


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
    found = re.fullmatch(r"(\d{1,6}(?:\.\d{1,6})?)\s*([MG])(i?)B", text.strip(), re.IGNORECASE | re.ASCII)
    if found is None:
        raise UserError(f"The limit “{text[:40]}” is not understood; write it as 4GB, 1.5GB or 800MB.")
    power = 2 if found[2].upper() == "M" else 3
    size = round(float(found[1]) * (1024 if found[3] else 1000) ** power)
    if not MIN_LIMIT_BYTES <= size <= MAX_LIMIT_BYTES:
        raise UserError(f"The limit “{text}” is not possible; accepted are {MIN_LIMIT_BYTES / 1e6:.0f}MB to 100000GB.")
    return size


class MemoryPlan(Frozen):
    """Plan of a memory study; ``run_id`` is the run that it belongs to, if any."""

    workload: Workload
    target: Target
    limit_bytes: Annotated[int, Field(ge=MIN_LIMIT_BYTES, le=MAX_LIMIT_BYTES)]
    budget_s: Annotated[float, Field(ge=MIN_BUDGET_S, le=MAX_BUDGET_S)] = DEFAULT_BUDGET_S
    run_id: str | None = None

    @model_validator(mode="after")
    def _one_device(self) -> Self:
        refuse_several(self.target, "the largest batch size is searched")
        return self

    @property
    def title(self) -> str:
        return f"{self.workload.title} on {full_name(self.target)} within {byte_size(self.limit_bytes)}"
