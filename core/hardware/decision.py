"""The decision over all modelled cards at one batch: which are clearly faster than the measured CPU, which clearly
slower, and which measurement would settle the rest. *Clearly*: the 95 % interval of the speed-up lies on one side of 1.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from core.base.numbers import number
from core.hardware.catalogue import GpuSpec
from core.hardware.compare import CardReading
from core.hardware.crossing import ModelledSpeedUp
from core.hardware.curve import card_share, credibility, host_part
from core.hardware.host import Modelling
from core.hardware.host_study import as_if_measured
from core.hardware.interval import Modelled, class_of, errors, modelled_step

LEAST_GAIN = 0.05
"""A measurement that would take less than this share off the width, in logs, is not named."""

Half = tuple[float, float]
"""Half widths in logs, downwards and upwards, both at least 0."""
Measurement = Literal["host study", "recorded sweep"]
"""``host study``: of the host, here or from the file of a self-check on the machine with the card. ``recorded sweep``:
of one other network of the family on such a card.
"""


@dataclass(frozen=True)
class Parts:
    """The parts of the 95 % interval of a modelled step, ``model`` and ``host``, which add in quadrature.

    ``host`` is what the host's costs leave open; ``measured_model`` and ``measured_host`` are both parts once the host
    is measured. ``card`` is the share (0 to 1) of the square of ``model`` that one recorded sweep removes.
    """

    model: Half
    host: Half
    measured_model: Half
    measured_host: Half
    card: float


@dataclass(frozen=True)
class Narrowed:
    """The 95 % bounds of the speed-up after a measurement that leaves its estimate unchanged."""

    measurement: Measurement
    low: float
    high: float
    resolves: bool
    label: Literal["modelled"] = "modelled"


def parts_of(spec: GpuSpec, step: Modelled, how: Modelling) -> Parts:
    """Split the interval of a step that no recording has moved into its parts.

    Only this function knows how :mod:`core.hardware.interval` makes an interval.
    """
    known = class_of(errors(), spec, how.workload, step.region, host_known=True)
    assert known is not None, "a step without a class has no number"
    host = host_part(spec, how, step.batch)
    model = _less(_half_widths(step), host)
    measured = _measured(spec, step, how) if how.costs.label == "assumed" else (model, host)
    return Parts(model, host, *measured, card=1 - credibility(card_share(known), 1)[1] ** 2)


def _measured(spec: GpuSpec, step: Modelled, how: Modelling) -> tuple[Half, Half]:
    """Return the model's and the host's part once the host is measured and found to be as assumed."""
    how = replace(how, costs=as_if_measured(how.costs))
    known = modelled_step(spec, how, step.batch)
    assert isinstance(known, Modelled), "a step that has a number where the host is assumed has one where it is known"
    return _half_widths(known), host_part(spec, how, step.batch)


def narrowed(speed_up: ModelledSpeedUp, step: Modelled, parts: Parts) -> tuple[Narrowed, ...]:
    """Return every measurement that would narrow the interval enough to be worthwhile, the cheapest first."""
    middle = math.log(speed_up.ratio)
    now = (middle - math.log(speed_up.low), math.log(speed_up.high) - middle)
    down, up = _half_widths(step)
    noise = _less(now, (up, down))  # of the CPU; swapped, since a card slower than modelled lowers the speed-up
    ways = []
    for measurement, model, host in _after(parts):
        shorter, longer = (math.hypot(own, other) for own, other in zip(model, host, strict=True))
        less, more = math.hypot(noise[0], longer), math.hypot(noise[1], shorter)
        resolves = middle - less > 0 or middle + more < 0
        if resolves or less + more <= (1 - LEAST_GAIN) * sum(now):
            ways.append(Narrowed(measurement, math.exp(middle - less), math.exp(middle + more), resolves))
    return tuple(ways)


def _after(parts: Parts) -> Iterator[tuple[Measurement, Half, Half]]:
    """Yield what each measurement leaves of the model's part and of the host's."""
    yield "host study", parts.measured_model, parts.measured_host
    left = math.sqrt(max(0.0, 1 - parts.card))
    yield "recorded sweep", (left * parts.model[0], left * parts.model[1]), parts.host


def _half_widths(step: Modelled) -> Half:
    return math.log(step.step_ms / step.low_ms), math.log(step.high_ms / step.step_ms)


def _less(whole: Half, part: Half) -> Half:
    """Return what is left of both half widths without a part that adds in quadrature."""
    down, up = (math.sqrt(max(0.0, a**2 - b**2)) for a, b in zip(whole, part, strict=True))
    return down, up


Standing = Literal["clearly faster", "clearly slower", "not resolved", "no number"]

WHAT: dict[Measurement, str] = {
    "host study": "measuring the host’s overhead (15 s here, or the file of a self-check on the machine with the card)",
    "recorded sweep": "one recorded sweep of another such network on such a card",
}
REPLACES = "A sweep of this very network on such a card would replace the model."
MORE_ROUNDS = "Recordings of such a card are in it already; more rounds there would narrow it."


@dataclass(frozen=True)
class CardDecision:
    """One card at the batch; ``narrowed`` is filled only if the card is not resolved."""

    gpu: str
    standing: Standing
    speed_up: ModelledSpeedUp | None
    narrowed: tuple[Narrowed, ...]
    corrected: bool
    sentence: str
    label: Literal["modelled"] = "modelled"


@dataclass(frozen=True)
class Decision:
    """Counts over all cards at ``batch``, which add up to the number of cards, and every card in the readings' order.

    ``headline`` covers all batches compared, ``sentence`` the one ``batch``. ``cpu_known``: the scatter of the CPU's
    own step times is known; without it nothing is claimed about any card.
    """

    batch: int
    cpu: str
    faster: int
    slower: int
    not_resolved: int
    no_number: int
    headline: str
    sentence: str
    cards: tuple[CardDecision, ...]
    cpu_known: bool = True
    label: Literal["modelled"] = "modelled"

    def card(self, name: str) -> CardDecision:
        return next(card for card in self.cards if card.gpu == name)


def standing_of(speed_up: ModelledSpeedUp | None) -> Standing:
    """Classify a speed-up by the position of its interval; a bound of exactly 1 does not exclude parity."""
    if speed_up is None:
        return "no number"
    if speed_up.low > 1:
        return "clearly faster"
    return "clearly slower" if speed_up.high < 1 else "not resolved"


def decide(readings: Sequence[CardReading], batch: int, how: Modelling | None = None) -> Decision:
    """Return the decision from at least one reading, all made for ``batch``; with ``how`` also what would resolve
    cards.
    """
    counts = Counter(_standing(reading) for reading in readings)
    cpu, setting = readings[0].crossover.cpu, _setting(readings)
    return Decision(
        batch,
        cpu,
        counts["clearly faster"],
        counts["clearly slower"],
        counts["not resolved"],
        counts["no number"],
        headline(readings),
        _sentence(readings, counts, batch, setting),
        tuple(_card(reading, batch, setting, how) for reading in readings),
        cpu_known(readings),
    )


def _setting(readings: Sequence[CardReading]) -> str:
    """Return the CPU's name for sentences, including whether it is the CPU's best setting."""
    return readings[0].crossover.setting or readings[0].crossover.cpu


def cpu_known(readings: Sequence[CardReading]) -> bool:
    """Check that the CPU's own noise is known, as any claim about a card needs."""
    return not any(reading.crossover.why_no_claim for reading in readings)


