"""Budget after which the same arms give intervals as narrow as wanted. Pure.

An experiment is kept whole, so it cannot be resumed; the same plan is measured again with a longer budget.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from statistics import median

from core.analysis.longer import round_time_s
from core.studies.experiment.record import Experiment
from core.studies.experiment.run import MIN_ROUNDS, MIN_STARTS, SETUP_SHARE

SAFETY = 1.2  # factor on the time extrapolated from this experiment
LEAST_GROWTH = 1.5  # a budget hardly longer would hardly show more


def longer_budget_s(
    experiment: Experiment, halves: Sequence[tuple[float, float]] = (), share: float = 1.0
) -> float | None:
    """Return the budget after which the experiment should have three starts and intervals as narrow as wanted; None
    above an hour.

    ``halves`` are half widths of intervals as they are and as wanted, in log; an unknown one is left out. Widths fall
    with the square root of the time, between starts and rounds alike. ``share`` of a budget goes to the arms.
    """
    setup_s, round_s = _costs_s(experiment)
    starts_s = max(MIN_STARTS * setup_s / SETUP_SHARE, MIN_STARTS * (setup_s + MIN_ROUNDS * round_s))
    grown = max([LEAST_GROWTH, *((now / wanted) ** 2 for now, wanted in halves if wanted > 0)])
    needed_s = SAFETY * max(starts_s, grown * share * max(experiment.elapsed_s, setup_s)) / share
    return round_time_s(lambda step: step >= needed_s)


def _costs_s(experiment: Experiment) -> tuple[float, float]:
    """Return the seconds of a start with its preparations (the longest), and of a round of all arms (the median)."""
    at: dict[int, list[float]] = defaultdict(list)
    for item in experiment.rounds:
        at[item.blocks[0].process].append(min(block.at_s for block in item.blocks))
    if not at:
        return 0.0, 0.0
    begins = [times[0] for _, times in sorted(at.items())]
    ends = [0.0, *(max(times) for _, times in sorted(at.items()))]
    setup_s = max(max(0.0, begin - end) for begin, end in zip(begins, ends, strict=False))
    apart = [after - before for times in at.values() for before, after in pairwise(times)]
    left_s = max(0.0, experiment.elapsed_s - setup_s * len(at)) / max(1, len(experiment.rounds))
    return setup_s, median(apart) if apart else left_s
