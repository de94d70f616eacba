"""A predicted service in sentences, verdict first, and as one JSON object."""

from __future__ import annotations

import math
from dataclasses import asdict
from operator import attrgetter
from typing import Any

from core.base.numbers import counted, duration, moment, number, percent, table
from core.base.text import sentence_case
from core.rounds.run import Run
from core.studies.batch.shapes import Quantity
from core.studies.serving.answer import Judged, Served, ServedAnswer
from core.studies.serving.prediction import Pays, ServingAnswer, TargetService
from core.studies.serving.record import ServingStudy

ASSUMED = "Tail assumed: the sweep timed too few steps singly, so each is taken to last as long as the others."
UNPAUSED = "The sweep timed no steps after pauses, so requests that come alone may take longer than predicted."
RESIDENT = "The sweep's inputs lay ready, while requests bring theirs: sweep with --pipeline host to count that."
ODD_SIZES = (
    "Batch sizes between measured ones are interpolated, and odd ones may take longer; padded batches avoid that."
)
UNSPREAD = "Steps of a modelled card are taken not to scatter."
PREDICTED = "Instances are taken not to slow each other, and network and clients to cost nothing."


def sentences(answer: ServingAnswer) -> tuple[str, ...]:
    """Return what each target carries, from which rate it takes another one, and from which rate it costs less."""
    return (verdict(answer), *_at_rate(answer), *_needed(answer), *(_pays(answer, pays) for pays in answer.pays))


def verdict(answer: ServingAnswer) -> str:
    """Return the verdict: the largest request rate of every target within the limit."""
    promise = answer.service.promise
    known = [target for target in answer.targets if target.tells]
    parts = [f"{rate_words(t.capacity_per_s)} on {t.title}" for t in known if t.capacity_per_s.value]
    lines = [f"Predicted at {promise}: {', '.join(parts)}."] if parts else []
    for target in known:
        if target.capacity_per_s.high == 0:
            lines.append(f"Even a lone request misses {promise} on {target.title}.")
        elif not target.capacity_per_s.value:
            lines.append(f"It is not clear if any request keeps {promise} on {target.title}.")
    return " ".join(lines)


def rate_words(rate: Quantity) -> str:
    """Return a rate with its interval, as in ``139 requests/s (120 to 155)``."""
    if rate.low is None or rate.high is None:
        return f"about {number(rate.value)} requests/s (no interval)"
    return f"{number(rate.value)} requests/s ({number(rate.low)} to {number(rate.high)})"


def _at_rate(answer: ServingAnswer) -> tuple[str, ...]:
    """Return latency, or the servers that it takes, at the user's own rate."""
    rate = answer.service.rate_per_s
    if rate is None:
        return ()
    known = filter(attrgetter("tells"), answer.targets)
    parts = [words for target in known if (words := _rate_on(target, rate, answer.service.limit_ms))]
    return (f"At {number(rate)} requests/s: {', '.join(parts)}.",) if parts else ()


def _rate_on(target: TargetService, rate_per_s: float, limit_ms: float) -> str:
    """Return latency or number of servers with its interval; empty where there is none."""
    latency, capacity = target.at_rate_ms, target.capacity_per_s
    if latency is None or latency.low is None or latency.high is None or not capacity.low or not capacity.high:
        return ""
    if latency.high <= limit_ms:
        return f"{number(latency.value)} ms ({number(latency.low)} to {number(latency.high)}) on {target.title}"
    few, many = (math.ceil(rate_per_s / each) for each in (capacity.high, capacity.low))
    return (
        f"{few:,} {'server' if few == 1 else 'servers'} on {target.title}"
        if few == many
        else (f"{few:,} to {many:,} servers on {target.title}")
    )


