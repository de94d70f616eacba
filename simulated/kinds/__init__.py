"""Cases of every kind of study for shared tests and benchmarks: one module per kind, of the kind's name."""

from __future__ import annotations

import importlib
import pkgutil
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from core.studies.registry import kind_of
from core.studies.runner import StudyTools
from core.workload.spec import Target
from simulated.noise import NoiseModel
from simulated.runs import make_run

GPU = Target(device="gpu:0")
RUN = make_run(4, label="measured")
"""The run that studies of a run belong to."""
STILL = NoiseModel(0.0, 0.0, 0.0, 4.0, 0.0, 0.0, 0.0, 1.0)
Kept = Callable[[Any, Counter[str], int], bool]
"""Tells whether a record, or None, holds what workers answered: requests by kind, and the number that failed."""


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """Study on a machine without noise, so that every number it may report is known.

    ``size`` is the largest number of measurements per round. ``run`` replaces the kind's own function.
    """

    kind: str
    machine: Any
    plan: Any
    budget_s: float
    size: int
    run: Callable[[StudyTools, Any], Any] | None = None

    def measure(self, tools: StudyTools) -> Any:
        return (self.run or kind_of(self.kind).run)(tools, self.plan)


@dataclass(frozen=True, kw_only=True)
class Case:
    """A kind's part in the tests of all kinds.

    Args:
        study: Makes a finished study; one of a run belongs to :data:`RUN`.
        small: Makes one with few measurements, to be changed and damaged; by default ``study``.
        on_gpu: Makes a plan that measures on ``gpus``.
        machine: Makes a simulated machine from a seed, for ``plan``; None if the kind has tests of its own faults.
        kept: Checks after faults that measurements were kept.
        command: Arguments of its command for the tests that commands share, which write a run to ``run.json``.
        scenario: Makes the study that the campaign of faults disturbs (``benchmarks/faults``), if it does.
    """

    study: Callable[[], Any]
    small: Callable[[], Any] | None = None
    on_gpu: Callable[[], Any]
    gpus: tuple[Target, ...] = (GPU,)
    machine: Callable[[int], Any] | None = None
    plan: Callable[[], Any] | None = None
    kept: Kept = lambda *_: True
    command: str = ""
    scenario: Callable[[], Scenario] | None = None

    def small_study(self) -> Any:
        return (self.small or self.study)()


@cache
def cases() -> dict[str, Case]:
    """Return the ``CASE`` of every kind that has a module here, by the kind's name."""
    names = [info.name for info in pkgutil.iter_modules(__path__)]
    return {name: importlib.import_module(f"{__name__}.{name}").CASE for name in names}


def blocks_kept(size: int) -> Kept:
    """Return a check that a failure costs the blocks of its round or turn, at most ``size`` of them, and no others."""

    def check(record: Any, answered: Counter[str], failed: int) -> bool:
        rounds = () if record is None else record.rounds
        return bool(0 <= answered["block"] - sum(len(item.blocks) for item in rounds) <= (size - 1) * failed)

    return check


def thinned(record: Any) -> Any:
    """Return a record with few of its rounds."""
    return record.model_copy(update={"rounds": record.rounds[:12]})
