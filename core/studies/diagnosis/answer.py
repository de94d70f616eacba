"""Answer of a diagnosis: every cause with its evidence, the measured effect of removing it, ranked; and a verdict."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import median
from typing import Literal

import numpy as np

from core.analysis.numerics import zeros
from core.base.evidence import Warning
from core.base.numbers import counted, number, percent, rounded
from core.base.schema import UserError
from core.rounds.answer.analyse import analyse
from core.rounds.answer.answer import Answer, SpeedUp
from core.rounds.answer.reliability import disturbances
from core.rounds.first_pass import first_pass
from core.rounds.run import Run, only
from core.studies.diagnosis.record import Diagnosis, Rerun
from core.studies.diagnosis.remedies import REMEDIES, family
from core.studies.experiment.effects import Effect, effects
from core.studies.experiment.record import Arm
from core.traces.record import DeviceTrace
from core.workload.lengths import padded
from core.workload.names import are

CHANGE_FIRST_PASS = ("pad", "relaxed", "call", "xla", "graph")
"""Families that change what the first pass through inputs of several lengths takes."""
EPOCH_STEPS = 100  # steps of the first epoch that a hypothetical stopwatch times


@dataclass(frozen=True)
class Reading:
    """Observation from the recorded run; ``matters`` marks what a reader should not pass over."""

    code: Literal["startup", "fallback", "retracing"]
    title: str
    text: str
    matters: bool


def readings(run: Run, answer: Answer, target: int, batch: int) -> tuple[Reading, ...]:
    """Return the readings for one target of a run at the measured batch nearest to ``batch``."""
    candidates = (_startup(run, answer, target, batch), _fallback(run, target), _retracing(run, target))
    return tuple(reading for reading in candidates if reading is not None)


def stopwatch_ms(run: Run, answer: Answer, target: int, batch: int) -> float | None:
    """Return the step time (ms) that a stopwatch around a first epoch of ``EPOCH_STEPS`` steps would give; None if
    unknown.

    Build and first call (trace, compile) are added to the steps, spread over the epoch.
    """
    cell = answer.cell(target, batch)
    setups = [s for s in run.setups if s.target == target and s.batch == batch]
    if cell is None or not setups:
        return None
    return cell.step_ms + median(s.build_ms + s.first_call_ms for s in setups) / EPOCH_STEPS


def stopwatch_crossover(run: Run, answer: Answer) -> float | None:
    """Return the first batch at which the stopwatch's times would cross, interpolated in log2(batch); None if none."""
    x, y = [], []
    if len(run.target_names) != 2:
        return None
    for batch in run.batches:
        first, second = (stopwatch_ms(run, answer, target, batch) for target in (0, 1))
        if first is not None and second is not None:
            x.append(math.log2(batch))
            y.append(math.log(first / second))
    return next((2.0**at for at in zeros(np.array(x), np.array(y))), None)


def _startup(run: Run, answer: Answer, target: int, batch: int) -> Reading | None:
    known = [c.batch for c in answer.cells if c.target == target and stopwatch_ms(run, answer, target, c.batch)]
    if not known:
        return None
    nearest = min(known, key=lambda b: abs(math.log(b / batch)))
    stopwatch, cell = stopwatch_ms(run, answer, target, nearest), answer.cell(target, nearest)
    assert stopwatch is not None
    assert cell is not None
    text = (
        f"A stopwatch around the first epoch of {EPOCH_STEPS} steps at batch {nearest:,} would have said "
        f"{number(stopwatch)} ms per step on {run.names[target]}; in steady state it is {number(cell.step_ms)} ms "
        f"({stopwatch / cell.step_ms:.1f} times less)."
    )
    ours = answer.verdict.crossovers[0].batch if answer.verdict.crossovers else None
    theirs = stopwatch_crossover(run, answer)
    if ours is not None or theirs is not None:
        mine = f"at batch {rounded(ours)}" if ours is not None else "nowhere in the range"
        other = f"at batch {rounded(theirs)}" if theirs is not None else "nowhere in the range"
        text += f" By that stopwatch the targets cross {other}; in steady state {mine}."
    return Reading("startup", "Start-up inside the timing", text, stopwatch / cell.step_ms > 1.1)