def _needed(answer: ServingAnswer) -> tuple[str, ...]:
    """Return which target carries most, where several are compared and that is clear."""
    known = [target for target in answer.targets if target.tells]
    if len(known) < 2:
        return ()
    first, *others = sorted(known, key=lambda target: -target.capacity_per_s.value)
    low = first.capacity_per_s.low
    highs = [target.capacity_per_s.high for target in others]
    if low is None or any(high is None or high >= low for high in highs):
        return ("Which of them carries most is not clear.",)
    second = others[0]
    if not second.capacity_per_s.value:
        return ()
    return (f"Above {rate_words(second.capacity_per_s)} it takes {first.title}, or a second server.",)


def _pays(answer: ServingAnswer, pays: Pays) -> str:
    base, other = (next(t for t in answer.targets if t.index == index) for index in (pays.base, pays.other))
    assert base.price is not None
    assert other.price is not None
    prices, server = f"At {base.price.amount} and {other.price.amount}", f"a server on {other.title}"
    if pays.rate_per_s is None and pays.low is None:
        return f"{prices}, {server} costs less at no request rate."
    if pays.rate_per_s == pays.high == 0:
        return f"{prices}, {server} costs less from the first request on."
    if pays.rate_per_s is None or pays.low is None or pays.high is None:
        return f"{prices}, it is not clear from which request rate {server} costs less."
    since = "costs less from" if pays.for_good else "first costs less at"
    return f"{prices}, {server} {since} {rate_words(Quantity(pays.rate_per_s, pays.low, pays.high))}."


def notes(answer: ServingAnswer) -> tuple[str, ...]:
    """Return what the prediction leaves out and what its tail rests on."""
    counts = [target.singles for target in answer.targets if target.label != "modelled"]
    tail = ASSUMED if not min(counts) else f"The tail is that of {min(counts):,} single steps or more per target."
    cards = [target for target in answer.targets if target.label == "modelled"]
    vague = [f"The interval of {card.title} leaves nothing to say of its capacity." for card in cards if not card.tells]
    odd = [] if answer.service.pads else [ODD_SIZES]
    unknown = [UNPAUSED] if any(t.pause_ms is None and t.label != "modelled" for t in answer.targets) else []
    others = [RESIDENT] * answer.resident + [UNSPREAD] * bool(cards)
    return (PREDICTED, tail, *unknown, *odd, *others, *vague)


def serving_text(run: Run, answer: ServingAnswer) -> list[str]:
    """Return the verdict and a table of latency by request rate for every target, as lines."""
    lines = [*sentences(answer), ""]
    for target in answer.targets:
        rows = [(number(rate), number(ms)) for rate, ms in zip(target.curve.rates_per_s, target.curve.ms, strict=True)]
        lines += [
            f"{sentence_case(target.title)}:",
            *table(("requests/s", f"p{answer.service.percentile} ms"), rows),
            "",
        ]
    return [*lines, *notes(answer), f"Step times are {run.label}: {run.name}"]


def serving_data(run: Run, answer: ServingAnswer) -> dict[str, Any]:
    """Return the answer as JSON: capacities with intervals, curves, and from which rate a target costs less."""
    names = {target.index: target.name for target in answer.targets}
    return {
        "run": run.id,
        "label": f"predicted from {run.label} step times",
        "service": answer.service.model_dump(mode="json"),
        "sentences": list(sentences(answer)),
        "targets": [
            {
                "target": target.name,
                "step_times": target.label,
                "capacity_per_s": _bounds(target.capacity_per_s),
                "lone_request_ms": target.alone_ms,
                "pause_ms": None if target.pause_ms is None else _bounds(target.pause_ms),
                "latency_at_rate_ms": None if target.at_rate_ms is None else _bounds(target.at_rate_ms),
                "single_steps": target.singles,
                "rates_per_s": [float(rate) for rate in target.curve.rates_per_s],
                "latency_ms": [float(ms) for ms in target.curve.ms],
            }
            for target in answer.targets
        ],
        "pays": [
            {
                "base": names[pays.base],
                "other": names[pays.other],
                "rate_per_s": pays.rate_per_s,
                "low": pays.low,
                "high": pays.high,
                "for_good": pays.for_good,
            }
            for pays in answer.pays
        ],
        "notes": list(notes(answer)),
    }


