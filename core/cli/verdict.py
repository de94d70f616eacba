"""The ``verdict`` command, on a stored or imported run."""

from __future__ import annotations

from pathlib import Path

import click

from core.cli.files import FILE, BadInput, json_flag, read_file, refusing
from core.cli.terminal import show, show_json
from core.rounds.answer.analyse import analyse
from core.rounds.answer.answer import Answer
from core.rounds.run import Run
from core.rounds.show.export import verdict_data, verdict_text


@click.command()
@click.argument("path", type=FILE)
@json_flag
@click.option("--margin", type=float, help="Margin to be faster by, 0.05 being 5 % (default: the plan's).")
def verdict(path: Path, as_json: bool, margin: float | None) -> None:
    """Say which target is faster, and from which batch size on.

    PATH is a run in JSON, or a CSV file with the columns target, batch, step_ms and, optionally, round.
    """
    run = read_file(path)
    answer = answer_of(run, margin)
    if as_json:
        show_json(verdict_data(run, answer))
    else:
        show(verdict_text(run, answer))


def answer_of(run: Run, margin: float | None = None) -> Answer:
    """Return the analysis of a run. Raises BadInput if there is nothing to analyse."""
    if margin is not None and not 0 < margin <= 1:
        raise BadInput(f"The margin {margin:g} is not possible; accepted is more than 0 and at most 1 (0.05 is 5 %).")
    with refusing():
        return analyse(run, margin)
