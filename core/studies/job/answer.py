"""The answer of a job: its time on every target, and from which length on another target pays. Pure functions.

A target's job is what was seen of the script with the step exchanged: T = once + epochs · (steps · step + rest). The
step of the script's own target is the one that was seen; on another target it is that times the sweep's ratio of the
two, whose rounds are paired, plus what Keras's loop and the script add to the sweep's step, which no target changes.
An input that is prepared beside the steps bounds the step from below if the script waited for it. Validation scales as
the step does. What a target costs once besides is its first call and its start, as the sweep's workers saw them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import median
from typing import Literal

from core.base.schema import UserError
from core.hardware.catalogue import UnknownGpu, catalogue, find_gpu
from core.hardware.curve import card_curve
from core.hardware.host import Conditions, Modelling, costs_of_kind
from core.hardware.interval import Withheld
from core.rounds.answer.analyse import analyse
from core.rounds.answer.answer import Answer, CellStats, SpeedUp
from core.rounds.run import Run
from core.studies.job.breakdown import Cause, breakdown, causes, main_phase, mean_step_s, usual_step_s
from core.studies.job.capture import Part, Phase
from core.studies.job.record import JobStudy
from core.workload.execution import expected
from core.workload.names import CALLS
from core.workload.spec import Target

WAITS = 0.1
"""Share of a step from which waiting for input limits it."""
BESIDE_STEPS = ("GeneratorData", "PyDataset", "TorchDataLoader", "GrainDataset")
"""Keras's adapters that prepare batches beside the steps."""
RUN_TO_RUN = 1.25
"""Factor by which runs of the same script differ minutes apart (measured: benchmarks/job_times.py, on a machine with
neighbours)."""
NOT_FROM_FIT = 1_000
"""Steps that count as an epoch where the script has none."""
Reason = Literal["pays", "pays_at_once", "never", "same", "within_interval", "one_target", "not_measured"]


@dataclass(frozen=True)
class Bounds:
    """A value with its 95 % bounds; equal to it if nothing is known of its spread."""

    value: float
    low: float
    high: float

    def plus(self, seconds: float) -> Bounds:
        return Bounds(self.value + seconds, self.low + seconds, self.high + seconds)

    def times(self, factor: float) -> Bounds:
        return Bounds(self.value * factor, self.low * factor, self.high * factor)

    def least(self, floor: float) -> Bounds:
        return Bounds(max(self.value, floor), max(self.low, floor), max(self.high, floor))


@dataclass(frozen=True)
class Length:
    """Length of a job: ``epochs`` of ``steps`` each, or thousands of steps, if the script counts no epochs."""

    epochs: float
    steps: float
    unit: Literal["epoch", "1,000 steps"]


@dataclass(frozen=True)
class OnTarget:
    """The job on one target: seconds of a step inside it, of an epoch with validation, once, and in all.

    ``ratio``: step relative to that of the script's own target. ``extra_s``: what it costs once beyond that target.
    """

    target: int
    name: str
    ratio: Bounds
    step_s: Bounds
    epoch_s: Bounds
    extra_s: Bounds
    total_s: Bounds


@dataclass(frozen=True)
class OnCard:
    """Step and epoch on a card that is modelled, or the reason for no number. Nobody knows its start."""

    card: str
    step_s: Bounds | None
    epoch_s: Bounds | None
    reason: str = ""


@dataclass(frozen=True)
class JobAnswer:
    """Where the time went, and which target pays.

    ``pays_from``: epochs from which ``best`` is faster in all, start and compiling included; None if it is not.
    """

    seconds: dict[Part, float]
    causes: tuple[Cause, ...]
    length: Length
    reason: Reason
    targets: tuple[OnTarget, ...] = ()
    best: int | None = None
    pays_from: Bounds | None = None
    cards: tuple[OnCard, ...] = ()
    why_not: str = ""
    sweep: Answer | None = None

    @property
    def unexplained(self) -> float:
        """Share of the wall time that belongs to no part."""
        return self.seconds["loop"] / max(sum(self.seconds.values()), 1e-9)


def job_answer(study: JobStudy) -> JobAnswer:
    """Return the answer of a job; without a sweep it says where the time went, and why there is no more.

    Raises:
        UserError: The script used no model of Keras's.
    """
    capture = study.capture
    phase = main_phase(capture)
    seconds, length = breakdown(capture), length_of(phase)
    run = study.sweep
    if run is None or not run.rounds:
        why = study.reason or "Nothing of its network was measured; give it a larger budget."
        return JobAnswer(seconds, causes(capture), length, "not_measured", why_not=why)
    sweep = analyse(run)
    try:
        job = _Job(phase, run, sweep, length, seconds)
    except UserError as error:  # the job's own batch was not reached
        return JobAnswer(seconds, causes(capture), length, "not_measured", why_not=str(error))
    targets = tuple(filter(None, (job.on_target(target) for target in range(len(run.target_names)))))
    cards = tuple(job.on_card(name) for name in study.gpus)
    reason, best, pays = verdict(targets, length)
    return JobAnswer(seconds, causes(capture), length, reason, targets, best, pays, cards, sweep=sweep)