def _fallback(run: Run, target: int) -> Reading | None:
    if run.plan is None or not run.plan.targets[target].is_gpu:
        return None
    traces = [t for t in run.traces if t.target == target]
    if not traces:
        return None
    worst = max(traces, key=lambda t: sum(op.total_ms for op in t.host_ops if not op.expected))
    fell = [op for op in worst.host_ops if not op.expected]
    if not fell:
        return Reading("fallback", "Operations on the host", "No operation of the traced steps fell back.", False)
    traced_ms = sum(step.step_ms for step in worst.device.steps)
    names = ", ".join(f"{op.op_type} ({op.count}×, {number(op.total_ms)} ms)" for op in fell[:5])
    text = (
        f"At batch {worst.batch:,} operations of the step ran on the host although the target is a GPU: {names}. "
        f"They take at most {percent(sum(op.total_ms for op in fell) / traced_ms)} of the traced steps, which is the "
        "most that moving them could gain."
    )
    return Reading("fallback", "Operations that fell back to the host", text, True)


def _retracing(run: Run, target: int) -> Reading | None:
    traces = [t for t in run.traces if t.target == target]
    if not traces:
        return None
    again = [t for t in traces if t.retraces]
    if not again:
        return Reading("retracing", "Retracing", "No function was traced again in the traced steps.", False)
    worst = max(again, key=lambda t: t.retraces)
    text = (
        f"Within {len(worst.device.steps)} traced steps at batch {worst.batch:,} a function was traced again "
        f"{worst.retraces} times. Give inputs one shape and dtype, and no Python numbers."
    )
    return Reading("retracing", "Retracing found", text, True)


NO_CROSSOVER = "Not re-measured: a single target has no crossover."
MIN_GAIN = 0.03  # least gain, beyond its interval, for a remedy to be recommended
Judgement = Literal["helps", "no effect", "hurts", "unclear", "failed", "not tried"]
SHOWN: dict[Judgement, str] = {"unclear": "not clear"}
"""Judgements with another wording for people."""
Reason = Literal["helps", "helps_but_behind", "none_helps_behind", "none_helps", "open", "failed"]
TITLES = {  # for families whose arms differ in a setting to be named
    "steps": "{arm}",
    "call": "{arm}",
    "pad": "{arm}",
    "precision": "Mixed precision ({arm})",
    "threads": "{arm} instead",
    "batch": "{arm} (time per sample)",
}
ORDER: tuple[Judgement, ...] = ("helps", "unclear", "no effect", "hurts", "failed", "not tried")


@dataclass(frozen=True)
class Finding:
    """Result of one remedy. ``gain`` is its speed-up (time per sample) with 95 % bounds; None if not measured.

    ``code`` is the best arm's; ``others`` describes the family's other arms. ``crossover`` describes the effect on it.
    """

    family: str
    code: str
    title: str
    judgement: Judgement
    gain: float | None
    low: float | None
    high: float | None
    evidence: str
    others: str
    crossover: str
    how: str
    caution: str


@dataclass(frozen=True)
class DiagnosisAnswer:
    """Answer of a diagnosis. ``findings`` are ranked, most gain first; ``reason`` is a stable code for the sentence."""

    findings: tuple[Finding, ...]
    readings: tuple[Reading, ...]
    sentence: str
    reason: Reason
    warnings: tuple[Warning, ...] = ()


def diagnose(run: Run, diagnosis: Diagnosis) -> DiagnosisAnswer:
    """Derive findings and verdict for a run and its diagnosis. Raises UserError for a run without rounds."""
    run, target = compared(run, diagnosis.target, diagnosis.batch)
    diagnosis = diagnosis.model_copy(update={"target": target})
    answer = analyse(run)
    measured = {effect.arm: effect for effect in effects(diagnosis.experiment, together=True)}
    considered = {family(arm.code) for arm in diagnosis.experiment.arms} | set(diagnosis.skipped)
    findings = [_finding(run, answer, diagnosis, name, measured) for name in REMEDIES if name in considered]
    # a larger batch comes last, since it changes the training, too
    ranked = tuple(sorted(findings, key=lambda f: (ORDER.index(f.judgement), f.family == "batch", -(f.gain or 0.0))))
    sentence, reason = _verdict(run, answer, diagnosis, ranked, bool(measured))
    seen = [item.interference for item in diagnosis.experiment.rounds]
    return DiagnosisAnswer(
        findings=ranked,
        readings=readings(run, answer, diagnosis.target, diagnosis.batch),
        sentence=sentence,
        reason=reason,
        warnings=(*diagnosis.experiment.warnings, *disturbances(seen)),
    )


