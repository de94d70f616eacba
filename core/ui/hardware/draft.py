"""Conversion of addresses and forms of the Hardware page to options, cards and prices, or to errors. Pure functions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import get_args

from core.base.frameworks import Execution, Precision
from core.base.money import LISTED
from core.base.numbers import bounded, percent
from core.base.schema import MAX_PER_HOUR
from core.base.text import sentence_case
from core.hardware.catalogue import YOURS, CardPrice, GpuSpec, OwnCard, UnknownGpu, find_gpu, shared
from core.hardware.compare import CardReading, card_target, not_modelled
from core.hardware.constants import EXECUTIONS, PRECISIONS
from core.hardware.curve import unnamed_conditions
from core.hardware.decision import CardDecision, Decision, remedy_words
from core.hardware.figures import MAX_CARDS, crossover_words
from core.hardware.host import BUILD_WORDS, KIND_WORDS, Build, Conditions, Modelling
from core.hardware.interval import REGION_WORDS, Errors, ErrorShare, HeldOutError
from core.hardware.model import modelled_as
from core.rounds.answer.answer import Answer
from core.rounds.run import Run
from core.ui.checks import Checks
from core.ui.share import addressed_target, target_address
from core.workload.spec import MAX_BATCH, MIN_BATCH, Target

BETWEEN = "~"  # separates names in an address; needs no escaping there
USUAL_CARDS = ("T4", "A100-80GB-SXM", "H100-SXM", "RTX-4090")
USUAL_BATCH = 64
PRICE_LIMITS = f"A price per hour is above 0 and at most {MAX_PER_HOUR:,.0f}"
OTHER_LINK = "another"
STANDINGS = {"not resolved": "not clear"}
"""Words on the page for terms that files spell otherwise."""
NO_PLAN = (
    "Only points were imported for this run. Without its plan there is no workload that could be modelled on a GPU."
)
NO_CPU = (
    "This run has no CPU target with a measured step time, so there is nothing that a modelled GPU could be compared "
    "with. Measure a CPU target, or open a run that has one."
)
STILL_RUNNING = "This sweep is still running; wait until it has ended. Modelling now would take time from it."


@dataclass(frozen=True)
class Options:
    """The settings of a comparison: run target ``index``, the user's ``batch``, up to six ``gpus``, how steps run.

    ``host`` is a host study's id, a kind of host, or empty for the newest study, if there is one.
    """

    index: int
    batch: int
    gpus: tuple[str, ...]
    precision: Precision
    execution: Execution
    conditions: Conditions
    host: str = ""

    @property
    def target(self) -> Target:
        """The target in the model's form."""
        target = Target(device="gpu:0", precision=self.precision, execution=self.execution)
        return self.conditions.as_built(target)

    def query(self) -> dict[str, str]:
        """Return the options as address parameters."""
        shown = {
            "against": target_address(self.index),
            "batch": str(self.batch),
            "gpus": BETWEEN.join(self.gpus),
            "precision": self.precision,
            "execution": self.execution,
            "data": "fed" if self.conditions.fed else "resident",
            "build": self.conditions.build,
            "fit": "with" if self.conditions.under_fit else "without",
        }
        return shown | ({"host": self.host} if self.host else {})


def refusal(run: Run, index: int | None) -> str | None:
    """Explain why nothing can be compared with this run, or return None."""
    if run.status == "running":
        return STILL_RUNNING
    if run.plan is None:
        return NO_PLAN
    if index is None:
        return not_modelled(run.plan.workload) or NO_CPU
    return None


def usual_options(run: Run, answer: Answer, index: int, cards: Mapping[str, GpuSpec]) -> Options:
    """Return the default options: steps as the CPU ran them, at the measured batch nearest to 64."""
    assert run.plan is not None
    measured = [cell.batch for cell in answer.cells if cell.target == index]
    return Options(
        index=index,
        batch=min(measured, key=lambda batch: abs(math.log(batch / USUAL_BATCH))),
        gpus=tuple(name for name in USUAL_CARDS if name in cards) or tuple(cards)[:1],
        precision=(card := card_target(run.plan.targets[index])).precision,
        execution=card.execution,
        conditions=unnamed_conditions(run.plan),
    )


