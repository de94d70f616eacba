"""First pass through inputs of several lengths: how often the step was traced, what that took, and when it pays."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from core.base.evidence import CellSetup
from core.base.numbers import counted, duration

APART = 1.25
"""Ratio of two first passes below which their difference may be chance: they are timed once per start (judgement)."""


@dataclass(frozen=True)
class FirstPass:
    """Medians over starts. ``extra_ms``: the first pass beyond a later one.

    ``traces``: None if nothing counts them. ``compiled``: lengths for which XLA compiled, one after the other.
    """

    first_ms: float
    extra_ms: float
    traces: int | None
    compiled: int

    @property
    def words(self) -> str:
        """The sentence's end after “Its first pass”."""
        counts = [] if self.traces is None else [counted(self.traces, "trace")]
        counts += [counted(self.compiled, "compilation")] if self.compiled else []
        inside = f" with {' and '.join(counts)}" if counts else ""
        return f"{duration(self.first_ms / 1e3)}{inside}, {duration(self.extra_ms / 1e3)} more than a later one"

    def against(self, other: FirstPass, own_step_ms: float, other_step_ms: float) -> str:
        """Say from or up to which number of steps this one is faster in all than the other, if their steps differ."""
        steps = self.steps_until_even(other, own_step_ms, other_step_ms)
        if steps is None:
            return ""
        sooner = self.extra_ms < other.extra_ms
        return f"In all it is faster {'up to' if sooner else 'from'} about {steps:,} steps{'' if sooner else ' on'}."

    def steps_until_even(self, other: FirstPass, own_step_ms: float, other_step_ms: float) -> int | None:
        """Return after how many steps both have taken as long; None if one is ahead throughout, or both begin alike."""
        less, more = sorted((self.extra_ms, other.extra_ms))
        if more < APART * less:
            return None
        saved_ms, lost_ms = other.extra_ms - self.extra_ms, own_step_ms - other_step_ms
        return math.ceil(saved_ms / lost_ms) if saved_ms * lost_ms > 0 else None


def first_pass(setups: Sequence[CellSetup], lengths: Sequence[int]) -> FirstPass | None:
    """Return one cell's first pass through ``lengths`` as padded; None without setups that recorded one."""
    known = [setup for setup in setups if setup.warmup_steps]
    if not known:
        return None
    extras = [max(0.0, each.first_call_ms - len(lengths) * each.warmup_ms / each.warmup_steps) for each in known]
    traces = max((each.traces for each in known if each.traces is not None), default=None)
    compiled = len(set(lengths)) if known[-1].execution == "xla" else 0
    return FirstPass(median(each.first_call_ms for each in known), median(extras), traces, compiled)
