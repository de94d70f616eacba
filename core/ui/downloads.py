"""Downloads of a result. Each file is made only when its button is pressed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import plotly.graph_objects as go
import streamlit as st

from core.base.text import json_text, sentence_case
from core.figures.png import png
from core.figures.style import with_title
from core.figures.svg import svg
from core.rounds.answer.answer import Answer
from core.rounds.run import Run
from core.rounds.show.export import cards_csv, cells_csv, csv_text, rounds_csv, run_json
from core.rounds.show.report import html_report, markdown_report, picture, sentence
from core.studies.text_report import html, markdown
from core.ui import registry

Figure = Callable[[], go.Figure]
Rows = Callable[[Mapping[str, Any]], Iterable[Mapping[str, Any]]]
"""Returns the rows of a study's data that form a table."""
EVERY_BLOCK = "What the study says and every block that was measured."
TABLE = "The numbers for a spreadsheet, with their intervals."
SLIDE = "The picture for a slide or a document."
SHARP = "The same without pixels; it follows a reader's light or dark."
FOR_REVIEW = "Verdict, table and notes for a pull request or an issue; save the SVG picture beside it."
REPORT = "One file with charts that opens offline, runs nothing and sends nothing."


@dataclass(frozen=True)
class File:
    """A file to download; ``ending`` is its extension, ``make`` returns its bytes."""

    label: str
    ending: str
    mime: str
    meaning: str
    make: Callable[[], bytes]


def draw(name: str, files: Iterable[File]) -> None:
    """Draw one button per file, each named ``breakeven-NAME.ENDING``, or ``breakeven-NAME-cells.csv``."""
    for file in files:
        before = "-" if "." in file.ending else "."
        st.download_button(
            file.label, data=file.make, file_name=f"breakeven-{name}{before}{file.ending}", mime=file.mime,
            help=file.meaning, icon=":material/download:", on_click="ignore", key=f"download-{name}-{file.ending}",
        )  # fmt: skip


def run_files(run: Run, figure: Figure | None = None, verdict: Callable[[], str] | None = None) -> list[File]:
    """Return pictures, Markdown and report of a run, all of it as JSON, and its rounds and cells as CSV.

    ``figure`` replaces the run's main picture, and ``verdict`` its title, where a page shows something else.
    """
    watched = bool(run.energy) or any(target.startswith("gpu") for target in run.target_names)
    files = [
        *((ending, *TEXTS[ending]) for ending in TEXTS if watched or ending != "gpu.csv"),
    ]
    pictures = _pictures(figure or partial(_picture, run), verdict or partial(verdict_of, run)) if run.rounds else []
    return pictures + [
        File(label, ending, mime, meaning, partial(_made, make, run)) for ending, label, mime, meaning, make in files
    ]


def study_files(
    name: str,
    data: Callable[[], Mapping[str, Any]],
    *,
    text: Callable[[], str] | None = None,
    figure: Figure | None = None,
    rows: Rows | None = None,
    meaning: str = EVERY_BLOCK,
) -> list[File]:
    """Return the files of a study.

    They are its ``figure`` as pictures, its command's ``text`` as Markdown and report, its ``data`` as JSON, and the
    table's ``rows`` as CSV.
    """
    files = []
    if figure is not None:
        files += _pictures(figure, lambda: "" if text is None else text().partition("\n")[0])
    if text is not None:
        beside = f"breakeven-{name}.svg" if figure is not None else None
        files += [
            File("Markdown", "md", "text/markdown", FOR_REVIEW, lambda: markdown(text(), beside).encode()),
            File("Report (HTML)", "html", "text/html", REPORT, lambda: html(text(), figure and figure()).encode()),
        ]
    files.append(File("JSON", "json", "application/json", meaning, lambda: json_bytes(data)))
    if rows is not None:
        files.append(File("CSV", "csv", "text/csv", TABLE, lambda: csv_bytes(rows(data()))))
    return files


def _pictures(figure: Figure, verdict: Callable[[], str]) -> list[File]:
    """Return a figure as PNG and SVG, with the verdict as its title."""

    def titled() -> go.Figure:
        sentence = verdict()
        return with_title(figure(), sentence) if sentence else figure()

    return [
        File("PNG", "png", "image/png", SLIDE, lambda: png(svg(titled(), "light"))),
        File("SVG", "svg", "image/svg+xml", SHARP, lambda: svg(titled()).encode()),
    ]


def csv_bytes(rows: Iterable[Mapping[str, Any]]) -> bytes:
    """Return one line per row; nested fields are prefixed with their parent's name, and lists are left to the JSON."""
    flat = [dict(_flat(row)) for row in rows]
    columns = tuple(dict.fromkeys(name for row in flat for name in row))
    return csv_text(columns, ([row.get(name) for name in columns] for row in flat)).encode()


def _flat(row: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in row.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{before}{name}_")
        elif not isinstance(value, list | tuple):
            yield f"{before}{name}", value


def json_bytes(make: Callable[[], Mapping[str, Any]]) -> bytes:
    """Return the file as the commands' ``--out`` writes it."""
    return json_text(make()).encode() + b"\n"


Make = Callable[[Run, Answer | None], str | bytes]


def _made(make: Make, run: Run) -> bytes:
    made = make(run, registry.answer_of(run))
    return made.encode() if isinstance(made, str) else made


def _picture(run: Run) -> go.Figure:
    answer = registry.answer_of(run)
    assert answer is not None
    return picture(run, answer)


def verdict_of(run: Run) -> str:
    """Return a run's verdict, after its status if it did not finish."""
    ended = "" if run.status == "finished" else f"{sentence_case(run.status)}. "
    return f"{ended}{sentence(registry.answer_of(run))}"


def _markdown(run: Run, answer: Answer | None) -> str:
    return markdown_report(run, answer, f"breakeven-{run.id}.svg" if answer is not None else None)


TEXTS: dict[str, tuple[str, str, str, Make]] = {
    "md": ("Markdown", "text/markdown", FOR_REVIEW, _markdown),
    "html": ("Report (HTML)", "text/html", REPORT, html_report),
    "json": ("JSON", "application/json", "Everything, to be imported elsewhere.", lambda run, _: run_json(run)),
    "rounds.csv": ("Rounds (CSV)", "text/csv", "Every block of every round.", lambda run, _: rounds_csv(run)),
    "cells.csv": ("Step times (CSV)", "text/csv", "The statistics of each target at each batch size.", cells_csv),
    "gpu.csv": ("GPU and energy (CSV)", "text/csv", "What the GPU did at each batch, and joules per sample.",
                lambda run, _: cards_csv(run)),
}  # fmt: skip
"""Label, media type, meaning and maker by file ending."""