def _standing(reading: CardReading) -> Standing:
    standing = standing_of(reading.speed_up)
    return "not resolved" if reading.crossover.why_no_claim and standing != "no number" else standing


def _sentence(readings: Sequence[CardReading], counts: Counter[Standing], batch: int, cpu: str) -> str:
    total = len(readings)
    if not cpu_known(readings):
        return f"Modelled: at batch {batch:,} no card is clearly faster or slower than {cpu} yet."
    if counts["no number"] == total:
        reasons = dict.fromkeys(reading.curve.reason for reading in readings)
        why = f" {next(iter(reasons))}" if len(reasons) == 1 else ""
        return f"Modelled: none of {total} cards gets a speed-up over {cpu} at batch {batch:,}.{why}".rstrip()
    faster, slower = counts["clearly faster"], counts["clearly slower"]
    verb = "is" if faster == 1 else "are"
    head = f"Modelled: at batch {batch:,}, {faster or 'none'} of {total} cards {verb} clearly faster than {cpu}"
    text = f"{head}, {slower or 'none'} clearly slower"
    if unresolved := counts["not resolved"]:
        text += f", for {unresolved} it is not clear"
    if withheld := counts["no number"]:
        text += f"; {withheld} {'gets' if withheld == 1 else 'get'} no number"
    return f"{text}."