def judge(effect: Effect) -> Judgement:
    """Return the judgement that an effect's interval supports."""
    low, high = effect.speed_up_low, effect.speed_up_high
    if low is None or high is None:
        return "unclear"
    if low > 1 + MIN_GAIN:
        return "helps"
    if high < 1 / (1 + MIN_GAIN):
        return "hurts"
    return "no effect" if low >= 1 / (1 + 2 * MIN_GAIN) and high <= 1 + 2 * MIN_GAIN else "unclear"


def best_arms(diagnosis: Diagnosis) -> tuple[int, ...]:
    """Return the best arm of each remedy that helps, most gain first; batch sizes do not move the crossover."""
    best: dict[str, Effect] = {}
    for effect in effects(diagnosis.experiment, together=True):
        name = family(diagnosis.experiment.arms[effect.arm].code)
        helps = name in REMEDIES and name != "batch" and judge(effect) == "helps"
        if helps and (name not in best or effect.speed_up > best[name].speed_up):
            best[name] = effect
    return tuple(e.arm for e in sorted(best.values(), key=lambda e: -e.speed_up))


def _finding(run: Run, answer: Answer, diagnosis: Diagnosis, name: str, measured: dict[int, Effect]) -> Finding:
    remedy, experiment = REMEDIES[name], diagnosis.experiment
    arms = [i for i, arm in enumerate(experiment.arms) if family(arm.code) == name]
    tried = sorted((measured[i] for i in arms if i in measured), key=lambda e: -e.speed_up)
    if not tried:
        outcome = next((o for o in experiment.outcomes if o.arm in arms), None)
        why = outcome.reason if outcome else diagnosis.skipped.get(name, "The budget ended first.")
        judgement: Judgement = "failed" if outcome and outcome.outcome != "skipped" else "not tried"
        return Finding(name, name, remedy.title, judgement, None, None, None, why, "", "", remedy.how, remedy.caution)
    best = tried[0]
    arm = experiment.arms[best.arm]
    base_ms = measured[0].step_ms
    return Finding(
        family=name,
        code=arm.code,
        title=TITLES.get(name, remedy.title).format(arm=arm.title),
        judgement=judge(best),
        gain=best.speed_up,
        low=best.speed_up_low,
        high=best.speed_up_high,
        evidence=_evidence(run, answer, diagnosis, name, arm, best, base_ms),
        others="; ".join(f"{experiment.arms[e.arm].title}: {_gain(e)}" for e in tried[1:]),
        crossover=_crossover(run, answer, diagnosis, arm, judge(best)),
        how=remedy.how,
        caution=remedy.caution,
    )


def _gain(effect: Effect) -> str:
    if effect.speed_up_low is None or effect.speed_up_high is None:
        return "too few rounds"
    return f"{effect.speed_up:.2f}× ({effect.speed_up_low:.2f} to {effect.speed_up_high:.2f})"


