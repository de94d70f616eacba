"""Cells of a sweep that are still tried: what a failure excludes, what is tried once more, what the time allows.

A failure becomes the outcome of a cell; larger batches of that target are then skipped (docs/design.md, Failures). A
cell that already has rounds keeps them, and the loss becomes a warning.

Workers on one GPU share its memory, and none returns what it allocated for other cells. A cell that does not fit is
tried once more with fresh workers, which hold nothing but that batch.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from dataclasses import dataclass, field
from statistics import median_low
from typing import NamedTuple

from core.base.evidence import Warning
from core.rounds.plan import SweepPlan
from core.rounds.run import failed_words
from core.studies.runner import Asking
from core.studies.sweep import schedule
from core.studies.sweep.ledger import Ledger
from core.worker.protocol import WorkerError, WorkerLost

MAX_LOSSES = 3  # lost workers after which a target is given up
NEWEST = 3  # blocks of a cell whose usual step time counts
FAR = 4  # factor on the largest batch that the target ran


@dataclass
class TargetState:
    """State of one target. ``blocked_from``: the smallest batch that failed; it and larger ones are not tried again."""

    blocked_from: int | None = None
    blocked_by: str = ""
    losses: int = 0
    newest_ms: dict[int, deque[float]] = field(default_factory=dict)

    @property
    def step_ms(self) -> dict[int, float]:
        """The usual step time of each batch's newest blocks: one that stalled does not count."""
        return {batch: median_low(newest) for batch, newest in self.newest_ms.items()}

    def is_open(self, batch: int) -> bool:
        """Tell whether the batch is still tried."""
        return self.blocked_from is None or batch < self.blocked_from

    def block(self, batch: int, reason: str) -> None:
        """Exclude this batch and larger ones from now on."""
        if self.is_open(batch):
            self.blocked_from, self.blocked_by = batch, reason

    def is_doubtful(self, batch: int) -> bool:
        """Tell whether the batch lies above all that ran and below one that failed."""
        if self.blocked_from is None:
            return False
        return max((b for b in self.step_ms if b < self.blocked_from), default=0) < batch < self.blocked_from


class Consequence(NamedTuple):
    """What follows a failure: whether the visit is repeated, and whether all workers end first."""

    retry: bool
    end_workers: bool


