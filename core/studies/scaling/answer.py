"""Answer of a scaling study: from which batch several devices are faster than one, how efficiently, and the limits.

With n devices, B samples in a step of all together and t₁ and tₙ the step times:

- strong efficiency, at the same batch: t₁(B) / (n·tₙ(B)), the speed-up over n;
- weak efficiency, at the same batch per replica: t₁(b) / tₙ(n·b);
- retention at the smaller batch per replica: t₁(B) / (n·t₁(B/n)), of one device alone, which computes some batches
  more efficiently than others.

The first is the product of the other two, so they distinguish two reasons why several devices are no faster: too little
work per replica, or the cost of working together (all-reduce, launching the step on each device, dividing the batch).
Each is a ratio of step times from the same start of the workers; their intervals are those of a sweep's speed-ups
(:mod:`core.rounds.answer.crossover`).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from core.analysis.statistics import CONFIDENCE, estimate_columns
from core.base.evidence import Block
from core.rounds.answer.analyse import analyse, speed_ups
from core.rounds.answer.answer import Answer, SpeedUp, Verdict
from core.rounds.answer.crossover import build_curve
from core.rounds.answer.observations import observe
from core.rounds.run import Round, Run
from core.studies.scaling.record import ScalingStudy

EVERY = 4
"""Steps of accumulation in the text: one all-reduce in four leaves a quarter of its time."""


@dataclass(frozen=True)
class AllReduce:
    """Share of a step at a global batch, the mean of the traced steps, with its 95 % interval over them."""

    batch: int
    a_replica: int
    value: float
    low: float
    high: float

    def most_gained(self, together: float | None, every: int = EVERY) -> float:
        """Return the largest possible speed-up with one all-reduce per ``every`` steps, predicted.

        ``together`` is the largest share of a step that working together costs, if known.
        """
        saved = self.high if together is None else min(self.high, max(0.0, together))
        return 1 / (1 - saved * (1 - 1 / every))


def all_reduces(study: ScalingStudy, target: int) -> tuple[AllReduce, ...]:
    """Return the shares of a target of several devices, by rising batch, from trusted traces that contain them."""
    replicas = study.plan.targets[target].replicas
    cells = (cell for cell in sorted(study.traces, key=lambda cell: cell.batch) if cell.target == target)
    shares = ((cell.batch, _mean(cell.device.all_reduce_shares)) for cell in cells if cell.trusted)
    return tuple(AllReduce(batch, batch // replicas, *mean) for batch, mean in shares if mean is not None)


def _mean(shares: tuple[float, ...]) -> tuple[float, float, float] | None:
    """Return the mean with its interval, clipped to 0 and 1; None for too few."""
    if not shares:
        return None
    estimate = estimate_columns(np.array(shares)[:, None], trimmed=False)
    middle, half = float(estimate.center[0]), float(estimate.half_width(1 - CONFIDENCE)[0])
    return (middle, max(0.0, middle - half), min(1.0, middle + half)) if math.isfinite(half) else None


Loss = Literal["replica", "together"]
"""Main loss of efficiency: the smaller batch per replica, or working together."""


@dataclass(frozen=True)
class Efficiency:
    """Share of the ideal performance of n devices (0.9 is 90 %) with its 95 % interval (None: too few rounds).

    ``batch`` is global, ``a_replica`` is each device's part of it.
    """

    batch: int
    a_replica: int
    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Why:
    """Explanation of an efficiency at a batch: ``strong`` is the product of ``replica`` and ``together``. ``main`` is
    the one that clearly loses more, or None.
    """

    strong: Efficiency
    replica: Efficiency
    together: Efficiency
    main: Loss | None

    @property
    def batch(self) -> int:
        return self.strong.batch


@dataclass(frozen=True)
class Several:
    """One target of several devices, number ``target``, against one device.

    ``strong`` and ``replica`` are by rising global batch, as is ``weak``, at n times the batch of one device.
    ``slower`` explains the largest batch at which one device is clearly faster, by more than a tie; ``largest`` the
    largest batch of all.
    """

    target: int
    replicas: int
    name: str
    verdict: Verdict
    speed_ups: tuple[SpeedUp, ...]
    strong: tuple[Efficiency, ...]
    weak: tuple[Efficiency, ...]
    replica: tuple[Efficiency, ...]
    traced: tuple[AllReduce, ...]
    slower: Why | None = None
    largest: Why | None = None

    @property
    def best(self) -> Efficiency | None:
        """Highest strong efficiency that has an interval: what a large enough batch achieves."""
        with_interval = [strong for strong in self.strong if strong.low is not None]
        return max(with_interval, key=lambda strong: strong.low or 0.0, default=None)

    def speed_up(self, batch: int) -> SpeedUp | None:
        return next((speed_up for speed_up in self.speed_ups if speed_up.batch == batch), None)


@dataclass(frozen=True)
class ScalingAnswer:
    """Answer of a scaling study. ``run`` is the study as a sweep and ``answer`` its answer; ``several`` by rising
    device count.
    """

    study: ScalingStudy
    run: Run
    answer: Answer
    several: tuple[Several, ...]

    @property
    def verdict(self) -> Verdict:
        return self.answer.verdict


def scaling_answer(study: ScalingStudy) -> ScalingAnswer:
    """Derive the answer. Raises UserError without a round."""
    run = study.run
    answer = analyse(run)
    by_target = {against.target: against for against in answer.against}
    several = tuple(
        _several(study, run, by_target[target].verdict, by_target[target].speed_ups, target)
        for target in study.plan.several
        if target in by_target
    )
    return ScalingAnswer(study, run, answer, several)


def _several(study: ScalingStudy, run: Run, verdict: Verdict, ratios: tuple[SpeedUp, ...], target: int) -> Several:
    count = study.plan.targets[target].replicas
    together = _ratios(paired(run, 0, target, count))
    alone = _ratios(paired(run, 0, 0, count))
    group = Several(
        target=target,
        replicas=count,
        name=study.plan.names[target],
        verdict=verdict,
        speed_ups=ratios,
        strong=tuple(_efficiency(ratio, ratio.batch, count, lambda value: value / count) for ratio in ratios),
        weak=tuple(_efficiency(ratio, count * ratio.batch, count, lambda value: value) for ratio in together),
        # one device at b over itself at n·b, so the share is the inverse
        replica=tuple(
            _efficiency(ratio, count * ratio.batch, count, lambda value: 1 / (count * value)) for ratio in alone
        ),
        traced=all_reduces(study, target),
    )
    slower = [ratio.batch for ratio in ratios if verdict.kind != "tie" and ratio.high is not None and ratio.high < 1]
    return replace(group, slower=_last(group, slower), largest=_last(group, [ratio.batch for ratio in ratios]))


def _efficiency(speed_up: SpeedUp, batch: int, count: int, of: Callable[[float], float]) -> Efficiency:
    bounds = None if speed_up.low is None or speed_up.high is None else sorted((of(speed_up.low), of(speed_up.high)))
    low, high = (None, None) if bounds is None else bounds
    return Efficiency(batch, batch // count, of(speed_up.ratio), low, high)


def _ratios(run: Run) -> tuple[SpeedUp, ...]:
    """Return the step time of the first target over that of the second, by the first one's batch."""
    table = observe(run)
    return speed_ups(build_curve(table), table.counts) if len(table.batches) else ()


