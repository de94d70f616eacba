"""A job in words, as tables, and as the file that is stored, imported and offered for download."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

from core.base.evidence import note_lines
from core.base.numbers import counted, duration, moment, number, percent, table
from core.base.text import in_lines
from core.studies.job.answer import Bounds, JobAnswer, OnTarget
from core.studies.job.breakdown import PARTS, main_phase, mode_of
from core.studies.job.capture import Capture, Phase
from core.studies.job.record import JobStudy

COLUMNS = ("target", "step ms", "95 % from", "to", "epoch", "once more", "this job", "job 95 % from", "job to")
CARD_COLUMNS = ("modelled card", "step ms", "95 % from", "to", "epoch", "")
PART_COLUMNS = ("part", "seconds", "share")
FEEDS = {"ArrayData": "arrays", "GeneratorData": "a generator", "TFDataset": "tf.data", "PyDataset": "a PyDataset"}
ENDED = {
    "finished": "", "stopped": ", stopped after the steps it was given", "failed": ", which failed",
    "interrupted": ", interrupted", "running": "",
}  # fmt: skip


def headline(study: JobStudy, answer: JobAnswer) -> str:
    """Return the verdict: which target is faster, from which length of the job on, or where its time went."""
    sentence = verdict_sentence(answer)
    return sentence if sentence else time_sentence(study.capture, answer)


def verdict_sentence(answer: JobAnswer) -> str:
    """Return the verdict on the targets in one sentence; empty if none was measured."""
    if not answer.targets:
        return ""
    own = answer.targets[0]
    best = next((target for target in answer.targets if target.target == answer.best), own)
    here = f"{duration(best.total_s.value)} instead of {duration(own.total_s.value)}"
    length = _length_words(answer, answer.length.epochs)
    if answer.reason == "pays_at_once":
        return f"{best.name} is faster from the first {answer.length.unit} on; this job has {length}: {here}."
    if answer.reason == "pays" and answer.pays_from is not None:
        return f"{best.name} is faster from {_from_words(answer)} on; this job has {length}: {here}."
    if answer.reason == "never" and answer.pays_from is not None:
        return (
            f"{best.name} is faster from {_from_words(answer)} on, and this job has {length}: stay on {own.name} "
            f"({duration(own.total_s.value)})."
        )
    if answer.reason == "one_target":
        return f"{own.name} takes {duration(own.total_s.value)} for this job ({length}); nothing else was measured."
    if answer.reason == "same":
        return f"Nothing measured is faster than {own.name}, which takes {duration(own.total_s.value)} for this job."
    return (
        f"No target is clearly faster than {own.name} for this job ({length}, {duration(own.total_s.value)}): the "
        "intervals of their steps reach each other."
    )


def _from_words(answer: JobAnswer) -> str:
    pays = answer.pays_from
    assert pays is not None
    low, high = (_length_words(answer, end).partition(" ")[0] for end in (pays.low, pays.high))
    return f"{_length_words(answer, pays.value)} ({low} to {high})"


def _length_words(answer: JobAnswer, epochs: float) -> str:
    """Return a length in epochs, or in steps if the script counts none."""
    if answer.length.unit == "epoch":
        return f"{number(epochs)} epoch{'' if number(epochs) == '1' else 's'}"
    return f"{round(epochs * answer.length.steps):,} steps"


def time_sentence(capture: Capture, answer: JobAnswer) -> str:
    """Say where the script's time went: the three largest parts, and what besides the steps costs most."""
    largest = sorted(answer.seconds.items(), key=lambda item: -item[1])[:3]
    parts = ", ".join(f"{PARTS[part]} {duration(amount)}" for part, amount in largest)
    first = next(iter(answer.causes), None)
    most = "" if first is None else f" Besides the steps, most is {first.what}: {duration(first.seconds)}."
    return f"{capture.script} took {duration(capture.wall_s)}{ENDED[capture.ended]}: {parts}.{most}"


def lines(study: JobStudy, answer: JobAnswer) -> list[str]:
    """Return the sentences beside the tables, the verdict first."""
    capture = study.capture
    sentences = [headline(study, answer)]
    if answer.targets:
        sentences.append(time_sentence(capture, answer))
    sentences += [seen_sentence(capture), *([answer.why_not] if answer.why_not else [])]
    if answer.targets:
        sentences += list(_basis(study, answer))
    return sentences


def seen_sentence(capture: Capture) -> str:
    """Describe the main phase: what ran, on what, how it was fed."""
    phase = main_phase(capture)
    model = capture.models[phase.model] if phase.model is not None else None
    what = "" if model is None else f" of {model.kind}"
    size = "" if model is None or model.parameters is None else f" ({counted(model.parameters, 'parameter')})"
    fed = f", fed by {feed_words(phase)}" if phase.facts.feed else ""
    batch = f" of batch {phase.batch_size:,}" if phase.batch_size else ""
    keras = capture.versions.get("keras", "?")
    return (
        f"Seen: {phase.kind}{what}{size}, {counted(phase.steps, 'step')}{batch}{fed}, Keras {keras} on "
        f"{capture.versions.get('backend', '?')}."
    )