def _evidence(
    run: Run, answer: Answer, diagnosis: Diagnosis, name: str, arm: Arm, effect: Effect, base_ms: float
) -> str:
    """Return the measured times, and what the sweep shows about the cause."""
    if name == "batch":
        times = f"{number(1000 * base_ms / diagnosis.batch)} µs per sample at batch {diagnosis.batch:,}, "
        times += f"{number(1000 * effect.step_ms / arm.batch)} at {arm.batch:,}."
    else:
        times = f"{number(base_ms)} ms per step as it is, {number(effect.step_ms)} ms with it."
    times += _first_passes(diagnosis, effect, base_ms) if name in CHANGE_FIRST_PASS else ""
    trace = _nearest_trace(run, diagnosis)
    mean = trace.mean() if trace is not None else None
    if name in ("resident", "prefetch", "parallel") and mean is not None:
        waits = (mean.input_ms + mean.h2d_ms) / mean.step_ms
        return f"{times} In the trace {percent(waits)} of a step is waiting for input or copying it."
    fit = answer.fits[diagnosis.target]
    if name in ("xla", "graph", "steps") and mean is not None:
        host = percent((mean.launch_ms + mean.other_ms) / mean.step_ms)
        return f"{times} In the trace {host} of a step is launch and host."
    if name in ("xla", "graph", "steps", "call", "batch") and fit is not None:
        share = fit.overhead_share(diagnosis.batch)
        return f"{times} By the fit, {percent(share)} of a step at batch {diagnosis.batch:,} is fixed cost."
    if name == "precision" and mean is not None:
        return f"{times} In the trace {percent(mean.compute_ms / mean.step_ms)} of a step is compute."
    return times


def _first_passes(diagnosis: Diagnosis, effect: Effect, base_ms: float) -> str:
    """Return what the first pass through inputs of several lengths takes, and how far that carries; else empty."""
    experiment = diagnosis.experiment
    if not experiment.workload.lengths:
        return ""
    base, own = (
        first_pass(
            [each for each in experiment.setups if each.arm == arm],
            padded(experiment.workload.lengths, experiment.arms[arm].target.pad),
        )
        for arm in (0, effect.arm)
    )
    if base is None or own is None:
        return ""
    even = own.against(base, effect.step_ms, base_ms) if judge(effect) in ("helps", "hurts") else ""
    return f" First pass through the lengths: {own.words}; as it is, {base.words}. {even}".rstrip()


def _nearest_trace(run: Run, diagnosis: Diagnosis) -> DeviceTrace | None:
    traces = [t for t in run.traces if t.target == diagnosis.target and t.trusted]
    return min(traces, key=lambda t: abs(math.log(t.batch / diagnosis.batch))).device if traces else None


def _crossover(run: Run, answer: Answer, diagnosis: Diagnosis, arm: Arm, judgement: Judgement) -> str:
    if len(run.target_names) == 1:
        return NO_CROSSOVER
    if family(arm.code) == "batch":
        return "A larger batch moves along the curve; the crossover stays where it is."
    if judgement != "helps":
        return "Not re-measured, since the step does not gain."
    rerun = _rerun(diagnosis, arm.code)
    if rerun is None:
        return diagnosis.skipped.get(arm.code, "Not re-measured: the budget ended first.")
    after = _short(rerun.run, analyse(rerun.run)) if rerun.run.rounds else "nothing measured"
    which = "With it, for both targets" if family(arm.code) in ("resident", "prefetch", "parallel") else "With it"
    return f"Before: {_short(run, answer)}. {which}: {after}."


def _rerun(diagnosis: Diagnosis, code: str) -> Rerun | None:
    return next((rerun for rerun in diagnosis.reruns if rerun.code == code), None)


def _short(run: Run, answer: Answer) -> str:
    """Summarise the verdict on a run of two targets in a few words."""
    verdict = answer.verdict
    if verdict.kind == "crossover":
        c = verdict.crossovers[0]
        bounds = "" if c.low is None or c.high is None else f" ({rounded(c.low)} to {rounded(c.high)})"
        name = run.name_of(c.ahead_after)
        return f"{name} {are(name)} faster from batch {rounded(c.batch)}{bounds}"
    if verdict.kind == "ahead" and verdict.ahead is not None:
        name = run.name_of(verdict.ahead)
        return f"{name} {are(name)} faster at every batch size measured"
    return "a tie" if verdict.kind == "tie" else "not clear in the time there was"


def _bounds(finding: Finding) -> str:
    if finding.low is None or finding.high is None:
        return ""
    return f", 95 % interval {finding.low:.2f} to {finding.high:.2f}"


