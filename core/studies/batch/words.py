"""Sentences of the answer to “which batch should we train with?”, verdict first."""

from __future__ import annotations

from collections.abc import Sequence

from core.base.numbers import duration, number, rounded
from core.rounds.answer.answer import Answer
from core.rounds.run import Run
from core.studies.batch.shapes import BestBatch, Choice, CostAnswer, LossCrossover, Quantity, TargetBatches
from core.studies.noise.answer import TrainingNoise
from core.studies.noise.export import noise_sentence
from core.workload.names import are
from core.workload.spec import MAX_BATCH

MOST_NAMED = 3  # most targets named in a verdict; with more it names only the best
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
    choice: Choice | None,
    crossovers: Sequence[LossCrossover],
    costs: Sequence[CostAnswer],
    *,
    taught: bool,
) -> tuple[str, ...]:
    """Return the verdict, the times, their certainty, the crossovers, memory, cost, and what is missing."""
    found = [_verdict(targets, noise, choice)]
    if times := _times(targets):
        found.append(times)
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
    found += _memory(targets)
    found += [cost.sentence for cost in costs]
    if crossovers:
        found.append(TUNED)
    if taught:
        found.append(TAUGHT)
    return tuple(found)


def _verdict(targets: Sequence[TargetBatches], noise: TrainingNoise | None, choice: Choice | None) -> str:
    """Return the verdict in one sentence; the next sentence has the times with their intervals."""
    if choice is None:
        which = {1: "this target", 2: "either target"}.get(len(targets), "any target")
        return f"No measured batch fits into memory on {which}."
    best = _best(targets, choice)
    if choice.by == "throughput":
        return f"Most samples a second: {_taken(best, choice)}."
    if len(best) == 1:
        return f"Predicted: the time to a loss is shortest at {_near(next(iter(best.values())))}."
    loss = "a loss" if noise is None or noise.steps is None else f"a loss of {number(noise.target_loss)}"
    return f"Predicted, fastest to {loss}: {_taken(best, choice)}."


def _best(targets: Sequence[TargetBatches], choice: Choice) -> dict[str, BestBatch]:
    """Return the best batch of each target that has one, by title, the chosen target first."""
    order = sorted(targets, key=lambda target: target.name != choice.target)
    found = {one.title: one.best_time if choice.by == "time" else one.best_throughput for one in order}
    return {title: best for title, best in found.items() if best is not None}


def _taken(best: dict[str, BestBatch], choice: Choice) -> str:
    """Return the recommendation, or the alternatives if it is not clear."""
    (title, first), *others = best.items()
    if not others:
        return _near(first)
    if choice.clear:
        than = others[0][0] if len(others) == 1 else "every other target"
        return f"{title} at {_near(first)}, clearly faster than {than} at its best batch"
    if len(best) > MOST_NAMED:
        return f"it is not clear which of {len(best)} targets, each at its best batch"
    either = " or ".join(f"{name} at {_near(one)}" for name, one in best.items())
    return f"{either}; it is not clear which of them is faster"


def time_at_best(target: TargetBatches) -> Quantity | None:
    """Return the time to the target loss at the target's best batch, in seconds."""
    best = target.best_time
    return next((point.time_s for point in target.points if best is not None and point.batch == best.batch), None)


def _times(targets: Sequence[TargetBatches]) -> str:
    """Return the time to the loss of each target at its best batch, with its interval; empty if none has one."""
    found = []
    for target in targets:
        time_s = time_at_best(target)
        if time_s is not None and time_s.low is not None and time_s.high is not None:
            span = f"{duration(time_s.value)} (95 %: {duration(time_s.low)} to {duration(time_s.high)})"
            found.append(f"{target.title} {span}")
    return f"Time to the loss at the best batch, predicted: {'; '.join(found)}." if found else ""


def _near(best: BestBatch) -> str:
    ends = {"largest": " (the largest measured)", "smallest": " (the smallest measured)",
            "memory": " (the largest measured that fits)", None: ""}  # fmt: skip
    return f"batch {best.batch:,}{ends[best.edge]}"


def loss_sentence(found: LossCrossover, names: tuple[str, str], reach: tuple[float, float], possible: bool) -> str:
    """Return a :class:`LossCrossover` in words, with the ``names`` of target and other.

    ``reach`` is the range of batches; ``possible`` is True if its interval contains a batch at which the target is
    faster.
    """
    who, other = names
    than = f"faster than {other} at its best batch ({found.other_best:,})"
    first, last = (rounded(batch) for batch in reach)
    if found.batch is None:
        doubt = " (95 %)" if not possible else ", though that is not clear"
        return f"In time to the loss: {who} {are(who)} nowhere {than}, from batch {first} to {last}{doubt}."
    start = f"from batch {rounded(found.batch)}" if found.batch > reach[0] else f"from the smallest batch, {first},"
    if found.low is not None and found.high is not None:
        span = f" (95 % interval {rounded(found.low)} to {rounded(found.high)})" if found.high > found.low else ""
    else:
        span = " (not clear)"
    end = f" up to {rounded(found.until)}" if found.until is not None else " on"
    return f"In time to the loss: {who} {are(who)} {than} {start}{span}{end}."


def _memory(targets: Sequence[TargetBatches]) -> list[str]:
    """Return one sentence per limit in bytes, with every target that it applies to."""
    held: dict[int | None, list[TargetBatches]] = {}
    for target in targets:
        if target.memory is not None:
            held.setdefault(target.memory.limit_bytes, []).append(target)
    return [f"Largest batch that fits{those[0].memory.within if those[0].memory else ''}: "
            f"{'; '.join(_fits(one) for one in those)}." for those in held.values()]  # fmt: skip


def _fits(target: TargetBatches) -> str:
    memory = target.memory
    assert memory is not None
    if min(memory.largest, memory.low or memory.largest) >= MAX_BATCH:
        return f"all up to {MAX_BATCH:,} on {target.title}, {memory.label}"
    known = memory.low is not None and memory.high is not None and memory.low < memory.high
    span = f" ({memory.low:,} to {memory.high:,})" if known else ""
    return f"{memory.largest:,}{span} on {target.title}, {memory.label}"