def read_options(
    query: Mapping[str, str], usual: Options, targets: Sequence[int], cards: Mapping[str, GpuSpec]
) -> tuple[Options, tuple[str, ...]]:
    """Read the options from an address, with ``usual`` ones for the rest, and a sentence for each that is invalid."""
    options, problems = replace(usual, host=query.get("host", "")), []
    if (side := addressed_target(query.get("against"), targets)) is not None:
        options = replace(options, index=side)
    if (text := query.get("batch")) is not None:
        batch = int(text) if text.isascii() and text.isdigit() and len(text) < 9 else None
        if batch is not None and not wrong_batch(batch):
            options = replace(options, batch=batch)
        else:
            problems.append(f"“{text[:40]}” is no batch from {MIN_BATCH} to {MAX_BATCH:,}; {usual.batch:,} counts.")
    if named := query.get("gpus"):
        gpus, unknown = _named_cards(named, cards)
        problems += unknown
        options = replace(options, gpus=gpus or options.gpus)
    for field, values in (("precision", PRECISIONS), ("execution", EXECUTIONS)):
        if query.get(field) in values:
            options = replace(options, **{field: query[field]})  # type: ignore[arg-type]
    return replace(options, conditions=_conditions(query, usual.conditions)), tuple(problems)


def _conditions(query: Mapping[str, str], usual: Conditions) -> Conditions:
    conditions = usual
    if query.get("data") in ("fed", "resident"):
        conditions = replace(conditions, fed=query["data"] == "fed")
    if query.get("build") in get_args(Build):
        conditions = replace(conditions, build=query["build"])  # type: ignore[arg-type]
    if query.get("fit") in ("with", "without"):
        conditions = replace(conditions, under_fit=query["fit"] == "with")
    return conditions


def changed_words(options: Options, usual: Options) -> str:
    """Describe as a sentence how the modelled steps run unlike the defaults; empty if they do not."""
    now, then = options.conditions, usual.conditions
    parts = {
        options.precision: options.precision != usual.precision,
        f"execution {options.execution}": options.execution != usual.execution,
        "each batch over the link" if now.fed else "data on the card": now.fed != then.fed,
        BUILD_WORDS[now.build]: now.build != then.build,
        "with what the loop of fit adds" if now.under_fit else "without the loop of fit": now.under_fit
        != then.under_fit,
        **{f"driven by {words}": options.host == kind for kind, words in KIND_WORDS.items()},
    }
    changed = [words for words, is_changed in parts.items() if is_changed]
    return f"How steps run, changed: {'; '.join(changed)}." if changed else ""


def _named_cards(text: str, cards: Mapping[str, GpuSpec]) -> tuple[tuple[str, ...], list[str]]:
    known, unknown = [], []
    for name in text.split(BETWEEN)[: 2 * MAX_CARDS]:
        try:
            known.append(find_gpu(name, cards).name)
        except UnknownGpu as error:
            unknown.append(str(error))
    return tuple(dict.fromkeys(known))[:MAX_CARDS], unknown


def wrong_batch(batch: int | None) -> str:
    """Explain why this is no valid batch; empty if it is one."""
    if batch is None or not MIN_BATCH <= batch <= MAX_BATCH:
        return f"A batch lies between {MIN_BATCH} and {MAX_BATCH:,}."
    return ""


def unmeasured_batch(run: Run, answer: Answer, index: int, batch: int) -> str:
    """Explain what is unknown at a batch outside the CPU's measured range; empty inside it."""
    measured = [cell.batch for cell in answer.cells if cell.target == index]
    if min(measured) <= batch <= max(measured):
        return ""
    return (
        f"{sentence_case(run.names[index])} was measured from batch {min(measured):,} to {max(measured):,}, so no "
        f"speed-up is known at batch {batch:,}; costs and limits are modelled there all the same."
    )


