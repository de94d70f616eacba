"""Text and JSON fields (``verdict --json``) about the gain of running two targets at once."""

from __future__ import annotations

import math

from core.numbers import bounded, number
from core.studies.sweep.answer import SpeedUp
from core.studies.sweep.fastest import margin_of
from core.studies.sweep.record import Run
from core.studies.sweep.split import Split, Together
from core.text import sentence_case

WHY_A_BOUND = (
    "A bound, predicted from the two curves, which were measured one at a time: waiting for each other and summing "
    "gradients costs more, and so do the cores and the memory that a GPU's program shares with the CPU."
)
BEFORE = "before what synchronising costs"
NOTHING = 1.0005
"""Speed-ups below it are shown as 0 %."""


def split_lines(run: Run, found: Together) -> tuple[str, ...]:
    """Tell whether dividing a batch between two targets is worth it, with the bound on the gain and its interval, and
    the gain of halves. The plan's margin decides.
    """
    if not found.with_interval:
        return (f"Too few rounds for an interval, so nothing is said of {_both(run, found)} at once.",)
    return _worth(run, found), *_halves(run, found), *_narrower(run, found)


def _worth(run: Run, found: Together) -> str:
    margin, most, both = margin_of(run, None), found.most, _both(run, found)
    assert most.low is not None
    assert most.high is not None
    where = " to ".join(dict.fromkeys(f"{found.with_interval[end].batch:,}" for end in (0, -1)))
    if len(found.with_interval) < len(found.splits):
        where += "; too few rounds at others"
    if most.high < 1 + margin:
        by, interval = "faster", "95 %"
        if most.high >= NOTHING:
            by = f"more than {_percent(most.high)} faster"
            interval = f"estimated {_percent(most.ratio)}, 95 % interval {_interval(most)}"
        return (
            f"Not worth it: at no measured batch size ({where}) could {both} together be {by} than the faster of them "
            f"alone ({interval}), {BEFORE}."
        )
    split = next(one for one in found.splits if one.batch == most.batch)
    at = f" at batch {split.batch:,} with {samples_words(run, found, split)}" if min(split.samples) else ""
    gain = (
        f"{both} together could be at most {_percent(most.ratio)} faster than {run.names[found.targets[split.alone]]} "
        f"alone (95 % interval {_interval(most)}){at}, {BEFORE}"
    )
    if most.low >= 1 + margin:
        return f"{sentence_case(gain)}."
    return f"Not clear whether it is worth it: {gain}; {_percent(1 + margin)} is the margin."


def _halves(run: Run, found: Together) -> tuple[str, ...]:
    """Describe the gain of halves at the largest batch that has an interval, which is not selected by its result."""
    split = next((one for one in reversed(found.splits) if one.even.low is not None), found.splits[-1])
    if split.even.low is None or split.even.high is None:
        return ()
    times = bounded(1 / split.even.ratio, 1 / split.even.high, 1 / split.even.low)
    value, bracket, bounds = times.partition(" (")
    return (
        f"Halves, as MirroredStrategy and DataParallel divide a batch, would take {value}×{bracket}{bounds} as long as "
        f"{run.names[found.targets[split.alone]]} alone at batch {split.batch:,}, {BEFORE}.",
    )


def _narrower(run: Run, found: Together) -> tuple[str, ...]:
    """Recommend a measurement if the gain is unclear: a sweep with a crossover hardly returns to other batch sizes."""
    low, worth, high = found.most.low or 1.0, 1 + margin_of(run, None), found.most.high or 1.0
    below = [split.batch for split in found.splits if split.alone != found.splits[-1].alone]
    above = [split.batch for split in found.splits if split.batch > max(below, default=math.inf)]
    if not low < worth <= high or not above:
        return ()
    return (
        f"A sweep of batch sizes above the crossover alone, from {above[0]:,} on, would narrow the interval: this one "
        "spent its time near the crossover.",
    )


def split_fields(run: Run, found: Together) -> dict[str, object]:
    """Return targets by their notation and speed-ups over the faster target alone, with bounds None without an
    interval.
    """
    return {
        "targets": [run.target_names[target] for target in found.targets],
        "speed_up": {"batch": found.most.batch, **_value(found.most)},
        "splits": [
            {"batch": one.batch, "samples": list(one.samples), "speed_up": _value(one.best), "halves": _value(one.even)}
            for one in found.splits
        ],
    }


def samples_words(run: Run, found: Together, split: Split) -> str:
    """Return ``12 samples on the CPU and 116 on GPU 0``, or ``all of it on GPU 0``."""
    (first, second), (one, other) = split.samples, (run.names[target] for target in found.targets)
    if not first or not second:
        return f"all of it on {one if first else other}"
    return f"{first:,} samples on {one} and {second:,} on {other}"


def _both(run: Run, found: Together) -> str:
    return " and ".join(run.names[target] for target in found.targets)


def _value(found: SpeedUp) -> dict[str, float | None]:
    return {"value": found.ratio, "low": found.low, "high": found.high}


def _percent(ratio: float) -> str:
    return f"{number(round(100 * (ratio - 1), 1))} %"


def _interval(found: SpeedUp) -> str:
    assert found.low is not None
    assert found.high is not None
    return f"{number(round(100 * (found.low - 1), 1))} to {_percent(found.high)}"
