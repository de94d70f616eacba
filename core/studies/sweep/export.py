"""Export of a run: JSON, its rounds and cell statistics as CSV, and lines of text.

Every line carries the label (measured, recorded or modelled). Text that a spreadsheet would take for a formula is
neutralised by a leading apostrophe, which the import removes.
"""

from __future__ import annotations

import csv
import io
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from statistics import median

from core.evidence import Setup, Warning, note_lines
from core.numbers import moment, table
from core.studies.sweep.answer import Answer, CellStats
from core.studies.sweep.best_cpu import look_lines
from core.studies.sweep.busy import machine_line
from core.studies.sweep.card_use import card_text
from core.studies.sweep.loop import loop_lines
from core.studies.sweep.next_step import next_step
from core.studies.sweep.quantised import output_difference, output_difference_lines
from core.studies.sweep.ran_as import RanAs, ran_as, ran_line
from core.studies.sweep.record import Cell, Run
from core.studies.sweep.reliability import distinct
from core.studies.sweep.split import together
from core.studies.sweep.split_text import split_fields, split_lines
from core.studies.sweep.starts import start_lines
from core.studies.sweep.verdict_export import fastest_fields, fastest_lines, single_fields, verdict_fields
from core.text import escaped_json, in_lines, sentence_case

ROUND_COLUMNS = ("target", "batch", "step_ms", "round", "order", "pass", "process", "steps", "at_s", "label")
FORMULA_STARTS = tuple("=+-@\t\r\n＝＋－＠")


@dataclass(frozen=True)
class CellRow:
    """One cell as tables show it; ``None`` means unknown. Times other than the step time are medians over processes.

    ``execution`` and ``precision`` are those that the target ran with, empty if unknown. The differences compare an
    int8 target's outputs with float32, as shares of the range of the float32 outputs.
    """

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
    execution: str
    precision: str
    output_difference_mean: float | None
    output_difference_largest: float | None
    same_class_share: float | None
    label: str


def run_json(run: Run) -> str:
    """Return the whole run; :func:`core.studies.sweep.imports.read_run` reads it back unchanged."""
    return escaped_json(run.to_json(indent=1)) + "\n"


def rounds_csv(run: Run) -> str:
    """Return one line per block, ordered by target; importing them gives the same verdict."""
    lines = [
        (run.target_names[block.target], item.batch, block.step_ms, item.index, order, item.pass_index, block.process,
         block.steps, block.at_s, run.label)
        for target in range(len(run.target_names))
        for item in run.rounds
        for order, block in enumerate(item.blocks, start=1)
        if block.target == target
    ]  # fmt: skip
    return csv_text(ROUND_COLUMNS, lines)


def cells_csv(run: Run, answer: Answer | None) -> str:
    """Return one line per cell with its statistics and what is recorded besides the step time."""
    columns = [field.name for field in fields(CellRow)]
    return csv_text(columns, (asdict(row).values() for row in cell_rows(run, answer)))


def cell_rows(run: Run, answer: Answer | None) -> tuple[CellRow, ...]:
    """Return every planned or measured cell, by batch, then target. ``answer`` is None before the first round."""
    cells = {(cell.batch, cell.target): cell for cell in reversed(run.cells)}
    found = {(cell.batch, cell.target): cell for cell in (answer.cells if answer else ())}
    setups: dict[tuple[int, int], list[Setup]] = defaultdict(list)
    for setup in run.setups:
        setups[setup.batch, setup.target].append(setup)
    ran = [ran_as(run, target) for target in range(len(run.target_names))]
    return tuple(
        _cell_row(run, answer, key, cells.get(key), found.get(key), setups.get(key, []), ran[key[1]])
        for key in sorted(cells.keys() | found.keys())
    )