@dataclass(frozen=True)
class OwnDraft:
    """The form for a card in its current state.

    None is an empty number. ``link`` is a known link or :data:`OTHER_LINK`.
    """

    name: str
    fp32_tflops: float | None
    half_tflops: float | None
    memory_gb: float | None
    bandwidth_gb_s: float | None
    link: str
    link_gb_s: float | None
    per_hour: float | None
    dated: str
    currency: str = LISTED


def build_own(draft: OwnDraft, taken: Sequence[str]) -> tuple[OwnCard | None, dict[str, str]]:
    """Build the card of a form, None while a field is wrong, and return an error sentence per field.

    Fields: name, fp32_tflops, memory_gb, bandwidth_gb_s, link_gb_s, price, card.
    """
    checks = Checks()
    errors = checks.errors
    if not draft.name.strip():
        errors["name"] = "Give the card a name."
    elif draft.name.strip().casefold() in {name.casefold() for name in taken}:
        errors["name"] = f"“{draft.name.strip()}” is there already; give the card another name, or remove that one."
    needed = {
        "fp32_tflops": (draft.fp32_tflops, "its peak rate in float32, in TFLOP/s"),
        "memory_gb": (draft.memory_gb, "its memory, in GB"),
        "bandwidth_gb_s": (draft.bandwidth_gb_s, "its memory bandwidth, in GB/s"),
    }
    errors |= {field: f"Say {words}." for field, (value, words) in needed.items() if value is None}
    if draft.link == OTHER_LINK and draft.link_gb_s is None:
        errors["link_gb_s"] = "Say how many GB/s the link carries from host to card."
    if draft.per_hour is not None and not 0 < draft.per_hour <= MAX_PER_HOUR:
        errors["price"] = f"{PRICE_LIMITS}; leave it empty for none."
    card = None if errors else checks.attempt("card", lambda: _own_card(draft))
    return card, errors


def _own_card(draft: OwnDraft) -> OwnCard:
    facts = {name: value for name, value in vars(draft).items() if name in OwnCard.model_fields}
    facts |= {"name": draft.name.strip(), "link_gb_s": draft.link_gb_s if draft.link == OTHER_LINK else None}
    if draft.per_hour is not None:
        facts["price"] = CardPrice(per_hour=draft.per_hour, currency=draft.currency, dated=draft.dated, source=YOURS)
    card = OwnCard.model_validate(facts)
    card.spec()  # raises if its numbers contradict each other
    return card


def links() -> tuple[str, ...]:
    """Return the links of known bandwidth, and :data:`OTHER_LINK`."""
    return (*shared().links, OTHER_LINK)


def own_prices(
    amounts: Mapping[str, float | None], dated: str, currency: str = LISTED
) -> tuple[dict[str, CardPrice], dict[str, str]]:
    """Return the user's prices per hour by card, and a sentence for each invalid one; None leaves the list price."""
    prices, errors = {}, {}
    for name, amount in amounts.items():
        if amount is None:
            continue
        if 0 < amount <= MAX_PER_HOUR:
            prices[name] = CardPrice(per_hour=amount, currency=currency, dated=dated, source=YOURS)
        else:
            errors[name] = f"{name}: {PRICE_LIMITS[0].lower()}{PRICE_LIMITS[1:]}; empty: the list price."
    return prices, errors


def card_rows(readings: Sequence[CardReading], decision: Decision) -> list[dict[str, str]]:
    """Return the table of all cards as words, in their order; every row names its label."""
    return [_row(reading, decision.card(reading.spec.name), decision.batch) for reading in readings]


