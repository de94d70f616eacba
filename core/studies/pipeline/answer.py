"""Answer of a pipeline study: the input's share of a step, sufficient prefetch, and the cost that starves a device.

The input-bound share of an arm is 1 − resident / actual, both step times of the same rounds. It includes every cost of
feeding the step: waiting for a batch, copying it to the device, and on a CPU target also the cores that preprocessing
takes from the arithmetic.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from core.base.evidence import Outcome
from core.base.schema import UserError
from core.studies.experiment.effects import Effect, effects
from core.studies.experiment.record import Arm, Experiment
from core.studies.pipeline.input_share import LEVELS, Share, Starvation, starvation
from core.studies.pipeline.plan import BASE, RESIDENT, Family, members, setting

AS_GOOD = 0.98  # a prefetch within 2 % of the best counts as equal


@dataclass(frozen=True)
class Fed:
    """One measured way of feeding; times in ms. ``share`` is None for the resident arm, or if that is missing."""

    arm: int
    code: str
    title: str
    pipeline: str
    step_ms: float
    low_ms: float | None
    high_ms: float | None
    share: Share | None
    rounds: int
    processes: int


@dataclass(frozen=True)
class Unmeasured:
    """Way of feeding without a result, and why."""

    arm: int
    code: str
    title: str
    outcome: Outcome
    reason: str


@dataclass(frozen=True)
class Gain:
    """Speed-up with its 95 % interval; bounds are None if rounds are too few."""

    value: float
    low: float | None
    high: float | None

    @property
    def words(self) -> str:
        bounds = "" if self.low is None or self.high is None else f" (95 %: {self.low:.2f} to {self.high:.2f})"
        return f"{self.value:.2f} times{bounds}"


@dataclass(frozen=True)
class PrefetchAnswer:
    """Answer on prefetch: ``enough`` is the smallest setting as fast as the best; ``gain`` is the best's speed-up over
    off.
    """

    enough: str
    best: str
    gain: Gain | None
    sentence: str


@dataclass(frozen=True)
class PipelineAnswer:
    """Answer of a pipeline study, with ``fed`` in the order of the arms. ``sentence`` is the verdict on the chosen
    pipeline.
    """

    fed: tuple[Fed, ...]
    missing: tuple[Unmeasured, ...]
    prefetch: PrefetchAnswer | None
    starvation: Starvation | None
    sentence: str

    def of(self, code: str) -> Fed | None:
        return next((fed for fed in self.fed if fed.code == code), None)

    def family(self, arms: Sequence[Arm], family: Family) -> tuple[Fed, ...]:
        """Return the measured arms of a family, by rising value."""
        by_arm = {fed.arm: fed for fed in self.fed}
        return tuple(by_arm[arm] for arm in members(arms, family) if arm in by_arm)


def pipeline_answer(experiment: Experiment) -> PipelineAnswer:
    """Return the answer of a pipeline study. Raises UserError for other experiments and without rounds."""
    if experiment.arms[0].code != RESIDENT or experiment.index_of(BASE) is None:
        raise UserError("This experiment is no pipeline study.")
    measured = {block.arm for item in experiment.rounds for block in item.blocks}
    if not measured:
        raise UserError("Nothing was measured in this pipeline study.")
    measured_effects = effects(experiment, min(measured))
    fed = tuple(_fed(experiment.arms, effect, resident=0 in measured) for effect in measured_effects)
    missing = _missing(experiment, {way.arm for way in fed})
    prefetch = _prefetch(experiment, fed)
    starvation = _starvation(experiment, fed)
    return PipelineAnswer(fed, missing, prefetch, starvation, _verdict(fed, missing))


def _fed(arms: Sequence[Arm], effect: Effect, resident: bool) -> Fed:
    arm, share = arms[effect.arm], None
    if resident and effect.arm:  # the speed-up over resident data is resident / actual
        low, high = effect.speed_up_high, effect.speed_up_low
        bounds = (None if low is None else 1 - low, None if high is None else 1 - high)
        share = Share(1 - effect.speed_up, *bounds)
    return Fed(
        arm=effect.arm,
        code=arm.code,
        title=arm.title,
        pipeline=arm.pipeline.title,
        step_ms=effect.step_ms,
        low_ms=effect.low_ms,
        high_ms=effect.high_ms,
        share=share,
        rounds=effect.rounds,
        processes=effect.processes,
    )


def _missing(experiment: Experiment, measured: set[int]) -> tuple[Unmeasured, ...]:
    outcomes = {outcome.arm: outcome for outcome in experiment.outcomes}
    unmeasured = []
    for index, arm in enumerate(experiment.arms):
        if index not in measured:
            outcome: Outcome = outcomes[index].outcome if index in outcomes else "pending"
            reason = outcomes[index].reason if index in outcomes else "The study ended before it was reached."
            unmeasured.append(Unmeasured(index, arm.code, arm.title, outcome, reason))
    return tuple(unmeasured)


def _verdict(fed: Sequence[Fed], missing: Sequence[Unmeasured]) -> str:
    base = next((arm for arm in fed if arm.code == BASE), None)
    if base is None:
        why = next((arm.reason for arm in missing if arm.code == BASE), "")
        return f"The pipeline as chosen could not be measured. {why}".rstrip()
    if base.share is None:
        why = next((arm.reason for arm in missing if arm.code == RESIDENT), "")
        return f"Without the step on resident data there is no input-bound share. {why}".rstrip()
    if base.share.level == "unknown":
        return "Whether the input keeps up is not clear: too few rounds for an interval."
    if base.share.level == "none":
        if not base.share.settled:
            return (
                f"Not clear whether the step is input-bound: the interval reaches up to {base.share.at_most}, too wide "
                "to say that the pipeline as chosen keeps up with the device. More time makes it narrower."
            )
        return (
            f"Not input-bound (95 %: at most {base.share.at_most} of a step). "
            "The pipeline as chosen keeps up with the device."
        )
    level = LEVELS[base.share.level]
    return f"{level.capitalize()}: the pipeline as chosen takes {base.share.words} of each step."


def _prefetch(experiment: Experiment, fed: Sequence[Fed]) -> PrefetchAnswer | None:
    """Compare the prefetch family with its best member within the same rounds, which is sharper than comparing step
    times.
    """
    measured = {way.arm for way in fed}
    family = [arm for arm in members(experiment.arms, "prefetch") if arm in measured]
    if len(family) < 2:
        return None
    best = min((way for way in fed if way.arm in family), key=lambda way: way.step_ms).arm
    against = {effect.arm: effect for effect in effects(experiment, best)}
    enough = next(arm for arm in family if arm == best or (arm in against and _as_good(against[arm])))
    names = {arm: setting("prefetch", experiment.arms[arm].pipeline) for arm in family}
    off = against.get(next((arm for arm in family if names[arm] == "off"), -1))
    gain = None if off is None else Gain(1 / off.speed_up, _inverse(off.speed_up_high), _inverse(off.speed_up_low))
    by = "" if gain is None else f", at {gain.words} the speed of off"
    if names[enough] == "off":
        sentence = "Prefetch does not help here: off is as fast as any setting, within 2 % or the noise."
        if gain is not None and gain.value > 1 / AS_GOOD:
            sentence = f"Not clear whether prefetch helps: {names[best]} is the fastest{by}."
    elif enough == family[-1]:
        sentence = f"Prefetch {names[enough]} is the fastest{by}; the other settings are slower."
    else:
        sentence = f"Prefetch stops helping at {names[enough]}{by}; more gains nothing beyond 2 % or the noise."
    if any(effect.speed_up_low is None for effect in against.values()):
        sentence = "Too few rounds to say where prefetch stops helping; give it more time."
    return PrefetchAnswer(names[enough], names[best], gain, sentence)


def _as_good(effect: Effect) -> bool:
    return effect.speed_up >= AS_GOOD or (effect.speed_up_high is not None and effect.speed_up_high >= 1)


def _inverse(value: float | None) -> float | None:
    return None if value is None else 1 / value


def _starvation(experiment: Experiment, fed: Sequence[Fed]) -> Starvation | None:
    by_arm = {arm_fed.arm: arm_fed for arm_fed in fed}
    points: list[tuple[float, Share]] = []
    for arm in members(experiment.arms, "cost"):
        share = by_arm[arm].share if arm in by_arm else None
        if share is not None:
            points.append((experiment.arms[arm].pipeline.preprocess_us, share))
    if not points:
        return None
    return starvation(points)
