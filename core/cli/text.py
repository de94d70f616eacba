"""What commands print for people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from core.analysis.answer import Answer
from core.export import all_warnings, cell_rows, placement_lines, short_number
from core.results import Run


def verdict_text(run: Run, answer: Answer) -> str:
    """Verdict first, then the table of cells, the reason and the warnings."""
    columns = ("target", "batch", "rounds", "step ms", "95 % from", "to", "samples/s", "outcome")
    rows = [
        (row.target, row.batch, row.rounds, row.step_ms, row.low_ms, row.high_ms, row.samples_per_s, row.outcome)
        for row in cell_rows(run, answer)
    ]
    lines = [answer.verdict.sentence, "", *table(columns, rows), ""]
    lines.append(f"All times are {run.label}: {run.name}, {run.status}, {run.created_at}")
    lines += placement_lines(run)
    lines.append(f"Reason: {answer.verdict.reason}")
    if answer.verdict.next_batch is not None:
        lines.append(f"Next batch size worth measuring: {answer.verdict.next_batch:,}")
    lines += [f"Warning ({warning.code}): {warning.text}" for warning in all_warnings(run, answer)]
    return "\n".join(lines)


def table(columns: Sequence[str], rows: Iterable[Sequence[str | float | None]]) -> list[str]:
    """Lines of a table; text stands to the left, numbers to the right."""
    lines = [list(row) for row in rows]
    texts = [[value if isinstance(value, str) else short_number(value) for value in line] for line in lines]
    widths = [max(len(line[i]) for line in (list(columns), *texts)) for i in range(len(columns))]
    left = [any(isinstance(line[i], str) for line in lines) for i in range(len(columns))]
    return [
        "  ".join(
            text.ljust(width) if to_left else text.rjust(width)
            for text, width, to_left in zip(line, widths, left, strict=True)
        ).rstrip()
        for line in (list(columns), *texts)
    ]


def size(count: int) -> str:
    """Bytes in MB or GB."""
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.1f} MB"
