"""The answer to “which batch should we train with?” in sentences, verdict first, and as one JSON object."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from core.base.numbers import duration, number, rounded
from core.rounds.answer.answer import Answer
from core.rounds.run import Run
from core.studies.batch.shapes import BatchAnswer, BestBatch, Choice, CostAnswer, LossCrossover, Quantity, TargetBatches
from core.studies.noise.answer import TrainingNoise
from core.studies.noise.export import noise_sentence
from core.studies.noise.record import NoiseStudy
from core.userdata.source import RANDOM_LABELS
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
    lines = [_verdict(targets, noise, choice)]
    if times := _times(targets):
        lines.append(times)
    if noise is None:
        training = run.plan is None or run.plan.workload.training
        lines.append(
            "The gradient noise scale has not been measured, so nothing is said of how many steps a loss takes."
            if training
            else "Inference has no gradients and no noise scale: only throughput and cost count."
        )
    else:
        lines.append(noise_sentence(noise))
    if len(run.names) > 1:
        lines.append(f"In step time, at equal batch: {answer.verdict.sentence}")
    lines += [crossover.sentence for crossover in crossovers]
    lines += _memory(targets)
    lines += [cost.sentence for cost in costs]
    if crossovers:
        lines.append(TUNED)
    if taught:
        lines.append(TAUGHT)
    return tuple(lines)


def _verdict(targets: Sequence[TargetBatches], noise: TrainingNoise | None, choice: Choice | None) -> str:
    """Return the verdict in one sentence; the next sentence has the times with their intervals."""
    if choice is None:
        which = {1: "this target", 2: "either target"}.get(len(targets), "any target")
        return f"No measured batch fits into memory on {which}."
    best = _best(targets, choice)
    if choice.by == "throughput":
        return f"Most samples per second: {_taken(best, choice)}."
    if len(best) == 1:
        return f"Predicted: the time to a loss is shortest at {_near(next(iter(best.values())))}."
    loss = "a loss" if noise is None or noise.steps is None else f"a loss of {number(noise.target_loss)}"
    return f"Predicted, fastest to {loss}: {_taken(best, choice)}."


def _best(targets: Sequence[TargetBatches], choice: Choice) -> dict[str, BestBatch]:
    """Return the best batch of each target that has one, by title, the chosen target first."""
    order = sorted(targets, key=lambda target: target.name != choice.target)
    best_of = {target.title: target.best_time if choice.by == "time" else target.best_throughput for target in order}
    return {title: best for title, best in best_of.items() if best is not None}


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
    either = " or ".join(f"{name} at {_near(batch)}" for name, batch in best.items())
    return f"{either}; it is not clear which of them is faster"


def time_at_best(target: TargetBatches) -> Quantity | None:
    """Return the time to the target loss at the target's best batch, in seconds."""
    best = target.best_time
    return next((point.time_s for point in target.points if best is not None and point.batch == best.batch), None)


def _times(targets: Sequence[TargetBatches]) -> str:
    """Return the time to the loss of each target at its best batch, with its interval; empty if none has one."""
    times = []
    for target in targets:
        time_s = time_at_best(target)
        if time_s is not None and time_s.low is not None and time_s.high is not None:
            span = f"{duration(time_s.value)} (95 %: {duration(time_s.low)} to {duration(time_s.high)})"
            times.append(f"{target.title} {span}")
    return f"Time to the loss at the best batch, predicted: {'; '.join(times)}." if times else ""


def _near(best: BestBatch) -> str:
    ends = {"largest": " (the largest measured)", "smallest": " (the smallest measured)",
            "memory": " (the largest measured that fits)", None: ""}  # fmt: skip
    return f"batch {best.batch:,}{ends[best.edge]}"


def loss_sentence(crossover: LossCrossover, names: tuple[str, str], reach: tuple[float, float], possible: bool) -> str:
    """Return a :class:`LossCrossover` in words, with the ``names`` of target and other.

    ``reach`` is the range of batches; ``possible`` is True if its interval contains a batch at which the target is
    faster.
    """
    who, other = names
    than = f"faster than {other} at its best batch ({crossover.other_best:,})"
    first, last = (rounded(batch) for batch in reach)
    if crossover.batch is None:
        doubt = " (95 %)" if not possible else ", though that is not clear"
        return f"In time to the loss: {who} {are(who)} nowhere {than}, from batch {first} to {last}{doubt}."
    batch, low, high = crossover.batch, crossover.low, crossover.high
    start = f"from batch {rounded(batch)}" if batch > reach[0] else f"from the smallest batch, {first},"
    span = " (not clear)"
    if low is not None and high is not None:
        span = f" (95 % interval {rounded(low)} to {rounded(high)})" if high > low else ""
    end = f" up to {rounded(crossover.until)}" if crossover.until is not None else " on"
    return f"In time to the loss: {who} {are(who)} {than} {start}{span}{end}."


def _memory(targets: Sequence[TargetBatches]) -> list[str]:
    """Return one sentence per limit in bytes, with every target that it applies to."""
    held: dict[int | None, list[TargetBatches]] = {}
    for target in targets:
        if target.memory is not None:
            held.setdefault(target.memory.limit_bytes, []).append(target)
    return [f"Largest batch that fits{those[0].memory.within if those[0].memory else ''}: "
            f"{'; '.join(_fits(target) for target in those)}." for those in held.values()]  # fmt: skip


def _fits(target: TargetBatches) -> str:
    memory = target.memory
    assert memory is not None
    if min(memory.largest, memory.low or memory.largest) >= MAX_BATCH:
        return f"all up to {MAX_BATCH:,} on {target.title}, {memory.label}"
    known = memory.low is not None and memory.high is not None and memory.low < memory.high
    span = f" ({memory.low:,} to {memory.high:,})" if known else ""
    return f"{memory.largest:,}{span} on {target.title}, {memory.label}"


def batch_data(run: Run, answer: BatchAnswer, noise: NoiseStudy | None) -> dict[str, Any]:
    """Return the derived results, with the noise study as measured under ``record``. The run is exported separately.

    Times are in the unit of their name; noise scales and batches in samples, costs in the prices' currency. ``steps``,
    ``time_s``, ``relative_time`` and costs to a loss are predicted from measured parts. ``cost`` compares two targets;
    for more, ``costs`` compares each with the first.
    """
    data = asdict(answer)
    del data["step_verdict"]
    prices = [price.model_dump() for target in answer.targets if (price := target.price) is not None]
    for target in data["targets"]:
        for name in ("price", "index", "title"):
            target.pop(name)
    for cost in data["costs"]:
        cost.pop("prices")
    if len(run.target_names) == 2:
        costs = data.pop("costs")
        data["cost"] = costs[0] if costs else None
    data["warnings"] = [warning.model_dump() for warning in answer.warnings]
    return {
        "verdict": answer.sentences[0],
        "run_id": run.id,
        "crossover": answer.step_verdict.sentence,
        **data,
        "labels": {"steps": "predicted", "time_s": "predicted", "relative_time": "predicted"},
        "task": RANDOM_LABELS if noise is None else noise.plan.task,
        "prices": prices,
        "record": None if noise is None else noise.model_dump(mode="json"),
    }