def shape_words(shape: Sequence[int | None]) -> str:
    """Return a shape without its batch, such as “200 × 64”."""
    return " × ".join("?" if size is None else f"{size:,}" for size in shape[1:])


def feed_words(phase: Phase) -> str:
    """Describe how the data are fed."""
    words = FEEDS.get(phase.facts.feed, phase.facts.feed)
    return f"{words} ({', '.join(phase.facts.stages)})" if phase.facts.stages else words


def _basis(study: JobStudy, answer: JobAnswer) -> Iterator[str]:
    """Say what the measured step leaves out of the script's own."""
    capture, run = study.capture, study.sweep
    model = capture.models[phase.model] if (phase := main_phase(capture)).model is not None else None
    if run is None or run.plan is None:
        return
    workload, notes = run.plan.workload, []
    optimizer = model.optimizer if model is not None else next(iter(capture.optimizers), "")
    if workload.training and optimizer and optimizer.lower() not in (workload.optimizer, "sgd"):
        notes.append(f"{optimizer} is measured as {workload.optimizer}")
    if model is not None and "train_step" in model.own_steps:
        notes.append("its own train_step is measured as Keras's")
    if run.plan.targets[0].call == "step" and (phase.kind.startswith("function") or phase.kind == "call"):
        notes.append("its own loop is measured as Keras's step")
    if model is not None and model.frozen:
        notes.append("frozen layers are measured as trained")
    if model is not None and model.inputs is not None and model.shape is not None and not workload.lengths:
        notes.append(f"inputs of the first shape seen, {shape_words(model.shape)}, stand for all lengths")
    if notes:
        yield f"The sweep's step is not quite the script's: {'; '.join(notes)}."
    if mode_of(capture) == "train" and answer.seconds["validation"] > 0:
        yield "Validation is taken to scale as the step does."


def job_text(study: JobStudy, answer: JobAnswer) -> str:
    """Return the verdict, then the parts of the time, causes and targets, then a summary of the measurement."""
    wall_s = max(sum(answer.seconds.values()), 1e-9)
    parts = sorted(((part, amount) for part, amount in answer.seconds.items() if amount > 0), key=lambda item: -item[1])
    output = [*lines(study, answer), ""]
    output += table(PART_COLUMNS, ((PARTS[part], amount, percent(amount / wall_s, 1)) for part, amount in parts))
    if answer.causes:
        output += ["", "Besides the steps:"]
        output += [
            f"  {duration(cause.seconds)}: {'; '.join(filter(None, (cause.what, cause.remedy)))}"
            for cause in answer.causes
        ]
    if answer.targets:
        output += ["", *table(COLUMNS, map(row, answer.targets))]
    if answer.cards:
        output += ["", *table(CARD_COLUMNS, card_rows(answer.cards))]
    rounds = 0 if study.sweep is None else len(study.sweep.rounds)
    output += ["", (
        f"{study.label.capitalize()}: the script once, its network in {counted(rounds, 'round')} of "
        f"{duration(study.elapsed_s)}, {study.status}, {moment(study.created_at)}"
    )]  # fmt: skip
    return in_lines([*output, *note_lines(study.warnings)])


def row(target: OnTarget) -> tuple[str | float, ...]:
    """Return one target in the order of :data:`COLUMNS`."""
    step, total = target.step_s.times(1e3), target.total_s
    return (
        target.name, step.value, step.low, step.high, duration(target.epoch_s.value), _signed(target.extra_s),
        duration(total.value), duration(total.low), duration(total.high),
    )  # fmt: skip


def _signed(extra: Bounds) -> str:
    sign = "−" if extra.value < 0 else ""
    return f"{sign}{duration(abs(extra.value))}" if extra.value else ""


def card_rows(cards: Iterable[Any]) -> list[tuple[str | float | None, ...]]:
    """Return one row per modelled card, and one per reason for those without a number."""
    rows: list[tuple[str | float | None, ...]] = []
    without: dict[str, list[str]] = {}
    for card in cards:
        if card.step_s is None:
            without.setdefault(card.reason, []).append(card.card)
            continue
        step = card.step_s.times(1e3)
        rows.append((card.card, step.value, step.low, step.high, duration(card.epoch_s.value), ""))
    return rows + [(", ".join(names), None, None, None, "", reason) for reason, names in without.items()]


def job_data(study: JobStudy, answer: JobAnswer) -> dict[str, Any]:
    """Return the job as JSON data: times in seconds, bounds at 95 %."""
    return {
        "verdict": headline(study, answer),
        "reason": answer.reason,
        "why_not": answer.why_not or None,
        "label": study.label,
        "script": study.capture.script,
        "wall_s": study.capture.wall_s,
        "seconds": answer.seconds,
        "unexplained": answer.unexplained,
        "causes": [asdict(cause) | {"remedy": cause.remedy} for cause in answer.causes],
        "length": asdict(answer.length),
        "pays_from": None if answer.pays_from is None else asdict(answer.pays_from),
        "best": answer.best,
        "targets": [asdict(target) for target in answer.targets],
        "modelled": [asdict(card) | {"label": "modelled"} for card in answer.cards],
        "record": study.model_dump(mode="json"),
    }
