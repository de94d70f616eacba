"""State of one target beside a sweep's record: which batches are still tried, and what its worker has prepared."""

from __future__ import annotations

from dataclasses import dataclass, field

MAX_LOSSES = 3  # lost workers after which a target is given up


@dataclass
class TargetState:
    """State of one target. ``blocked_from``: the smallest batch that failed; it and larger ones are not tried again.
    ``prepared``: batches its worker has prepared. ``untraced``: the batches that could not be traced, by reason.
    """

    blocked_from: int | None = None
    blocked_by: str = ""
    losses: int = 0
    step_ms: dict[int, float] = field(default_factory=dict)
    prepared: set[int] = field(default_factory=set)
    untraced: dict[str, list[int]] = field(default_factory=dict)

    def is_open(self, batch: int) -> bool:
        """Tell whether the batch is still tried."""
        return self.blocked_from is None or batch < self.blocked_from

    def block(self, batch: int, reason: str) -> None:
        """Exclude this batch and larger ones from now on."""
        if self.is_open(batch):
            self.blocked_from, self.blocked_by = batch, reason

    @property
    def is_given_up(self) -> bool:
        """Tell whether so many of its workers were lost that it is not tried again."""
        return self.losses >= MAX_LOSSES

    def is_doubtful(self, batch: int) -> bool:
        """Tell whether the batch lies above all that ran and below one that failed."""
        if self.blocked_from is None:
            return False
        return max((b for b in self.step_ms if b < self.blocked_from), default=0) < batch < self.blocked_from