def _last(group: Several, batches: list[int]) -> Why | None:
    """Explain the largest of these batches at which all three efficiencies have intervals; None without one."""
    for batch in reversed(batches):
        efficiencies = [
            next((efficiency for efficiency in kind if efficiency.batch == batch and efficiency.low is not None), None)
            for kind in (group.strong, group.replica, group.weak)
        ]
        strong, replica, together = efficiencies
        if strong is not None and replica is not None and together is not None:
            return Why(strong, replica, together, _main(replica, together))
    return None


def _main(replica: Efficiency, together: Efficiency) -> Loss | None:
    """Return the factor that is clearly smaller, if any; both have their intervals."""
    if (replica.high or 1.0) < (together.low or 0.0):
        return "replica"
    return "together" if (together.high or 1.0) < (replica.low or 0.0) else None


def paired(run: Run, first: int, second: int, factor: int) -> Run:
    """Pair two targets, or one with itself, as 0 and 1: in each round the first one's block at a batch, and the second
    one's at ``factor`` times that batch from the same pass of the same start.
    """
    others: dict[tuple[int, int, int], Iterator[Block]] = {
        place: iter(blocks) for place, blocks in _blocks(run, second).items()
    }
    rounds: list[Round] = []
    for (process, pass_index, batch), blocks in _blocks(run, first).items():
        beside = others.get((process, pass_index, factor * batch), iter(()))
        for block, other in zip(blocks, beside, strict=False):
            pair = (block.model_copy(update={"target": 0}), other.model_copy(update={"target": 1}))
            rounds.append(Round(index=len(rounds), pass_index=pass_index, batch=batch, blocks=pair))
    names = run.target_names[first], run.target_names[second]
    return run.model_copy(update={"target_names": names, "plan": None, "rounds": tuple(rounds)})


def _blocks(run: Run, target: int) -> dict[tuple[int, int, int], list[Block]]:
    """Return a target's blocks by process, pass and batch, in their order."""
    blocks: dict[tuple[int, int, int], list[Block]] = defaultdict(list)
    for item in run.rounds:
        for block in item.blocks:
            if block.target == target:
                blocks[block.process, item.pass_index, item.batch].append(block)
    return blocks