def headline(readings: Sequence[CardReading]) -> str:
    """Summarise in one sentence how many cards are clearly faster from some batch on, and how many are not clear."""
    cpu, total = _setting(readings), len(readings)
    if why := next((reading.crossover.why_no_claim for reading in readings if reading.crossover.why_no_claim), ""):
        return f"No card can be called faster or slower yet: {why}"
    crossovers = [reading.crossover for reading in readings if reading.crossover.kind != "withheld"]
    if not crossovers:
        return f"Modelled: none of {total} cards can be compared with {cpu}."
    faster = sum(crossover.clearly_from is not None for crossover in crossovers)
    slower = sum(crossover.kind == "cpu ahead throughout" for crossover in crossovers)
    ends = [end for crossover in crossovers for end in (crossover.first, crossover.last) if end is not None]
    verb = "is" if faster == 1 else "are"
    text = f"Modelled: {faster or 'none'} of {total} cards {verb} clearly faster than {cpu} from a batch within "
    text += f"{min(ends):,} to {max(ends):,}"
    rest = ((slower, "clearly slower at all of them"), (len(crossovers) - faster - slower, "not clear"),
            (total - len(crossovers), "without a number"))  # fmt: skip
    return f"{text}; {', '.join(f'{count} {words}' for count, words in rest if count)}.".replace("; .", ".")


def _card(reading: CardReading, batch: int, cpu: str, how: Modelling | None) -> CardDecision:
    name, speed_up, standing = reading.spec.name, reading.speed_up, _standing(reading)
    if speed_up is None:
        why = reading.curve.reason if reading.step is None else f"{cpu} was not measured there."
        return CardDecision(
            name, standing, None, (), False, f"Modelled: no number for {name} at batch {batch:,}. {why}"
        )
    if reading.crossover.why_no_claim:
        return CardDecision(name, standing, speed_up, (), False, reading.crossover.sentence)
    # a recording that moved the point also changed the parts of its interval
    corrected = not isinstance(reading.step, Modelled) or reading.curve.corrected_by is not None
    times = f"{about(speed_up.low)} to {about(speed_up.high)} times as fast"
    if standing != "not resolved":
        text = f"Modelled: {name} is {standing} than {cpu} at batch {batch:,} ({times}, 95 %)."
        return CardDecision(name, standing, speed_up, (), corrected, text)
    ways: tuple[Narrowed, ...] = ()
    if how is not None and isinstance(reading.step, Modelled) and not corrected:
        ways = narrowed(speed_up, reading.step, parts_of(reading.spec, reading.step, how))
    text = f"Modelled: whether {name} is faster than {cpu} at batch {batch:,} is not clear ({times}, 95 %)."
    return CardDecision(name, standing, speed_up, ways, corrected, f"{text} {_remedy(ways, corrected)}")


def _remedy(ways: Sequence[Narrowed], corrected: bool) -> str:
    if corrected:
        return MORE_ROUNDS
    if not ways:
        return REPLACES
    parts: list[str] = []
    for way in ways:
        verb = "would narrow it to" if not parts else "to"
        effect = f"{WHAT[way.measurement]} {verb} about {about(way.low)} to {about(way.high)}"
        parts.append(f"{effect}, which would make it clear" if way.resolves else effect)
    text = "; ".join(parts)
    text = f"{text[0].upper()}{text[1:]}."
    return text if any(way.resolves for way in ways) else f"{text} {REPLACES}"


def remedy_words(card: CardDecision) -> str:
    """Return what would resolve a card, short enough for a table; empty if there is nothing to resolve."""
    if card.standing != "not resolved" or not card.speed_up:
        return ""
    if card.corrected:
        return "more rounds on such a card"
    resolving = [way for way in card.narrowed if way.resolves]
    if resolving:
        return " or ".join(f"{way.measurement} ({about(way.low)} to {about(way.high)})" for way in resolving)
    if not card.narrowed:
        return "a sweep of this network on such a card"
    best = min(card.narrowed, key=lambda way: way.high / way.low)
    return (
        f"a sweep of this network on such a card; {best.measurement} narrows to {about(best.low)} to {about(best.high)}"
    )


def about(ratio: float) -> str:
    """Format a ratio to two digits, or more if two would round it to 1: the side of 1 matters here."""
    digits = next((digits for digits in range(2, 7) if float(f"{ratio:.{digits}g}") != 1), 2)
    short = float(f"{ratio:.{digits}g}")
    return number(short) if digits == 2 else f"{short:g}"