class Attempts:
    """Which cells of a plan are tried, from what ran and failed so far; records the outcomes of the others."""

    def __init__(self, plan: SweepPlan, ledger: Ledger, asking: Asking) -> None:
        self._plan, self._ledger, self._asking = plan, ledger, asking
        self._targets = tuple(TargetState() for _ in plan.targets)
        self._made_room: set[tuple[int, int]] = set()
        for target, state in enumerate(self._targets):  # failures before the sweep was resumed
            for batch in plan.batches:
                cell = ledger.cell(target, batch)
                if cell is not None and cell.outcome not in ("measured", "pending", "skipped"):
                    state.block(batch, failed_words(batch, cell.outcome))

    def step_ms(self, target: int, batch: int, default_ms: float = 1.0) -> float:
        """Return the usual step time of a cell's newest blocks."""
        newest_ms = self._targets[target].newest_ms.get(batch)
        return median_low(newest_ms) if newest_ms else default_ms

    def expected_block_s(self, target: int, batch: int) -> float:
        """Return the expected seconds of a block of the cell."""
        return self._ledger.block_steps(target, batch) * self.step_ms(target, batch) / 1000

    def first_steps_s(self, target: int, batch: int) -> float:
        """Return the expected seconds of preparing the cell, from smaller batches; 0 if unknown."""
        return schedule.first_steps_s(batch, self._targets[target].step_ms)

    def prepared(self, target: int, batch: int, latency_ms: Collection[float]) -> None:
        """Take the latencies of a cell that was prepared for its first step time."""
        if latency_ms and batch not in self._targets[target].newest_ms:
            self.ran(target, batch, min(latency_ms))

    def ran(self, target: int, batch: int, step_ms: float) -> None:
        """Take the step time of a block."""
        self._targets[target].newest_ms.setdefault(batch, deque(maxlen=NEWEST)).append(step_ms)

    def is_open(self, target: int, batch: int) -> bool:
        """Tell whether a target is still tried at a batch."""
        return self._targets[target].is_open(batch)

    def is_given_up(self, target: int) -> bool:
        """Tell whether so many workers of the target were lost that it is not tried again."""
        return self._targets[target].losses >= MAX_LOSSES

    def is_doubtful(self, batch: int) -> bool:
        """Tell whether, for some target, the batch lies above all that ran and below one that failed."""
        return any(state.is_doubtful(batch) for state in self._targets)

    def is_runnable(self, target: int, batch: int) -> bool:
        """Tell whether a target can run a batch; if not, record in the cell the smallest batch that failed."""
        uneven, cell = self._plan.why_uneven(target, batch), self._ledger.cell(target, batch)
        if not uneven and self.is_open(target, batch):
            return True
        if cell is None or (cell.outcome, cell.stop_reason) == ("skipped", "failed"):
            reason = f"Skipped, because {uneven or self._targets[target].blocked_by}"
            self._ledger.set_cell(target, batch, "skipped", reason, "failed")
        return False

    def is_affordable(self, target: int, batch: int, left_s: float) -> bool:
        """Tell whether a cell's first steps fit the time; if not, skip the cell."""
        expected_s = self.first_steps_s(target, batch)
        if batch in self._targets[target].step_ms or not expected_s:
            return True
        if expected_s <= left_s or left_s <= 0:  # with no time left the batch is not to blame
            return expected_s <= left_s
        reason = f"batch {batch:,} would take about {expected_s:.0f} s, more than the {left_s:.0f} s left."
        self._targets[target].block(batch, reason)
        self._ledger.set_cell(target, batch, "skipped", f"Skipped, because {reason}", "budget")
        return False

    def fail(self, target: int, batch: int, error: WorkerError) -> Consequence:
        """Record a failure of a cell while it was prepared or ran, and return what follows."""
        lost, retry, room = isinstance(error, WorkerLost), False, False
        if lost:
            self.note_loss(target, batch, error)
        if not self._ledger.rounds_of(target, batch):
            retry, room = self._fail_first(target, batch, error)
        elif not lost:
            text = f"{self._plan.names[target]} at batch {batch} was cut short: {error.reason}"
            self._ledger.add(Warning(code=f"lost_{target}_{batch}", text=text))
        if lost:
            state = self._targets[target]
            # a loss far above all that it ran is not blamed on the target
            state.losses += batch <= FAR * max(state.step_ms, default=batch)
            if self.is_given_up(target):
                state.block(1, f"{state.losses} worker processes of {self._plan.names[target]} were lost.")
        return Consequence(retry, lost or room)

    def _fail_first(self, target: int, batch: int, error: WorkerError) -> tuple[bool, bool]:
        """Record the failure of a cell without rounds; return whether it is tried again, and in an emptied GPU."""
        others = self._on_the_same_card(target)
        crowded = error.outcome == "out_of_memory" and bool(others)
        retry = (target, batch) not in self._made_room if crowded else self._asking.forgives((target, batch), error)
        reason = error.reason
        if crowded and retry:
            self._made_room.add((target, batch))
        elif crowded:
            who = f"The worker of {others[0]}" if len(others) == 1 else f"The workers of {' and '.join(others)}"
            reason += f" {who} held memory of the same GPU; in a sweep against the CPU it may fit."
        self._ledger.set_cell(target, batch, error.outcome, reason, "failed")
        if not retry:
            self._targets[target].block(batch, failed_words(batch, error.outcome))
        return retry, crowded and retry

    def note_loss(self, target: int, batch: int, error: WorkerError) -> None:
        """Record a warning, since another worker may measure the cell, which then does not show the loss."""
        name = self._plan.names[target]
        self._ledger.add(self._asking.losses.add(name, f"batch {batch:,}", error.reason, f"{target}_{batch}"))

    def _on_the_same_card(self, target: int) -> list[str]:
        """Return the names of the other targets that share a GPU with this one."""
        gpus = [set(other.gpus) for other in self._plan.targets]
        return [self._plan.names[i] for i in range(len(gpus)) if i != target and gpus[i] & gpus[target]]
