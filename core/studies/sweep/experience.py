"""Durations of starts, preparations and rounds seen so far in a sweep, from which the next ones are planned."""

from __future__ import annotations

from core.studies.sweep.schedule import VISIT_S, Costs, expected_s, rounds_of_a_visit

STARTUP_S, PREPARE_S = 5.0, 0.5  # assumed before anything was measured


class Experience:
    """Seconds per batch of preparing it for one target and of a round of all targets."""

    def __init__(self) -> None:
        self._startup_s = STARTUP_S
        self._imports_s: list[float] = []
        self._prepare_s: dict[int, float] = {}
        self._round_s: dict[int, float] = {}

    def started(self, took_s: float, own_s: float) -> None:
        """Record a start, and the part of it that its slowest worker took by itself."""
        self._startup_s = own_s
        self._imports_s.append(max(0.0, took_s - own_s))

    def prepared(self, batch: int, took_s: float, targets: int) -> None:
        self._prepare_s[batch] = took_s / targets

    def ran_round(self, batch: int, took_s: float) -> None:
        self._round_s[batch] = took_s

    @property
    def imports_s(self) -> tuple[float, float]:
        """Seconds spent in starts on importing the framework into fork servers, and seconds that this will still take:
        a command does it in its first two starts (docs/design.md, Processes).
        """
        return sum(self._imports_s), self._imports_s[0] if len(self._imports_s) == 1 else 0.0

    def costs(self, batch: int, targets: int) -> Costs:
        """Return the expected costs of a start, of preparing this batch on so many targets, and of a visit."""
        prepare_s = expected_s(batch, self._prepare_s, PREPARE_S)
        round_s = expected_s(batch, self._round_s, VISIT_S)
        return Costs(self._startup_s, targets * prepare_s, rounds_of_a_visit(round_s) * round_s if targets else 0.0)

    def rounds_of_a_visit(self, batch: int, expected_round_s: float) -> int:
        """Return the number of rounds of the batch's next visit; the first visit uses the expected round time."""
        return rounds_of_a_visit(self._round_s.get(batch, expected_round_s))
