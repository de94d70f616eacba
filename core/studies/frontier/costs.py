"""Expected cost of visiting a setting, from what was measured, and the settings that cannot be measured."""

from __future__ import annotations

import numpy as np

from core.analysis.memory import CONTEXT_BYTES, estimate_bytes
from core.analysis.statistics import Array
from core.evidence import Environment, Outcome
from core.numbers import byte_size
from core.studies.frontier.plan import FrontierPlan, Setting
from core.studies.frontier.record import FrontierOutcome

ROUNDS = 6  # per visit; a median of fewer has no interval
BLOCK_S = 0.02  # least length of a block (docs/design.md, Blocks)
STEPS_TO_PREPARE = 8  # least: first call, warm-up, latency
FIRST_SETUP_S = 0.8  # assumed to prepare a cell, without steps, until one was prepared
FIRST_FLOPS_PER_S = 10e9  # assumed until something is measured; a little less than one core reaches
RESERVE = 0.9  # largest share of the free memory that a plan may use
LASTING: tuple[Outcome, ...] = ("out_of_memory", "crashed", "hung")  # a larger setting would fail likewise


class VisitCosts:
    """Seconds of a visit: setting up, and steps of floor + FLOPs / rate on each target."""

    def __init__(self, plan: FrontierPlan) -> None:
        self.flops = np.array([plan.workload(s).flops_per_sample * s.batch for s in plan.settings], dtype=float)
        self._floor_s: list[float | None] = [None, None]
        self._rate = [FIRST_FLOPS_PER_S, FIRST_FLOPS_PER_S]
        self._seen = [0.0, 0.0]
        self._setup_s: list[float] = []

    def prepared(self, took_s: float) -> None:
        """Record the time of preparing both targets of a setting."""
        self._setup_s.append(took_s)

    def stepped(self, setting: int, target: int, step_s: float) -> None:
        """Record the time of one step. The rate is that of the largest setting seen."""
        floor_s = self._floor_s[target]
        self._floor_s[target] = step_s if floor_s is None else min(step_s, floor_s)
        if self.flops[setting] >= self._seen[target]:
            self._seen[target] = self.flops[setting]
            self._rate[target] = max(self.flops[setting] / step_s, FIRST_FLOPS_PER_S / 100)

    def step_s(self, target: int) -> Array:
        """Return the seconds per step, for each setting."""
        rate = max(self._rate[target], FIRST_FLOPS_PER_S) if self._seen[target] < 1e9 else self._rate[target]
        return np.asarray((self._floor_s[target] or 1e-3) + self.flops / rate)

    def visit_s(self) -> Array:
        """Return the seconds per visit, for each setting."""
        setup_s = float(np.median(self._setup_s[-20:])) if self._setup_s else FIRST_SETUP_S
        steps = [self.step_s(target) for target in (0, 1)]
        return setup_s + sum(STEPS_TO_PREPARE * s + ROUNDS * np.maximum(s, BLOCK_S) for s in steps)


class Limits:
    """Settings that cannot be measured, and why: they failed, are larger than one that did, or cannot fit."""

    def __init__(self, plan: FrontierPlan, environment: Environment) -> None:
        self._plan = plan
        self.outcomes: dict[int, FrontierOutcome] = {}
        self._skip_too_large(environment)

    def fail(self, setting: int, target: int, outcome: Outcome, reason: str) -> None:
        """Record a failed target; if it lacked memory or died, skip all settings at least as large on every axis."""
        plan = self._plan
        self.outcomes[setting] = FrontierOutcome(setting=setting, target=target, outcome=outcome, reason=reason)
        if outcome not in LASTING:
            return
        failed = plan.settings[setting]
        why = f"Skipped, because {plan.names[target]} {_WORDS[outcome]} at {failed.words}."
        for index, other in enumerate(plan.settings):
            if index not in self.outcomes and _is_larger(other, failed):
                self.outcomes[index] = FrontierOutcome(setting=index, target=target, outcome="skipped", reason=why)

    def _skip_too_large(self, environment: Environment) -> None:
        """Skip settings that exceed the memory for CPU targets; a GPU's memory is known to its worker, where running
        out is an outcome.
        """
        on_host = [target for target in self._plan.targets if not target.is_gpu]
        available_bytes = environment.memory_available_bytes
        if available_bytes is None:
            return
        for index, setting in enumerate(self._plan.settings):
            workload = self._plan.workload(setting)
            needed = CONTEXT_BYTES * len(self._plan.targets)
            needed += sum(estimate_bytes(workload, target, setting.batch).total_bytes for target in on_host)
            if needed > RESERVE * available_bytes:
                free = f"{byte_size(available_bytes)} free{environment.limited_words}"
                reason = f"Needs about {byte_size(needed)}; this machine has {free}."
                self.outcomes[index] = FrontierOutcome(setting=index, outcome="skipped", reason=reason)


_WORDS: dict[Outcome, str] = {"out_of_memory": "ran out of memory", "crashed": "crashed", "hung": "hung"}


def _is_larger(setting: Setting, than: Setting) -> bool:
    return all(mine >= other for mine, other in zip(setting, than, strict=True))
