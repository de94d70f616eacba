"""The sentences of the answer to “which batch should we train with?”, verdict first."""

from __future__ import annotations

from collections.abc import Sequence

from core.batch.shapes import BestBatch, CostAnswer, LossCrossover, MemoryLimit, Quantity, TargetBatches
from core.names import all_of
from core.numbers import duration, number, rounded
from core.spec import MAX_BATCH
from core.studies.gradient_noise.answer import TrainingNoise
from core.studies.gradient_noise.export import noise_sentence
from core.studies.sweep.answer import Answer
from core.studies.sweep.record import Run

MOST_NAMED = 3  # targets that a verdict names; of more it names the best
TUNED = (
    "Steps at batches other than the reference are predicted, for a learning rate that is tuned at each of them; their "
    "intervals allow for what such predictions missed real trainings by."
)
TAUGHT = (
    "The task is random inputs with the labels of a teacher network, not yours: your data have another noise scale "
    "and need other steps."
)


def sentences(
    run: Run,
    answer: Answer,
    targets: Sequence[TargetBatches],
    noise: TrainingNoise | None,
    crossovers: Sequence[LossCrossover],
    costs: Sequence[CostAnswer],
    *,
    taught: bool,
) -> tuple[str, ...]:
    """Verdict, how sure, the crossovers, memory, cost, and what is missing."""
    found = [_verdict(targets, noise)]
    if noise is None:
        training = run.plan is None or run.plan.workload.training
        found.append(
            "The gradient noise scale has not been measured, so nothing is said of how many steps a loss takes."
            if training
            else "Inference has no gradients and no noise scale: only throughput and cost count."
        )
    else:
        found.append(noise_sentence(noise))
    if len(run.names) > 1:
        found.append(f"In step time, at equal batch: {answer.verdict.sentence}")
    found += [crossover.sentence for crossover in crossovers]
    found += [_memory(target.title, target.memory) for target in targets if target.memory is not None]
    found += [cost.sentence for cost in costs]
    if crossovers:
        found.append(TUNED)
    if taught:
        found.append(TAUGHT)
    return tuple(found)


def _verdict(targets: Sequence[TargetBatches], noise: TrainingNoise | None) -> str:
    timed = [target for target in targets if target.best_time is not None and time_at_best(target) is not None]
    if noise is not None and timed:
        winner, *others = sorted(timed, key=lambda target: (time_at_best(target) or Quantity(0, None, None)).value)
        others = others if len(timed) <= MOST_NAMED else []
        times = [_reaches(winner, noise), *(_reaches(other, noise, brief=True) for other in others)]
        return f"Predicted: {'; '.join(times)}."
    relative = [target for target in targets if target.best_time is not None]
    if len(relative) > MOST_NAMED:
        batches = [target.best_time.batch for target in relative if target.best_time]
        span = f"between batch {min(batches):,} and {max(batches):,}"
        return f"Predicted: the time to a loss is shortest {span}, depending on the target."
    if relative:
        parts = [f"{_near(target.best_time)} on {target.title}" for target in relative if target.best_time]
        return f"Predicted: the time to a loss is shortest at {all_of(parts)}."
    parts = [f"{_near(target.best_throughput)} on {target.title}" for target in targets if target.best_throughput]
    if not parts:
        which = {1: "this target", 2: "either target"}.get(len(targets), "any target")
        return f"No measured batch fits into memory on {which}."
    if len(parts) > MOST_NAMED:
        most, best = max(((_most(one), one) for one in targets if one.best_throughput), key=lambda found: found[0])
        return f"Most samples a second: {best.title}, {rounded(most)} at {_near(best.best_throughput)}."
    return f"Most samples a second: {all_of(parts)}."


def _most(target: TargetBatches) -> float:
    """Samples a second at the target's best batch."""
    best = target.best_throughput
    return next(point.samples_per_s.value for point in target.points if best and point.batch == best.batch)


def time_at_best(target: TargetBatches) -> Quantity | None:
    """Time to the target loss at the target's best batch, in seconds."""
    best = target.best_time
    return next((point.time_s for point in target.points if best is not None and point.batch == best.batch), None)


def _reaches(target: TargetBatches, noise: TrainingNoise, brief: bool = False) -> str:
    time_s = time_at_best(target)
    assert time_s is not None
    span = f" (95 %: {duration(time_s.low)} to {duration(time_s.high)})" if time_s.low and time_s.high else ""
    if brief:
        return f"{target.title} at best at {_near(target.best_time)}, in {duration(time_s.value)}{span}"
    return (
        f"{target.title} reaches a loss of {number(noise.target_loss)} soonest, at {_near(target.best_time)}, in "
        f"{duration(time_s.value)}{span}"
    )


def _near(best: BestBatch | None) -> str:
    if best is None:
        return "no batch"
    ends = {
        "largest": ", the largest measured",
        "smallest": ", the smallest measured",
        "memory": ", the largest of them that fits",
        None: "",
    }
    within = "" if best.low == best.high else f" ({best.low:,} to {best.high:,} within 5 %)"
    return f"batch {best.batch:,}{ends[best.edge]}{within}"


def loss_sentence(found: LossCrossover, names: tuple[str, str], reach: tuple[float, float], possible: bool) -> str:
    """One :class:`LossCrossover` in words, with the ``names`` of target and other.

    ``reach`` is the range of batches, ``possible`` whether its interval holds any at which the target is sooner.
    """
    who, other = names
    than = f"sooner than {other} at its best batch ({found.other_best:,})"
    first, last = (rounded(batch) for batch in reach)
    if found.batch is None:
        doubt = " (95 %)" if not possible else ", though not significantly"
        return f"In time to the loss: {who} is nowhere {than}, from batch {first} to {last}{doubt}."
    start = f"from batch {rounded(found.batch)}" if found.batch > reach[0] else f"from the smallest batch, {first},"
    if found.low is not None and found.high is not None:
        span = f" (95 % interval {rounded(found.low)} to {rounded(found.high)})" if found.high > found.low else ""
    else:
        span = " (not significant)"
    end = f" up to {rounded(found.until)}" if found.until is not None else " on"
    return f"In time to the loss: {who} is {than} {start}{span}{end}."


def _memory(name: str, memory: MemoryLimit | None) -> str:
    assert memory is not None
    if min(memory.largest, memory.low or memory.largest) >= MAX_BATCH:
        return f"Memory: all batches up to {MAX_BATCH:,} fit{memory.within} on {name}, {memory.label}."
    span = "" if memory.low is None or memory.high is None else f" ({memory.low:,} to {memory.high:,})"
    return f"Memory: batch {memory.largest:,}{span} is the largest that fits{memory.within} on {name}, {memory.label}."
