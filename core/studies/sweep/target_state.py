"""Keep the state of one target beside a sweep's record: which batches are still tried, what its worker is ready for."""

from __future__ import annotations

from dataclasses import dataclass, field

MAX_LOSSES = 3  # workers of one target lost before it is given up


@dataclass
class TargetState:
    """``blocked_from``: the smallest batch that failed; it and larger ones are not tried again. ``prepared``: what its
    worker is ready for. ``untraced``: the batches that could not be traced, by the reason.
    """

    blocked_from: int | None = None
    blocked_by: str = ""
    losses: int = 0
    step_ms: dict[int, float] = field(default_factory=dict)
    prepared: set[int] = field(default_factory=set)
    untraced: dict[str, list[int]] = field(default_factory=dict)

    def is_open(self, batch: int) -> bool:
        """Return True where the batch is still tried."""
        return self.blocked_from is None or batch < self.blocked_from

    def block(self, batch: int, reason: str) -> None:
        """Try this batch and larger ones no more."""
        if self.is_open(batch):
            self.blocked_from, self.blocked_by = batch, reason

    @property
    def is_given_up(self) -> bool:
        """Tell that so many of its workers were lost that it is not tried again."""
        return self.losses >= MAX_LOSSES

    def is_doubtful(self, batch: int) -> bool:
        """Return True where it failed above that batch and has run none as large below."""
        if self.blocked_from is None:
            return False
        return max((b for b in self.step_ms if b < self.blocked_from), default=0) < batch < self.blocked_from
