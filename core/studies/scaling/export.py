"""Export of a scaling study as JSON and as lines of text."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Literal

from core.base.evidence import note_lines
from core.base.numbers import bounded, moment, number, rounded, table
from core.base.text import in_lines, sentence_case
from core.rounds.ran_as import ran_as, ran_line
from core.rounds.show.export import all_warnings, fastest_fields, placement_lines, verdict_fields
from core.studies.scaling.answer import EVERY, AllReduce, Efficiency, ScalingAnswer, Several, Why
from core.studies.scaling.record import TRY_OUT
from core.workload.names import are

GOOD = 0.9
"""If a strong efficiency may reach this at the largest batch, it needs no remedy."""
LEAST_GAIN = 1.02
"""Least possible speed-up by accumulation that is worth naming."""
ACCUMULATING = {
    "tensorflow": "fails on several devices",
    "jax": "sums the gradients of the devices in every step all the same",
}
"""Behaviour of Keras's own gradient_accumulation_steps there (docs/scaling.md), by framework."""
LOSSES = {
    "replica": "Most is lost to the smaller batch per replica, where the fixed cost of a step weighs more.",
    "together": "Most is lost to working together: all-reduce, launching the step on each device, sharing the batch "
    "out.",
}


@dataclass(frozen=True)
class Remedy:
    """Suggested remedy: a larger ``batch`` per replica, to ``accumulate`` gradients, or ``fewer`` devices."""

    code: Literal["batch", "accumulate", "fewer"]
    sentence: str


def headline(answer: ScalingAnswer) -> str:
    """Return the verdict, preceded by its limited meaning for logical CPUs and simulated devices."""
    verdict = answer.verdict.sentence
    if answer.study.label == "simulated":
        return f"Simulated: {verdict}"
    return f"{TRY_OUT}. {verdict}" if answer.study.plan.is_tried_out else verdict


def share(quantity: Efficiency | AllReduce) -> str:
    """Return ``91 % (88 to 94)``."""
    if quantity.low is None or quantity.high is None:
        return f"{percent(quantity.value)} %"
    digits = 1 if percent(quantity.low) == percent(quantity.high) else 0
    value, low, high = (percent(bound, digits) for bound in (quantity.value, quantity.low, quantity.high))
    return f"{value} % ({low} to {high})"


def percent(value: float, digits: int = 0) -> str:
    """Format a share in percent, below 10 with one decimal at least."""
    return f"{100 * value:.{digits if value >= 0.1 else 1}f}"


def efficiency_words(answer: ScalingAnswer) -> tuple[str, ...]:
    """Describe for each number of devices the speed-up and efficiency at its largest batch; empty for logical CPUs."""
    if answer.study.plan.is_tried_out:
        return ()
    return tuple(_at_the_largest(answer, group) for group in answer.several)


def _at_the_largest(answer: ScalingAnswer, group: Several) -> str:
    last = next((efficiency for efficiency in reversed(group.strong) if efficiency.low is not None), None)
    ratio = None if last is None else group.speed_up(last.batch)
    if last is None or ratio is None:
        return f"{sentence_case(group.name)}: too few rounds for an interval, so nothing is said of the efficiency."
    return (
        f"{sentence_case(group.name)} at batch {last.batch:,}: {bounded(ratio.ratio, ratio.low, ratio.high)} times the "
        f"throughput of {answer.study.plan.names[0]}, a strong efficiency of {share(last)}."
    )


def in_question(group: Several) -> Why | None:
    """Return the batch at which several devices are slower than one, else the largest if they are clearly inefficient
    there.
    """
    if group.slower is not None:
        return group.slower
    return group.largest if group.largest is not None and (group.largest.strong.high or 1.0) < GOOD else None


def reasons(answer: ScalingAnswer) -> tuple[str, ...]:
    """Explain for each number of devices why they are slower than one, or not faster than they are."""
    sentences: list[str] = []
    for group in answer.several:
        if (why := in_question(group)) is not None:
            sentences += [_why(answer, group, why), _of_all_reduce(answer, group, why)]
    return tuple(sentences)


