"""``verdict`` and ``report``: what a stored or imported run says."""

from __future__ import annotations

import json
from pathlib import Path

import click

from core.analysis.analyse import analyse
from core.analysis.answer import Answer
from core.cli.files import BadInput, check_writable, read_file, write_file
from core.cli.text import verdict_text
from core.export import verdict_data
from core.results import Run


@click.command()
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--margin", type=float, help="Lead to ask for, 0.05 being 5 % (default: the plan's).")
def verdict(path: Path, as_json: bool, margin: float | None) -> None:
    """Say which target is faster, and from which batch size on.

    PATH is a run in JSON, or a CSV file with the columns target, batch, step_ms and, optionally, round.
    """
    run = read_file(path)
    answer = answer_of(run, margin)
    if as_json:
        click.echo(json.dumps(verdict_data(answer.verdict), ensure_ascii=False, allow_nan=False, indent=2))
    else:
        click.echo(verdict_text(run, answer))


@click.command()
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), required=True, help="HTML file to write.")
def report(path: Path, out: Path) -> None:
    """Write a self-contained HTML report of the run in PATH (JSON or CSV)."""
    check_writable(out)
    run = read_file(path)
    answer = answer_of(run)
    from core.report import html_report  # the only command that draws

    write_file(out, html_report(run, answer))
    click.echo(f"Wrote {out}.", err=True)


def answer_of(run: Run, margin: float | None = None) -> Answer:
    """The analysis of a run. Raises BadInput when there is nothing to analyse."""
    if margin is not None and not 0 < margin <= 1:
        raise BadInput(f"The margin {margin:g} is not possible; accepted is more than 0 and at most 1 (0.05 is 5 %).")
    try:
        return analyse(run, margin)
    except ValueError as error:
        raise BadInput(str(error)) from None
