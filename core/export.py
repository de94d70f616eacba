"""A run as files for other tools: JSON, the rounds as CSV, the statistics of its cells as CSV.

Every line carries the label (measured, recorded or modelled). Text that a spreadsheet would take for a formula is
made harmless by a leading apostrophe, which importing takes off again.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from statistics import median

from core.analysis.answer import Answer, Verdict
from core.analysis.findings import DiagnosisAnswer
from core.experiment import Diagnosis
from core.results import Run, Warning

ROUND_COLUMNS = ("target", "batch", "step_ms", "round", "order", "pass", "process", "steps", "at_s", "label")
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


@dataclass(frozen=True)
class CellRow:
    """One cell as tables show it. ``None``: not known. Times outside the step time are medians over processes."""

    target: str
    batch: int
    outcome: str
    rounds: int
    step_ms: float | None
    low_ms: float | None
    high_ms: float | None
    samples_per_s: float | None
    us_per_sample: float | None
    overhead_share_fitted: float | None
    first_call_ms: float | None
    warmup_ms: float | None
    latency_ms: float | None
    memory_peak_bytes: int | None
    stop_reason: str
    reason: str
    label: str


def run_json(run: Run) -> str:
    """The whole run; :func:`core.imports.read_run` reads it back unchanged."""
    return run.to_json(indent=1) + "\n"


def rounds_csv(run: Run) -> str:
    """One line a block, the first target's first; read back, they give the same verdict."""
    lines = [
        (run.target_names[block.target], item.batch, block.step_ms, item.index, order, item.pass_index, block.process,
         block.steps, block.at_s, run.label)
        for target in (0, 1)
        for item in run.rounds
        for order, block in enumerate(item.blocks, start=1)
        if block.target == target
    ]  # fmt: skip
    return _csv(ROUND_COLUMNS, lines)


def cells_csv(run: Run, answer: Answer | None) -> str:
    """One line a cell with its statistics and what is kept outside the step time."""
    columns = [field.name for field in fields(CellRow)]
    return _csv(columns, (asdict(row).values() for row in cell_rows(run, answer)))


def cell_rows(run: Run, answer: Answer | None) -> tuple[CellRow, ...]:
    """Every cell that was asked for or measured, by batch, then target. ``answer`` is None before the first round."""
    keys = {(cell.batch, cell.target) for cell in run.cells}
    keys |= {(cell.batch, cell.target) for cell in (answer.cells if answer else ())}
    return tuple(_cell_row(run, answer, target, batch) for batch, target in sorted(keys))


def verdict_data(verdict: Verdict) -> dict[str, object]:
    """The verdict as the object that ``python -m core verdict --json`` prints."""
    return {
        "verdict": verdict.kind,
        "targets": list(verdict.targets),
        "ahead": verdict.ahead,
        "crossovers": [asdict(crossover) for crossover in verdict.crossovers],
        "lead": asdict(verdict.lead) if verdict.lead else None,
        "reason": verdict.reason,
        "warnings": [warning.model_dump() for warning in verdict.warnings],
        "next_batch": verdict.next_batch,
    }


def diagnosis_data(diagnosis: Diagnosis, told: DiagnosisAnswer) -> dict[str, object]:
    """A diagnosis as one object: what it says, derived, and under ``record`` what was measured, from which it follows.

    ``gain`` is how many times faster the step (time per sample) is with the remedy, with 95 % bounds.
    """
    return {
        "verdict": told.sentence,
        "reason": told.reason,
        "label": diagnosis.experiment.label,
        "target": diagnosis.target,
        "batch": diagnosis.batch,
        "findings": [asdict(finding) for finding in told.findings],
        "readings": [asdict(reading) for reading in told.readings],
        "warnings": [warning.model_dump() for warning in told.warnings],
        "record": diagnosis.model_dump(mode="json"),
    }


def short_number(value: float | None) -> str:
    """Four significant digits, thousands separated; nothing for what is not known."""
    if value is None:
        return ""
    if isinstance(value, int) or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4g}"


def is_formula(text: str) -> bool:
    """Whether a spreadsheet might run the text as a formula, apostrophes before it or not."""
    return text.lstrip(" '").startswith(FORMULA_STARTS)


def all_warnings(run: Run, answer: Answer | None) -> tuple[Warning, ...]:
    """The run's own warnings and those of its analysis, each once."""
    found = (*run.warnings, *(answer.verdict.warnings if answer else ()))
    return tuple({warning.code: warning for warning in found}.values())


def _cell_row(run: Run, answer: Answer | None, target: int, batch: int) -> CellRow:
    stats = answer.cell(target, batch) if answer else None
    cell = next((c for c in run.cells if (c.target, c.batch) == (target, batch)), None)
    fit = answer.fits[target] if answer else None
    setups = [s for s in run.setups if (s.target, s.batch) == (target, batch)]
    return CellRow(
        target=run.target_names[target],
        batch=batch,
        outcome=cell.outcome if cell else "measured",
        rounds=stats.rounds if stats else 0,
        step_ms=stats.step_ms if stats else None,
        low_ms=stats.low_ms if stats else None,
        high_ms=stats.high_ms if stats else None,
        samples_per_s=stats.samples_per_s if stats else None,
        us_per_sample=stats.us_per_sample if stats else None,
        overhead_share_fitted=fit.overhead_share(batch) if fit and fit.trusted and stats else None,
        first_call_ms=_median(s.first_call_ms for s in setups),
        warmup_ms=_median(s.warmup_ms for s in setups),
        latency_ms=_median(ms for s in setups for ms in s.latency_ms),
        memory_peak_bytes=max((s.memory_peak_bytes for s in setups if s.memory_peak_bytes is not None), default=None),
        stop_reason=(cell.stop_reason or "") if cell else "",
        reason=cell.reason if cell else "",
        label=run.label,
    )


def _median(values: Iterable[float]) -> float | None:
    found = list(values)
    return median(found) if found else None


def _csv(columns: Sequence[str], lines: Iterable[Iterable[object]]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([_safe(value) if isinstance(value, str) else value for value in line] for line in lines)
    return out.getvalue()


def _safe(text: str) -> str:
    return f"'{text}" if is_formula(text) else text


def placement_lines(run: Run) -> list[str]:
    """Where each target's work ran at the last batch that was prepared, as the worker found it after running it."""
    last = {setup.target: setup for setup in run.setups if setup.placement}
    return [f"{run.target_names[target]}: ran on {', '.join(last[target].placement)}" for target in sorted(last)]
