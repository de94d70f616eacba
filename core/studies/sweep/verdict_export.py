"""Fields of a verdict for ``verdict --json``, and lines about three or more targets for the terminal."""

from __future__ import annotations

import math
from dataclasses import asdict

from core.numbers import rounded, table
from core.studies.sweep.answer import Against, Answer, Boundary, Verdict
from core.studies.sweep.fastest import margin_of
from core.studies.sweep.record import Run
from core.studies.sweep.verdict_fastest import band_words
from core.text import sentence_case


def verdict_fields(verdict: Verdict) -> dict[str, object]:
    """Return the fields of a verdict on two targets."""
    return {
        "verdict": verdict.kind,
        "targets": list(verdict.targets),
        "ahead": verdict.ahead,
        "crossovers": [asdict(crossover) for crossover in verdict.crossovers],
        "lead": asdict(verdict.lead) if verdict.lead else None,
        "reason": verdict.reason,
        "claims": list(verdict.claims),
        "machine": asdict(verdict.machine),
        "warnings": [warning.model_dump() for warning in verdict.warnings],
        "next_batch": verdict.next_batch,
    }


def fastest_fields(run: Run, answer: Answer) -> dict[str, object]:
    """Return bands, boundaries and each target against the first; targets by their notation."""
    assert answer.fastest is not None

    def named(targets: tuple[int, ...]) -> list[str]:
        return [run.target_names[target] for target in targets]

    return {
        **_common(answer.verdict),
        "fastest": [
            {"from_batch": band.from_batch, "to_batch": band.to_batch, "targets": named(band.targets)}
            for band in answer.fastest.bands
        ],
        "boundaries": [
            {"batch": b.batch, "low": b.low, "high": b.high, "before": named(b.before), "after": named(b.after)}
            for b in answer.fastest.boundaries
        ],
        "against_baseline": [verdict_fields(one.verdict) for one in answer.against],
    }


def single_fields(answer: Answer) -> dict[str, object]:
    """Return floor (ms per step), slope (ms per sample) and overhead share with 95 % bounds; None without a fit."""
    fit = answer.fits[0]
    if fit is None:
        return {**_common(answer.verdict), "floor_ms": None, "slope_ms": None, "overhead_share": []}
    bounds = {cell.batch: fit.overhead_bounds(cell.batch) or (None, None) for cell in answer.cells}
    return {
        **_common(answer.verdict),
        "floor_ms": {"value": fit.floor_ms, "low": fit.floor_low_ms, "high": fit.floor_high_ms},
        "slope_ms": {"value": fit.slope_ms, "low": fit.slope_low_ms, "high": fit.slope_high_ms},
        "overhead_share": [
            {"batch": batch, "value": fit.overhead_share(batch), "low": low, "high": high}
            for batch, (low, high) in bounds.items()
        ],
    }


def _common(verdict: Verdict) -> dict[str, object]:
    found = verdict_fields(verdict)
    return {
        name: found[name] for name in ("verdict", "targets", "reason", "claims", "machine", "warnings", "next_batch")
    }


def fastest_lines(run: Run, answer: Answer, margin: float | None = None) -> list[str]:
    """Return one line per band, and a table of each target against the baseline; empty for fewer than three targets."""
    if answer.fastest is None:
        return []
    edges: list[Boundary | None] = [None, *answer.fastest.boundaries, None]
    bands = [
        sentence_case(band_words(run.names, band, margin_of(run, margin), before, after, first=True))
        for band, before, after in zip(answer.fastest.bands, edges, edges[1:], strict=False)
    ]
    columns = (f"against {run.names[0]}", "batch", "95 % from", "to", "verdict")
    rows = [(run.names[one.target], *_crossover(one), one.verdict.sentence) for one in answer.against]
    told = [*bands, ""] if len(bands) > 1 else []  # with one band the sentence above says all
    return [*told, *table(columns, rows), ""]


def _crossover(one: Against) -> tuple[str, str, str]:
    """Return the first crossover with the baseline and its interval; empty texts if there is none."""
    if not one.verdict.crossovers:
        return "", "", ""
    found = one.verdict.crossovers[0]
    low, high = ("" if bound is None or math.isinf(bound) else rounded(bound) for bound in (found.low, found.high))
    return rounded(found.batch), low, high
