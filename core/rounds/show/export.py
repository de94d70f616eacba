"""Export of a run: JSON, its rounds and cell statistics as CSV, and lines of text.

Every line carries the label (measured, recorded or modelled). Text that a spreadsheet would take for a formula is
neutralised by a leading apostrophe, which the import removes.
"""

from __future__ import annotations

import csv
import io
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from statistics import median

from core.base.evidence import Setup, Start, Warning, note_lines
from core.base.numbers import moment, number, rounded, table
from core.base.text import escaped_json, in_lines, sentence_case
from core.rounds.answer.answer import Against, Answer, Boundary, CellStats, Verdict, machine_line
from core.rounds.answer.best_cpu import look_lines
from core.rounds.answer.card_use import CardRow, card_rows, card_text, reasons_words
from core.rounds.answer.energy import EnergyCell, Level, energy_of
from core.rounds.answer.fastest import margin_of
from core.rounds.answer.loop import loop_lines
from core.rounds.answer.more_time import next_step
from core.rounds.answer.reliability import distinct, output_difference, output_difference_lines
from core.rounds.answer.split import split_fields, split_lines, together
from core.rounds.answer.tokens import throughput_unit, token_lines
from core.rounds.answer.verdict import band_words, sample_line
from core.rounds.ran_as import RanAs, ran_as, ran_line
from core.rounds.run import Cell, Run


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
        "against_baseline": [verdict_fields(pair.verdict) for pair in answer.against],
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
    fields = verdict_fields(verdict)
    return {
        name: fields[name] for name in ("verdict", "targets", "reason", "claims", "machine", "warnings", "next_batch")
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
    rows = [(run.names[pair.target], *_crossover(pair), pair.verdict.sentence) for pair in answer.against]
    band_lines = [*bands, ""] if len(bands) > 1 else []  # with one band the sentence above says all
    return [*band_lines, *table(columns, rows), ""]


def _crossover(pair: Against) -> tuple[str, str, str]:
    """Return the first crossover with the baseline and its interval; empty texts if there is none."""
    if not pair.verdict.crossovers:
        return "", "", ""
    crossover = pair.verdict.crossovers[0]
    low, high = (
        "" if bound is None or math.isinf(bound) else rounded(bound) for bound in (crossover.low, crossover.high)
    )
    return rounded(crossover.batch), low, high


WORDS: dict[Start, str] = {
    "forked": "{count} forked from a process that had imported the framework",
    "fresh": "{count} started afresh",
}


def start_lines(run: Run) -> list[str]:
    """Return one line, with the duration of the longest start; none if the run did not record it."""
    counts = Counter(process.start for process in run.processes if process.start is not None)
    if not counts:
        return []
    ways = " and ".join(words.format(count=counts[way]) for way, words in WORDS.items() if counts[way])
    longest_s = max(process.startup_ms for process in run.processes) / 1000
    return [f"Worker processes: {ways}; the longest start took {number(longest_s)} s"]


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
    """Return the whole run; :func:`core.rounds.show.imports.read_run` reads it back unchanged."""
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
    answered = {(cell.batch, cell.target): cell for cell in (answer.cells if answer else ())}
    setups: dict[tuple[int, int], list[Setup]] = defaultdict(list)
    for setup in run.setups:
        setups[setup.batch, setup.target].append(setup)
    ran = [ran_as(run, target) for target in range(len(run.target_names))]
    return tuple(
        _cell_row(run, answer, key, cells.get(key), answered.get(key), setups.get(key, []), ran[key[1]])
        for key in sorted(cells.keys() | answered.keys())
    )


def verdict_data(run: Run, answer: Answer) -> dict[str, object]:
    """Return the verdict as the object that ``python -m core verdict --json`` prints.

    ``ran_as``: see :class:`RanAs`; ``together``: see :mod:`core.rounds.answer.split`, only for a CPU and an
    accelerator.
    """
    if answer.fastest is not None:
        fields = fastest_fields(run, answer)
    else:
        fields = verdict_fields(answer.verdict) if answer.against else single_fields(answer)
    ran = [ran_as(run, target) for target in range(len(run.target_names))]
    at_once = together(run)
    more = {} if at_once is None else {"together": split_fields(run, at_once)}
    return {**fields, "ran_as": [None if actual is None else actual.data for actual in ran], **more}


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
    distinct = list(values)
    return median(distinct) if distinct else None


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
    _, unit, tokens = throughput_unit(run)
    columns = ("target", "batch", "rounds", "step ms", "95 % from", "to", unit, "outcome")
    rows = [
        (
            run.name_of(row.target),
            row.batch,
            row.rounds,
            row.step_ms,
            row.low_ms,
            row.high_ms,
            None if row.samples_per_s is None else tokens * row.samples_per_s,
            row.outcome.replace("_", " "),
        )
        for row in cell_rows(run, answer)
    ]
    lines = [
        answer.verdict.sentence,
        *filter(None, (sample_line(answer),)),
        *look_lines(run, answer),
        *ran_line(run),
        *output_difference_lines(run),
        "",
        *fastest_lines(run, answer),
        *table(columns, rows),
        *reason_lines(run),
        "",
        *token_lines(run, answer),
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


SPREADS = ("sm_mhz", "memory_mhz", "celsius", "used_mb", "tx_mb_s", "rx_mb_s")


@dataclass(frozen=True)
class CardLine:
    """One target at one batch; ``None`` means unknown. Joules are per sample; low and high are 95 % bounds.

    ``energy_windows`` 0: taken from blocks, which show neither utilisation nor power. ``cpu_package_joules`` is the
    energy of the CPU packages while a GPU target ran.
    """

    target: str
    batch: int
    energy_windows: int
    utilisation_pct: float | None
    utilisation_low: float | None
    utilisation_high: float | None
    sm_mhz: float | None
    sm_mhz_least: float | None
    memory_mhz: float | None
    power_w: float | None
    celsius: float | None
    celsius_most: float | None
    memory_used_mb: float | None
    pcie_from_gpu_mb_s: float | None
    pcie_to_gpu_mb_s: float | None
    clock_reasons: str
    joules: float | None
    joules_low: float | None
    joules_high: float | None
    joules_net: float | None
    joules_net_low: float | None
    joules_net_high: float | None
    cpu_package_joules: float | None
    energy_from: str
    label: str


def card_lines(run: Run) -> tuple[CardLine, ...]:
    """Return one line per cell with known GPU activity or energy, by batch, then target."""
    rows = {(row.batch, row.target): row for target in range(len(run.target_names)) for row in card_rows(run, target)}
    cells = {(cell.batch, cell.target): cell for cell in energy_of(run).cells}
    return tuple(_line(run, key, rows.get(key), cells.get(key)) for key in sorted(rows.keys() | cells.keys()))


def _line(run: Run, key: tuple[int, int], row: CardRow | None, cell: EnergyCell | None) -> CardLine:
    busy, gross = _level(row.util_pct if row else None), _level(cell.gross if cell else None)
    net, watts = _level(cell.net if cell else None), cell.watts if cell else row.power_w if row else None
    spread = {name: (getattr(row, name) if row else None) or (None, None, None) for name in SPREADS}
    return CardLine(
        target=run.target_names[key[1]],
        batch=key[0],
        energy_windows=max(row.windows if row else 0, cell.gross.windows if cell else 0),
        utilisation_pct=busy[0],
        utilisation_low=busy[1],
        utilisation_high=busy[2],
        sm_mhz=spread["sm_mhz"][0],
        sm_mhz_least=spread["sm_mhz"][1],
        memory_mhz=spread["memory_mhz"][0],
        power_w=watts.value if watts else None,
        celsius=spread["celsius"][0],
        celsius_most=spread["celsius"][2],
        memory_used_mb=spread["used_mb"][0],
        pcie_from_gpu_mb_s=spread["tx_mb_s"][0],
        pcie_to_gpu_mb_s=spread["rx_mb_s"][0],
        clock_reasons=reasons_words(row) if row else "",
        joules=gross[0],
        joules_low=gross[1],
        joules_high=gross[2],
        joules_net=net[0],
        joules_net_low=net[1],
        joules_net_high=net[2],
        cpu_package_joules=cell.fed.value if cell and cell.fed else None,
        energy_from=cell.source if cell else "",
        label=run.label,
    )


def cards_csv(run: Run) -> str:
    """Return :func:`card_lines` as CSV."""
    return csv_text([field.name for field in fields(CardLine)], (asdict(line).values() for line in card_lines(run)))


def _level(level: Level | None) -> tuple[float | None, float | None, float | None]:
    return (None, None, None) if level is None else (level.value, level.low, level.high)
