"""Verdict on one target measured alone: fixed cost, cost per sample and fixed-cost share, with intervals."""

from __future__ import annotations

from core.numbers import number, percent
from core.spec import MAX_BATCH, MIN_BATCH
from core.studies.sweep.answer import CellStats, Fit, Verdict
from core.studies.sweep.record import Run
from core.studies.sweep.reliability import distinct, disturbances, few_processes
from core.text import sentence_case


def single_verdict(run: Run, fit: Fit | None, cells: tuple[CellStats, ...]) -> Verdict:
    """Return the verdict on the run's only target from its ``fit`` and ``cells``."""
    reason, sentence = _said(run, fit, cells)
    return Verdict(
        kind="single",
        targets=run.target_names,
        reason=reason,
        sentence=sentence_case(sentence),
        warnings=distinct(
            (*run.warnings, *few_processes(run), *disturbances([item.interference for item in run.rounds]))
        ),
        next_batch=_next(fit, cells),
    )


def _said(run: Run, fit: Fit | None, cells: tuple[CellStats, ...]) -> tuple[str, str]:
    name = run.names[0]
    if fit is None:
        count = f"{len(cells)} batch size" + ("" if len(cells) == 1 else "s")
        return "too_few_batches", f"{name}: {count} measured; fixed cost and cost per sample take three."
    if not fit.trusted:
        return "not_trusted", f"{name}: no fixed cost and cost per sample to rely on. {fit.note}"
    floor = _with_bounds(fit.floor_ms, fit.floor_low_ms, fit.floor_high_ms, "ms", "a step")
    slope = _with_bounds(1000 * fit.slope_ms, _us(fit.slope_low_ms), _us(fit.slope_high_ms), "µs", "a sample")
    if floor is None or slope is None:
        return "no_interval", f"{name}: step times too few or too scattered for a fixed cost and a cost per sample."
    shares = [share for batch in (cells[0].batch, cells[-1].batch) if (share := _share(fit, batch)) is not None]
    share = f"; of a step, {' and '.join(shares)} is fixed cost" if shares else ""
    return "floor_and_slope", f"{name}: a fixed cost of {floor} and {slope}{share}."


def _us(ms: float | None) -> float | None:
    return None if ms is None else 1000 * ms


def _with_bounds(value: float, low: float | None, high: float | None, unit: str, what: str) -> str | None:
    if low is None or high is None:
        return None
    return f"{number(value)} {unit} {what} (95 % interval {number(low)} to {number(high)})"


def _share(fit: Fit, batch: int) -> str | None:
    if (bounds := fit.overhead_bounds(batch)) is None:
        return None
    share, low, high = (percent(value, 1)[:-2] for value in (fit.overhead_share(batch), *bounds))
    interval = "its whole interval too" if low == high else f"{low} to {high}"
    return f"{share} % at batch {batch:,} ({interval})"


def _next(fit: Fit | None, cells: tuple[CellStats, ...]) -> int | None:
    """Return a batch beyond the end that the fit lacks: larger if all is floor, smaller if all is work."""
    if fit is None or not cells:
        return None
    first, last = cells[0].batch, cells[-1].batch
    if fit.overhead_share(last) > 0.5 and last < MAX_BATCH:
        return min(MAX_BATCH, 2 * last)
    return max(MIN_BATCH, first // 2) if fit.overhead_share(first) < 0.2 and first > MIN_BATCH else None