def _why(answer: ScalingAnswer, group: Several, why: Why) -> str:
    than, alone = "slower" if group.slower is not None else "no faster", answer.study.plan.names[0]
    main = f" {LOSSES[why.main]}" if why.main is not None else ""
    return (
        f"Why {group.name} {are(group.name)} {than} at batch {why.batch:,}: the strong efficiency of "
        f"{share(why.strong)} is the product of {share(why.replica)}, what {alone} keeps with "
        f"{why.strong.a_replica:,} samples in place of {why.batch:,}, and {share(why.together)}, what working "
        f"together leaves.{main}"
    )


def _of_all_reduce(answer: ScalingAnswer, group: Several, why: Why) -> str:
    """Describe the all-reduce's known part in working together."""
    if not answer.study.plan.workload.training:
        return f"In inference {group.name} {'need' if are(group.name) == 'are' else 'needs'} no all-reduce."
    traced = _nearest(group, why.batch)
    if traced is None:
        return (
            f"The all-reduce of {group.name} was not measured; with all else of working together it takes at most "
            f"{percent(_together(why))} % of a step at batch {why.batch:,}."
        )
    return f"The all-reduce of {group.name} takes {share(traced)} of a step at batch {traced.batch:,} (traced)."


def _together(why: Why) -> float:
    """Return the largest share of a step that working together costs."""
    return max(0.0, 1 - (why.together.low or 0.0))


def _nearest(group: Several, batch: int) -> AllReduce | None:
    return min(group.traced, key=lambda traced: abs(math.log(traced.batch / batch)), default=None)


def remedies(answer: ScalingAnswer) -> tuple[Remedy, ...]:
    """Return remedies supported by the measured curves and traces; none for logical CPUs, which are no faster."""
    if answer.study.plan.is_tried_out:
        return ()
    suggested = []
    for group in answer.several:
        if (why := in_question(group)) is not None:
            suggested += [_larger(group, why), _accumulated(answer, group, why)]
    return tuple(remedy for remedy in (*suggested, _fewer(answer)) if remedy is not None)


def _larger(group: Several, why: Why) -> Remedy | None:
    """Suggest more samples per replica, if that is clearly more efficient."""
    now, best, last = why.strong, group.best, group.strong[-1]
    if best is None or best.low is None or now.low is None or now.high is None:
        return None
    there = f"{now.a_replica:,} samples per replica it is {share(now)}"
    if best.batch > now.batch and best.low > now.high:
        return Remedy(
            "batch",
            f"A larger batch per replica helps {group.name}: with {best.a_replica:,} samples per replica (batch "
            f"{best.batch:,}) the strong efficiency is {share(best)}, with {there}.",
        )
    if last.batch > now.batch:
        return Remedy(
            "batch",
            f"It is not clear that a larger batch per replica helps {group.name}: with {last.a_replica:,} samples a "
            f"replica the strong efficiency is {share(last)}, with {there}.",
        )
    first = group.strong[0]
    if first.high is None or first.high >= now.low:
        return None
    return Remedy(
        "batch",
        f"A larger batch per replica than measured may help {group.name}: with {first.a_replica:,} samples per replica "
        f"the strong efficiency is {share(first)}, with {there}.",
    )


def _accumulated(answer: ScalingAnswer, group: Several, why: Why) -> Remedy | None:
    """Suggest one all-reduce in several steps, if a trace bounds its gain."""
    traced = _nearest(group, why.batch)
    if traced is None or not answer.study.plan.workload.training:
        return None
    gain = traced.most_gained(_together(why) if traced.batch == why.batch else None)
    if gain < LEAST_GAIN:
        return None
    return Remedy(
        "accumulate",
        f"Gradient accumulation on {group.name}: with one all-reduce in {EVERY} steps of batch {traced.batch:,}, which "
        f"then update the weights together, steps are at most {number(gain)} times as fast (predicted from the traced "
        "share). It takes a training loop of your own: Keras's gradient_accumulation_steps "
        f"{ACCUMULATING[answer.study.plan.targets[0].framework]}.",
    )


def _fewer(answer: ScalingAnswer) -> Remedy | None:
    """Suggest fewer devices if they are faster than all: one throughout, or some at the largest batch sizes."""
    verdict, names = answer.verdict, answer.study.plan.names
    if not verdict.has_interval:
        return None
    if answer.answer.fastest is None:
        alone = verdict.kind == "ahead" and verdict.ahead == answer.run.target_names[0]
        return Remedy("fewer", f"Use {names[0]} alone: it is faster at every batch size measured.") if alone else None
    last = answer.answer.fastest.bands[-1]
    best = last.targets[0]
    if len(last.targets) > 1 or best == len(names) - 1:
        return None
    where = (
        f"from batch {rounded(last.from_batch)} on" if len(answer.answer.fastest.bands) > 1 else "at all batch sizes"
    )
    return Remedy("fewer", f"Use fewer devices: {names[best]} {are(names[best])} faster than {names[-1]} {where}.")


