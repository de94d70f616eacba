"""Activity of the measured GPUs by batch: from energy windows if there are any, else from the blocks. Pure.

Utilisation and power come from windows only: NVML averages over up to a second, so a short block is mixed with those
before it. Clocks, temperature, memory and throttle reasons are instantaneous, so blocks show them, too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from core.base.evidence import SLOWDOWNS, WHILE_BUSY, CardUse, ClockReason, Spread, mean_of
from core.base.numbers import percent
from core.base.text import sentence_case
from core.rounds.answer.energy import Energy, Level, energy_of, energy_sentence, fed_sentence, level
from core.rounds.run import Run

REASON_WORDS: dict[ClockReason, str] = {
    "power_cap": "power cap",
    "applications_clocks": "clocks set by the user",
    "sync_boost": "clock kept with another GPU's",
    "display_clocks": "display's clock setting",
    "hw_slowdown": "hardware slowdown",
    "sw_thermal": "thermal slowdown by the driver",
    "hw_thermal": "thermal slowdown by the hardware",
    "power_brake": "power brake by the power supply",
}
NAMED_FROM = 0.05  # share of the busy samples; less is a passing moment
UTILISATION = (
    "Utilisation is NVML's: the share of time in which any kernel ran, however small. It does not say how much of the "
    "GPU the kernel used."
)


@dataclass(frozen=True)
class CardRow:
    """One GPU target at one batch. Spreads are (mean, least, most); ``reasons`` holds shares of the busy samples.

    ``windows`` is the number of energy windows behind it, 0 if blocks stand in.
    """

    target: int
    batch: int
    windows: int
    samples: int
    util_pct: Level | None
    power_w: Level | None
    sm_mhz: tuple[float, float, float] | None
    memory_mhz: tuple[float, float, float] | None
    celsius: tuple[float, float, float] | None
    used_mb: tuple[float, float, float] | None
    tx_mb_s: tuple[float, float, float] | None
    rx_mb_s: tuple[float, float, float] | None
    reasons: dict[ClockReason, float]

    @property
    def slowed(self) -> float:
        """The largest share of busy samples with any one slow-down by heat or a fault."""
        return max((share for name, share in self.reasons.items() if name in SLOWDOWNS), default=0.0)


def card_rows(run: Run, target: int) -> tuple[CardRow, ...]:
    """Return one row per batch, rising; empty for a CPU, and for old runs, in which no card was sampled."""
    windows: dict[int, list[CardUse]] = defaultdict(list)
    blocks: dict[int, list[CardUse]] = defaultdict(list)
    for window in run.energy:
        if window.target == target and window.card is not None and window.batch is not None:
            windows[window.batch].append(window.card)
    for item in run.rounds:
        for block in item.blocks:
            if block.target == target and block.card is not None:
                blocks[item.batch].append(block.card)
    batches = sorted(windows.keys() | blocks.keys())
    return tuple(_row(target, batch, windows.get(batch, []), blocks.get(batch, [])) for batch in batches)


def _row(target: int, batch: int, windows: Sequence[CardUse], blocks: Sequence[CardUse]) -> CardRow:
    uses = windows or blocks

    def spread(name: str) -> tuple[float, float, float] | None:
        while_busy = name in WHILE_BUSY
        return _joined((use.busy if while_busy else use.samples, getattr(use, name)) for use in uses)

    def over_windows(name: str) -> Level | None:
        means = [mean_of(value) for use in windows if (value := getattr(use, name)) is not None]
        return level(means) if means else None

    busy = sum(use.busy for use in (*windows, *blocks))
    named: dict[ClockReason, int] = defaultdict(int)
    for use in (*windows, *blocks):
        for name, count in use.reasons.items():
            named[name] += count
    return CardRow(
        target=target, batch=batch, windows=len(windows), samples=sum(use.samples for use in uses),
        util_pct=over_windows("util_pct"), power_w=over_windows("power_w"), sm_mhz=spread("sm_mhz"),
        memory_mhz=spread("memory_mhz"), celsius=spread("celsius"), used_mb=spread("used_mb"),
        tx_mb_s=spread("tx_mb_s"), rx_mb_s=spread("rx_mb_s"),
        reasons={name: min(1.0, count / busy) for name, count in named.items()} if busy else {},
    )  # fmt: skip


def _joined(values: Iterable[tuple[int, Spread | None]]) -> tuple[float, float, float] | None:
    """Combine summaries of (samples, spread) into mean over samples, least and most; None if none is known."""
    known = [
        (count, value if isinstance(value, tuple) else (value,) * 3)
        for count, value in values
        if count and value is not None
    ]
    if not known:
        return None
    mean = sum(count * value[0] for count, value in known) / sum(count for count, _ in known)
    return mean, min(value[1] for _, value in known), max(value[2] for _, value in known)


def utilisation_sentence(run: Run, rows: Sequence[CardRow]) -> str:
    """Return ``GPU 0 was busy 14 % of the time at batch 32 and 96 % at batch 2,048 (measured).``; empty if unknown."""
    known_rows = [row for row in rows if row.util_pct is not None]
    if not known_rows:
        return ""
    ends = dict.fromkeys((known_rows[0].batch, known_rows[-1].batch))
    shares = [(_share(row.util_pct), row.batch) for row in known_rows if row.batch in ends and row.util_pct is not None]
    (share, batch), *rest = shares
    more = "".join(f" and {other} at batch {at:,}" for other, at in rest)
    who = sentence_case(run.names[known_rows[0].target])
    return f"{who} was busy {share} of the time at batch {batch:,}{more} ({run.label})."


def _share(level: Level) -> str:
    if level.low is None or level.high is None:
        return f"{level.value:.0f} % (no interval)"
    low, high = max(0.0, level.low), min(100.0, level.high)
    return (
        f"{level.value:.0f} %" if round(low) == round(high) else f"{level.value:.0f} % (95 %: {low:.0f} to {high:.0f})"
    )


def clock_sentence(rows: Sequence[CardRow]) -> str:
    """Explain what limited the GPU's clock while it was busy: the power limit, which is normal, or heat and faults."""
    if not rows:
        return ""
    slowed = [row for row in rows if row.slowed >= NAMED_FROM]
    if slowed:
        worst = max(slowed, key=lambda row: row.slowed * row.samples)
        share = sum(row.slowed * row.samples for row in rows) / sum(row.samples for row in rows)
        names = [name for name, share in worst.reasons.items() if name in SLOWDOWNS and share >= NAMED_FROM]
        what = " and ".join(REASON_WORDS[name] for name in names)
        return (
            f"Its clock was held down in {percent(share)} of the samples, at batch {worst.batch:,} in "
            f"{percent(worst.slowed)}: {what}. Mind its cooling and power supply; a cooler GPU would be faster."
        )
    capped = [row for row in rows if row.reasons.get("power_cap", 0.0) >= NAMED_FROM]
    if capped:
        batches = f"from batch {capped[0].batch:,} on" if len(capped) > 1 else f"at batch {capped[0].batch:,}"
        return f"Its power limit set the clock {batches}, which is normal under load; heat did not slow it."
    return "Neither heat nor its power limit slowed it."


def reasons_words(row: CardRow) -> str:
    """Return ``power cap 92 %``, by share of the busy samples; ``none`` if there was no reason."""
    counts = sorted(row.reasons.items(), key=lambda item: -item[1])
    return ", ".join(f"{REASON_WORDS[name]} {percent(share)}" for name, share in counts) or "none"


def card_text(run: Run) -> list[str]:
    """Return lines on how busy each GPU was, what limited its clock and which target needs less energy; empty without
    data.
    """
    return list(_sentences(run, energy_of(run)))


def _sentences(run: Run, energy: Energy) -> Iterator[str]:
    for target in range(len(run.target_names)):
        rows = card_rows(run, target)
        if busy := utilisation_sentence(run, rows):
            yield f"{busy} {clock_sentence(rows)}"
    if sentence := energy_sentence(run, energy):
        about = "" if "energy" in sentence.partition(":")[0].lower() else "Energy: "
        yield f"{about}{sentence} {fed_sentence(run, energy)}".rstrip()
    for why in energy.skipped:
        if why != sentence:
            yield why