def length_of(phase: Phase) -> Length:
    """Return the job's length as the script asked for it, or as far as it went if it counts no epochs."""
    facts = phase.facts
    if facts.epochs and (phase.epochs or facts.steps_per_epoch):
        seen = max((steps for _, steps in phase.epochs), default=0)
        per_call = facts.steps_per_execution
        asked = math.ceil((facts.steps_per_epoch or 0) / per_call)
        return Length(facts.epochs, max(seen, asked, 1), "epoch")
    return Length(phase.steps / NOT_FROM_FIT, NOT_FROM_FIT, "1,000 steps")


def verdict(targets: tuple[OnTarget, ...], length: Length) -> tuple[Reason, int | None, Bounds | None]:
    """Return the reason, the target that is fastest for this job, and the epochs from which it pays.

    A target pays if even the least gain of its intervals is one; the epochs' interval combines both ends of what it
    costs once with both ends of what it gains per epoch.
    """
    if len(targets) < 2:
        return "one_target", None, None
    own = targets[0]
    faster = min(targets[1:], key=lambda target: target.ratio.value)
    if faster.ratio.high >= 1:
        slower = all(target.ratio.low > 1 for target in targets[1:])
        return ("same" if slower else "within_interval"), own.target, None
    gain = _gain(own.epoch_s, faster)
    if gain.low <= 0:
        return "within_interval", own.target, None
    extra = faster.extra_s
    pays = Bounds(max(0.0, extra.value) / gain.value, max(0.0, extra.low) / gain.high, max(0.0, extra.high) / gain.low)
    if pays.high <= 0:
        return "pays_at_once", faster.target, pays
    return ("pays" if pays.low <= length.epochs else "never"), faster.target, pays


def _gain(own_epoch_s: Bounds, faster: OnTarget) -> Bounds:
    """Return the seconds that each epoch gains, with the bounds of the paired ratio alone."""
    own = own_epoch_s.value
    shares = [bound / faster.epoch_s.value for bound in (faster.epoch_s.low, faster.epoch_s.high)]
    return Bounds(
        own - faster.epoch_s.value, own - faster.epoch_s.value * shares[1], own - faster.epoch_s.value * shares[0]
    )