def verdict_data(run: Run, answer: Answer) -> dict[str, object]:
    """Return the verdict as the object that ``python -m core verdict --json`` prints.

    ``ran_as``: see :class:`RanAs`; ``together``: see :mod:`core.studies.sweep.split`, only for a CPU and an
    accelerator.
    """
    if answer.fastest is not None:
        found = fastest_fields(run, answer)
    else:
        found = verdict_fields(answer.verdict) if answer.against else single_fields(answer)
    ran = [ran_as(run, target) for target in range(len(run.target_names))]
    at_once = together(run)
    more = {} if at_once is None else {"together": split_fields(run, at_once)}
    return {**found, "ran_as": [None if one is None else one.data for one in ran], **more}


def is_formula(text: str) -> bool:
    """Tell whether a spreadsheet might run the text as a formula, also behind apostrophes."""
    return text.lstrip(" '").startswith(FORMULA_STARTS)


def all_warnings(run: Run, answer: Answer | None) -> tuple[Warning, ...]:
    """Return the run's own warnings and those of its analysis, each once."""
    return distinct((*run.warnings, *(answer.verdict.warnings if answer else ())))


def _cell_row(
    run: Run,
    answer: Answer | None,
    key: tuple[int, int],
    cell: Cell | None,
    stats: CellStats | None,
    setups: list[Setup],
    ran: RanAs | None,
) -> CellRow:
    batch, target = key
    fit = answer.fits[target] if answer else None
    differs = output_difference(setups)
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
        execution=ran.execution if ran else "",
        precision=ran.precision if ran else "",
        output_difference_mean=differs.mean if differs else None,
        output_difference_largest=differs.largest if differs else None,
        same_class_share=differs.agreeing if differs else None,
        label=run.label,
    )


def _median(values: Iterable[float]) -> float | None:
    found = list(values)
    return median(found) if found else None


def csv_text(columns: Sequence[str], lines: Iterable[Iterable[object]]) -> str:
    """Return a header and lines as CSV; text that a spreadsheet would run is neutralised."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([f"'{v}" if isinstance(v, str) and is_formula(v) else v for v in line] for line in lines)
    return out.getvalue()


def placement_lines(run: Run) -> list[str]:
    """Return the device that each target's last prepared batch ran on, as its worker found after running it, and how
    workers were started.
    """
    last = {setup.target: setup for setup in run.setups if setup.placement}
    ran = [f"{sentence_case(run.names[target])}: ran on {', '.join(last[target].placement)}" for target in sorted(last)]
    return ran + start_lines(run)


def reason_lines(run: Run) -> list[str]:
    """Return why cells were not measured, with one line for all batches of a target with the same reason."""
    alike: dict[tuple[int, str], list[str]] = {}
    for cell in sorted(run.cells, key=lambda cell: (cell.target, cell.batch)):
        if cell.outcome != "measured" and cell.reason:
            alike.setdefault((cell.target, cell.reason), []).append(f"{cell.batch:,}")
    return [
        f"{sentence_case(run.names[target])} at batch {', '.join(batches)}: {why}"
        for (target, why), batches in alike.items()
    ]


def verdict_text(run: Run, answer: Answer) -> str:
    """Return the verdict, followed by the table of step times and the notes."""
    columns = ("target", "batch", "rounds", "step ms", "95 % from", "to", "samples/s", "outcome")
    rows = [
        (
            run.name_of(row.target),
            row.batch,
            row.rounds,
            row.step_ms,
            row.low_ms,
            row.high_ms,
            row.samples_per_s,
            row.outcome.replace("_", " "),
        )
        for row in cell_rows(run, answer)
    ]
    lines = [
        answer.verdict.sentence,
        *look_lines(run, answer),
        *ran_line(run),
        *output_difference_lines(run),
        "",
        *fastest_lines(run, answer),
        *table(columns, rows),
        *reason_lines(run),
        "",
        *loop_lines(run, answer),
    ]
    if (at_once := together(run)) is not None:
        lines += split_lines(run, at_once)
    lines.append(f"All times are {run.label}: {run.name}, {run.status}, {moment(run.created_at)}")
    lines += placement_lines(run)
    lines += card_text(run)
    lines += machine_line(answer.verdict.machine)
    if step := next_step(run, answer).sentence:
        lines.append(step)
    lines += note_lines(all_warnings(run, answer))
    return in_lines(lines)