def _bounds(rate: Quantity) -> dict[str, float | None]:
    ends = {"value": rate.value, "low": rate.low, "high": rate.high}
    return {name: None if end is None or math.isinf(end) else end for name, end in ends.items()}


STATES = {"keeps": "keeps it", "misses": "misses it", "unclear": "not clear"}
LATE_SHARE = 0.1
"""Share of the limit beyond which the batcher's own delay is said."""
LONGEST_NEEDED_S = 3600.0


def served_sentences(answer: ServedAnswer) -> tuple[str, ...]:
    """Return at which rates each target kept the promise, beside the prediction, then what else must be known."""
    promise = answer.service.promise
    lines = [f"Measured at {promise}: {_served(target)}." for target in answer.targets]
    for target in answer.targets:
        if target.needed_s is not None:
            time = "more than an hour" if target.needed_s > LONGEST_NEEDED_S else f"about {duration(target.needed_s)}"
            lines.append(f"{sentence_case(target.title)}: it needs {time} more until every rate between is clear.")
    if answer.late_ms > LATE_SHARE * answer.service.limit_ms:
        lines.append(
            f"The batcher itself began batches up to {number(answer.late_ms)} ms late; latencies include that."
        )
    if answer.disturbed:
        visits = counted(answer.visits, "visit")
        lines.append(f"Other programs took CPU time in {answer.disturbed} of {visits}; the latencies include that.")
    return tuple(lines)


def _served(target: Served) -> str:
    keeps, misses = target.keeps and number(target.keeps), target.misses and number(target.misses)
    if keeps and misses:
        words = f"{target.title} keeps it at {keeps} requests/s and misses it at {misses}"
    elif keeps:
        words = f"{target.title} keeps it at {keeps} requests/s; above that it is not clear"
    elif misses:
        words = f"{target.title} misses it at {misses} requests/s; below that it is not clear"
    else:
        words = f"on {target.title} it is not clear at any rate"
    beside = {True: "as predicted", False: "unlike what was predicted", None: "predicted"}[target.agrees]
    return f"{words} ({beside}: {rate_words(target.predicted)})"


def served_text(study: ServingStudy, answer: ServedAnswer) -> list[str]:
    """Return the verdict and a table of the visited rates for every target, as lines."""
    columns = ("requests/s", "requests", "missed %", "low", "high", f"p{answer.service.percentile} ms", "batch", "")
    lines = [*served_sentences(answer), ""]
    for target in answer.targets:
        rows = [tuple(served_row(rate).values()) for rate in target.rates]
        lines += [f"{sentence_case(target.title)}:", *table(columns, rows), ""]
    return [*lines, f"Latencies are {study.label}: {study.title}, {study.status}, {moment(study.created_at)}"]


def served_row(rate: Judged) -> dict[str, Any]:
    """Return what is known of a visited rate, in words; the interval of the missed share is one of 99 %."""
    missed = rate.missed
    low, high = (None if end is None else percent(end, 2) for end in (missed.low, missed.high))
    latency = None if rate.latency_ms is None else number(rate.latency_ms.value)
    return {
        "rate_per_s": number(rate.rate_per_s), "requests": f"{rate.requests:,}", "missed": percent(missed.value, 2),
        "low": low, "high": high, "latency_ms": latency, "size": number(rate.size), "state": STATES[rate.state],
    }  # fmt: skip


def served_data(study: ServingStudy, answer: ServedAnswer) -> dict[str, Any]:
    """Return the answer as JSON, and under ``record`` the raw measurements."""
    targets = [asdict(target) | {"agrees": target.agrees} for target in answer.targets]
    for target in targets:
        target["needed_s"] = None if target["needed_s"] == math.inf else target["needed_s"]
    return {
        "sentences": list(served_sentences(answer)), "targets": targets, "late_ms": answer.late_ms,
        "disturbed": answer.disturbed, "record": study.model_dump(mode="json"),
    }  # fmt: skip