def _row(reading: CardReading, decided: CardDecision, batch: int) -> dict[str, str]:
    cost, step, faster = reading.cost, reading.step, reading.speed_up
    return {
        "card": f"{reading.spec.name} (yours)" if reading.spec.own else reading.spec.name,
        "label": label_of(reading),
        "crossover": crossover_words(reading.crossover),
        "standing": STANDINGS.get(decided.standing, decided.standing),
        "speed_up": "" if faster is None else bounded(faster.ratio, faster.low, faster.high),
        "resolve": remedy_words(decided),
        "step_ms": "" if step is None else bounded(step.step_ms, step.low_ms, step.high_ms),
        "cost": "" if cost is None else f"{bounded(cost.per_million, cost.low, cost.high)} {cost.price.currency}",
        "limited_by": next((part.by for part in reading.limits if part.first <= batch <= part.last), ""),
        "price": "" if cost is None else cost.price.words,
        "note": reading.withheld or reading.curve.corrected_by or "",
    }


def label_of(reading: CardReading) -> str:
    """Return ``modelled``, joined with the labels of points really taken, or ``withheld`` without any number."""
    labels = dict.fromkeys(point.label for point in reading.curve.known)
    return " and ".join(sorted(labels)) if labels else "withheld"


def settings_lines(how: Modelling, readings: Sequence[CardReading]) -> tuple[str, ...]:
    """Describe how the cards are modelled to run, once for all cards that run alike."""
    cards: dict[str, list[str]] = {}
    for reading in readings:
        cards.setdefault(modelled_as(reading.spec, how.workload, how.target), []).append(reading.spec.name)
    return tuple(
        f"Modelled {'on ' + ', '.join(names) if len(cards) > 1 else 'on each card'}: {words}."
        for words, names in cards.items()
    )


def goal_rows(known: Errors) -> list[dict[str, str]]:
    """Return the goals for the model's error, and the errors reached with chips and with sources held out."""
    return [
        {
            "what": goal.what,
            "points": f"{goal.points:,}",
            "goal": f"at most {percent(goal.goal)}",
            "chip": percent(goal.chip),
            "source": percent(goal.source),
        }
        for goal in known.goals
    ]


def batch_rows(known: Errors) -> list[dict[str, str]]:
    """Return the coverage and width of the intervals of whole networks at small and at large batches."""
    return [
        {
            "what": what,
            "points": f"{held.points:,}",
            "chip": percent(held.chip),
            "source": percent(held.source),
            "ratio": f"{held.high_over_low:.1f}",
        }
        for what, held in known.coverage_90.items()
        if "batch" in what
    ]


def held_out_errors(errors: Sequence[HeldOutError]) -> list[dict[str, str]]:
    """Return the model's error on each card, or each source, held out of its fit."""
    return [
        {
            "family": held_out.family,
            "phase": held_out.phase,
            "name": held_out.name,
            "points": f"{held_out.points:,}",
            "median": percent(held_out.median),
            "ninety": percent(held_out.ninety),
            **{region: _share_words(held_out.by_region.get(region)) for region in REGION_WORDS},
        }
        for held_out in errors
    ]


def _share_words(share: ErrorShare | None) -> str:
    return "" if share is None else f"{percent(share.median)} / {percent(share.ninety)} ({share.points:,})"


CLASS_WORDS = {
    "train": "training, host known",
    "infer": "inference, host known",
    "assumed": "host assumed: its spread holds them",
}


def class_errors(known: Errors) -> list[dict[str, str]]:
    """Return the error classes behind the intervals, with their coverage; borrowed ones come last."""
    rows = []
    for key, spread in sorted(known.classes.items(), key=lambda item: item[1].borrowed is not None):
        family, region, *which = key.split("/")
        low, high = spread.bounds(0.9)
        held = known.coverage_90.get(f"{family}/{region}")
        rows.append(
            {
                "family": ", ".join([family, *(CLASS_WORDS.get(part, f"{part} alone") for part in which)]),
                "region": REGION_WORDS[region],  # type: ignore[index]
                "gpus": str(spread.gpus),
                "points": f"{spread.points:,}",
                "median": f"{100 * math.expm1(spread.median):+.0f} %",
                "interval": "" if math.isinf(high) else f"{math.exp(low):.2f} to {math.exp(high):.2f}",
                "held": "" if held is None else f"{percent(held.chip)} / {percent(held.source)}",
                "evidence": spread.borrowed or "its own measurements",
            }
        )
    return rows