def notes(answer: ScalingAnswer) -> tuple[str, ...]:
    """Return qualifications of the result."""
    study, names = answer.study, answer.study.plan.names
    failed = (
        f"{sentence_case(names[cell.target])} at batch {cell.batch:,}: {cell.reason}"
        for cell in study.cells
        if cell.outcome not in ("measured", "pending") and cell.reason
    )
    return tuple(dict.fromkeys((*_executions(answer), *failed)))


def _executions(answer: ScalingAnswer) -> list[str]:
    """Note if devices ran differently compiled steps, which is then part of the difference."""
    run = answer.run
    ran = [form.execution if (form := ran_as(run, index)) is not None else None for index in range(len(run.names))]
    if None in ran or len(set(ran)) == 1:
        return []
    ways = ", ".join(f"{name}: {'XLA' if way == 'xla' else way}" for name, way in zip(run.names, ran, strict=True))
    return [
        f"The step was compiled differently ({ways}), as Keras chooses. That is part of what working together costs "
        "here; with execution=graph on all of them it is left out."
    ]


COLUMNS = (
    "devices", "batch", "per replica", "speed-up", "strong efficiency", "weak efficiency", "smaller batch leaves",
)  # fmt: skip


def scaling_data(answer: ScalingAnswer) -> dict[str, Any]:
    """Return the derived answer, and under ``record`` the raw measurements behind it.

    Efficiencies and shares are from 0 to 1, batch sizes global. ``verdict`` has the form of a sweep's.
    """
    study = answer.study
    several = answer.answer.fastest is not None
    return {
        "headline": headline(answer),
        "label": study.label,
        "verdict": fastest_fields(answer.run, answer.answer) if several else verdict_fields(answer.verdict),
        "tried_out": study.plan.is_tried_out,
        "efficiency": efficiency_words(answer),
        "reasons": reasons(answer),
        "remedies": [asdict(remedy) for remedy in remedies(answer)],
        "several": [_several(group) for group in answer.several],
        "record": study.model_dump(mode="json"),
    }


def _several(group: Several) -> dict[str, Any]:
    return asdict(group) | {"verdict": verdict_fields(group.verdict)}


def scaling_text(answer: ScalingAnswer) -> str:
    """Return the verdict, then the reasons, the remedies, the table and the notes."""
    study = answer.study
    lines = [headline(answer), *efficiency_words(answer), *reasons(answer)]
    lines += [remedy.sentence for remedy in remedies(answer)]
    lines += ["", *table(COLUMNS, rows(answer)), "", *notes(answer)]
    lines.append(
        f"All times are {study.label}: {study.title}, {study.plan.pipeline.title}; {len(study.rounds):,} rounds in "
        f"{study.starts} starts, {study.elapsed_s:.0f} s, {study.status}, {moment(study.created_at)}"
    )
    lines += [*ran_line(answer.run), *placement_lines(answer.run)]
    lines += note_lines(all_warnings(answer.run, answer.answer))
    return in_lines(lines)


def rows(answer: ScalingAnswer) -> list[tuple[str, int, int, str, str, str, str]]:
    """Return one row per number of devices and global batch, sorted by both."""
    return [_row(group, batch) for group in answer.several for batch in _batches(group)]


def _row(group: Several, batch: int) -> tuple[str, int, int, str, str, str, str]:
    ratio = group.speed_up(batch)
    kinds = (group.strong, group.weak, group.replica)
    strong, weak, replica = ("" if (at := at_batch(kind, batch)) is None else share(at) for kind in kinds)
    speed_up = "" if ratio is None else f"{bounded(ratio.ratio, ratio.low, ratio.high)}×"
    return group.name, batch, batch // group.replicas, speed_up, strong, weak, replica


def at_batch(kind: Iterable[Efficiency], batch: int) -> Efficiency | None:
    return next((efficiency for efficiency in kind if efficiency.batch == batch), None)


def _batches(group: Several) -> list[int]:
    return sorted({efficiency.batch for kind in (group.strong, group.weak) for efficiency in kind})