def _verdict(
    run: Run, answer: Answer, diagnosis: Diagnosis, findings: tuple[Finding, ...], measured: bool
) -> tuple[str, Reason]:
    name, batch = run.names[diagnosis.target], diagnosis.batch
    other = next((other for other in run.names if other != name), "")
    if not measured:
        return "Nothing could be measured, so nothing can be said.", "failed"
    helping = [f for f in findings if f.judgement == "helps"]
    behind = is_behind(answer, diagnosis.target, batch)
    if not helping:
        if possible := [f.title for f in findings if f.judgement == "unclear" and (f.high or math.inf) > 1 + MIN_GAIN]:
            names = ", ".join(possible[:3]) + (" and others" if len(possible) > 3 else "")
            return f"Not clear yet whether anything helps: {names} may. Give the diagnosis more time.", "open"
        if behind:
            right = _right_device(run, diagnosis.target) or f"{other} is the right target"
            return f"None of these helps: for this model at batch {batch:,}, {right}.", "none_helps_behind"
        return f"None of these helps: {name} at batch {batch:,} is as fast as these remedies can make it.", "none_helps"
    *same_batch, last = helping
    if last.family != "batch":
        same_batch.append(last)
    parts = []
    if same_batch:
        best = same_batch[0]
        parts = [f"{best.title} helps most: {best.gain:.2f} times faster at batch {batch:,}{_bounds(best)}."]
    if last.family == "batch":
        larger, cost = (
            last.code.partition("-")[2],
            " (it changes the training)" * diagnosis.experiment.workload.training,
        )
        times = f"{last.gain:.2f} times faster per sample than {batch:,}"
        parts.append(f"A batch of {int(larger):,} is {times}{_bounds(last)}{cost}.")
    sentence = " ".join(parts)
    if behind and _still_behind(diagnosis, helping):
        return f"{sentence} Even so, {other} {are(other)} faster at batch {batch:,}.", "helps_but_behind"
    return sentence, "helps"


def is_behind(answer: Answer, target: int, batch: int) -> bool:
    """Tell whether another target is clearly faster at the measured batch nearest to ``batch``: for the first target
    any other, for the others the first.
    """
    mine = [pair.speed_ups for pair in answer.against if target in (0, pair.target)]
    nearest = [min(speed_ups, key=lambda s: abs(math.log(s.batch / batch))) for speed_ups in mine if speed_ups]
    return any(_behind_at(at, target) for at in nearest)


def _behind_at(at: SpeedUp, target: int) -> bool:
    if at.low is None or at.high is None:
        return False
    return at.low > 1 if target == 0 else at.high < 1  # the ratio is t_first / t_other


def compared(run: Run, target: int, batch: int) -> tuple[Run, int]:
    """Return the run reduced to the diagnosed target and the one it is compared with, and its new number.

    The first target is compared with the fastest at the batch, any other with the first. Raises UserError if the run
    has no such target.
    """
    if target >= (count := len(run.target_names)):
        raise UserError(f"This diagnosis is of target {target + 1}, and the run has {counted(count, 'target')}.")
    if count <= 2:
        return run, target
    if target > 0:
        return only(run, (0, target)), 1
    ratios = {
        pair.target: min(pair.speed_ups, key=lambda s: abs(math.log(s.batch / batch))).ratio
        for pair in analyse(run).against
        if pair.speed_ups
    }
    return only(run, (0, max(ratios, key=lambda other: ratios[other], default=1))), 0


def _still_behind(diagnosis: Diagnosis, helping: list[Finding]) -> bool:
    """Tell whether every remedy with a re-measured crossover still leaves the target behind; False without any."""
    again = [_rerun(diagnosis, finding.code) for finding in helping]
    answers = [analyse(rerun.run) for rerun in again if rerun is not None and rerun.run.rounds]
    return bool(answers) and all(is_behind(answer, diagnosis.target, diagnosis.batch) for answer in answers)


def _right_device(run: Run, target: int) -> str | None:
    """Return ``the CPU is the right device`` if the targets differ in kind of device."""
    if run.plan is None or len({other.is_gpu for other in run.plan.targets}) < 2:
        return None
    return f"the {'GPU' if run.plan.targets[1 - target].is_gpu else 'CPU'} is the right device"