class _Job:
    """What was seen of the script, as a time per step, per epoch and once, and what exchanging the step changes.

    ``once_s`` is what remains of the wall time, so that the job on the script's own target, at the length that was
    seen, takes exactly what the script took. ``spread`` is the relative 95 % interval of one further run, from the
    scatter of the step between starts of the sweep's workers: everything is taken to vary as the step does.
    """

    def __init__(self, phase: Phase, run: Run, sweep: Answer, length: Length, seconds: dict[Part, float]) -> None:
        self.run, self.sweep, self.length = run, sweep, length
        self.batch = phase.batch_size or 1
        cell = sweep.cell(0, self.batch)
        if cell is None:
            raise UserError(f"Batch {self.batch:,} was not measured on {run.names[0]}; give the job a larger budget.")
        self.per_call = phase.facts.steps_per_execution
        mean, usual = (
            (seen or self.per_call * cell.step_ms / 1e3) / self.per_call
            for seen in (mean_step_s(phase), usual_step_s(phase))
        )
        around_s = seconds["input"] - min(phase.wait_s, seconds["input"])
        around_s += 0.0 if length.unit == "epoch" else seconds["calls"] + seconds["data"]
        if run.plan is not None and run.plan.targets[0].call != "step":  # the target's step is the whole call
            mean, usual = (each + around_s / max(1, phase.steps) for each in (mean, usual))
            around_s = 0.0
        self.own_s, self.measured_s = mean, min(cell.step_ms / 1e3, mean)
        beside = phase.facts.feed in BESIDE_STEPS or "Prefetch" in phase.facts.stages
        limited = beside and mean - usual > WAITS * mean
        self.floor_s = mean if limited else 0.0
        self.rest_s = max(0.0, (usual if limited else mean) - self.measured_s)
        self.spread = _next_run(cell)
        epochs = max(phase.steps / length.steps, 1e-9)
        each: tuple[Part, ...] = ("callbacks", "between", "epoch", "loop")
        shared = sum(seconds[part] for part in each)
        self.epoch_rest_s = (shared + around_s) / epochs
        self.validation_s = seconds["validation"] / epochs
        seen = self._epoch(Bounds(mean, mean, mean), Bounds(1.0, 1.0, 1.0)).value
        self.once_s = max(0.0, sum(seconds.values()) - epochs * seen)

    def on_target(self, target: int) -> OnTarget | None:
        """Return the job on a target of the sweep; None if its batch was not measured there."""
        ratio = self._ratio(target)
        if ratio is None:
            return None
        step = ratio.times(self.measured_s).plus(self.rest_s).least(self.floor_s)
        epoch, extra = self._epoch(step, ratio), self._extra(target)
        ends = zip((1.0, *self.spread), (epoch.value, epoch.low, epoch.high), (extra.value, extra.low, extra.high),
                   strict=True)  # fmt: skip
        total = Bounds(*(factor * (self.once_s + more + self.length.epochs * each) for factor, each, more in ends))
        return OnTarget(target, self.run.names[target], ratio, step, epoch, extra, total)

    def on_card(self, name: str) -> OnCard:
        """Return step and epoch on a card nobody has here, as the hardware model gives them."""
        plan = self.run.plan
        try:
            spec = find_gpu(name, catalogue(()))
        except UnknownGpu as error:
            return OnCard(name, None, None, str(error))
        if plan is None:
            return OnCard(name, None, None, "Its network is not known.")
        if (call := plan.targets[0].call) != "step":
            reason = f"Cards are modelled for Keras's own step, not for one {CALLS[call]}."
            return OnCard(spec.title, None, None, reason)
        target = Target(device="gpu:0", precision=plan.targets[0].precision)
        costs = costs_of_kind("unnamed", expected(plan.workload.network, target).execution)
        modelling = Modelling(plan.workload, target, costs, Conditions(fed=True, build="unnamed"))
        point = card_curve(spec, modelling, (self.batch,)).points[0]
        if isinstance(point, Withheld):
            return OnCard(spec.title, None, None, point.reason)
        low, high = point.low_ms or point.step_ms, point.high_ms or point.step_ms
        step = Bounds(point.step_ms / 1e3, low / 1e3, high / 1e3).plus(self.rest_s).least(self.floor_s)
        return OnCard(spec.title, step, self._epoch(step, step.times(1 / self.own_s)))

    def _epoch(self, step: Bounds, ratio: Bounds) -> Bounds:
        steps, validation = self.length.steps * self.per_call, ratio.times(self.validation_s)
        return Bounds(
            steps * step.value + validation.value + self.epoch_rest_s,
            steps * step.low + validation.low + self.epoch_rest_s,
            steps * step.high + validation.high + self.epoch_rest_s,
        )

    def _ratio(self, target: int) -> Bounds | None:
        """Return a target's step relative to the first target's, from paired rounds."""
        if target == 0:
            return Bounds(1.0, 1.0, 1.0)
        pairs = [pair.speed_ups for pair in self.sweep.against if pair.target == target]
        speed_up = next((each for each in (pairs[0] if pairs else ()) if each.batch == self.batch), None)
        return None if speed_up is None else _inverse(speed_up)

    def _extra(self, target: int) -> Bounds:
        """Return what a target costs once beyond the script's own: start and first call (median, range)."""
        if target == 0:
            return Bounds(0.0, 0.0, 0.0)
        seen = [self._once_ms(each) for each in (0, target)]
        if not all(seen):
            return Bounds(0.0, 0.0, 0.0)
        own, other = seen
        return Bounds((median(other) - median(own)) / 1e3, (min(other) - max(own)) / 1e3, (max(other) - min(own)) / 1e3)

    def _once_ms(self, target: int) -> list[float]:
        """Return start and first call of every worker of a target that prepared the job's batch.

        The start counts for fresh workers only; that of a fork leaves the import out.
        """
        starts = {process.index: process for process in self.run.processes if process.target == target}
        fresh = all(process.start != "forked" for process in self.run.processes)
        calls = [item for item in self.run.setups if item.target == target and item.batch == self.batch]
        return [
            item.first_call_ms + (starts[item.process].startup_ms if fresh and item.process in starts else 0.0)
            for item in calls
        ]


def _next_run(cell: CellStats) -> tuple[float, float]:
    """Return the relative 95 % interval of one further run.

    The cell's interval is Student's t over n starts for their mean; for one further start it is √(n + 1) times as wide
    (on a log scale), and never narrower than runs of the same script differ beyond what a sweep's starts can see.
    """
    if cell.low_ms is None or cell.high_ms is None or not cell.starts:
        return 1 / RUN_TO_RUN, RUN_TO_RUN
    wider = math.sqrt(cell.starts + 1)
    low, high = ((end / cell.step_ms) ** wider for end in (cell.low_ms, cell.high_ms))
    return min(low, 1 / RUN_TO_RUN), max(high, RUN_TO_RUN)


def _inverse(speed_up: SpeedUp) -> Bounds:
    low, high = speed_up.low or speed_up.ratio, speed_up.high or speed_up.ratio
    return Bounds(1 / speed_up.ratio, 1 / high, 1 / low)
