"""A run in Markdown for a pull request, an issue or a job's summary: verdict, picture, table, notes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from core import __version__
from core.studies.sweep.answer import Answer
from core.studies.sweep.busy import machine_line
from core.studies.sweep.loop import loop_lines
from core.studies.sweep.quantised import output_difference_lines
from core.studies.sweep.ran_as import ran_line
from core.studies.sweep.record import Run
from core.studies.sweep.report_parts import (
    answer_table,
    conclusions,
    notes,
    origin,
    picture_words,
    sentence,
)
from core.text import in_markdown


def markdown_report(run: Run, answer: Answer | None, picture: str | None = None) -> str:
    """Return the text. ``picture`` is the path or address of the picture."""
    said = in_markdown
    parts = [f"### {said(sentence(answer))}", said(f"{run.label} · {origin(run)}")]
    if answer is not None:
        parts += [f"**{said(line)}**" for line in machine_line(answer.verdict.machine)]
        found = answer_table(run, answer)
        parts += [" ".join(map(said, conclusions(run, answer)))]
        parts += [f"![{said(picture_words(run, answer))}]({picture})"] if picture else []
        parts += [f"{said(found.title)}. In brackets: 95 % intervals.", table(found.columns, found.rows)]
    parts += [_folded(run, answer), f"<sub>{said(run.name)} ({run.id}), written by Breakeven {__version__}</sub>"]
    return "\n\n".join(filter(None, parts)) + "\n"


def _folded(run: Run, answer: Answer | None) -> str:
    """Return notes and the targets' actual settings as a collapsed section."""
    found = [*notes(run, answer), *ran_line(run), *output_difference_lines(run), *loop_lines(run, answer)]
    lines = "\n".join(f"- {in_markdown(note)}" for note in found)
    title = "1 note" if len(found) == 1 else f"{len(found)} notes"
    return f"<details><summary>{title}</summary>\n\n{lines}\n\n</details>" if found else ""


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table of texts; all but the first column are right-aligned."""

    def line(cells: Iterable[str]) -> str:
        return f"| {' | '.join(cells)} |"

    rule = line("---" if i == 0 else "---:" for i in range(len(columns)))
    return "\n".join([line(map(in_markdown, columns)), rule, *(line(map(in_markdown, row)) for row in rows)])
