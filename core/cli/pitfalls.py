"""The ``pitfalls`` command: one workload timed in misleading ways, beside its step."""

from __future__ import annotations

import click

from core.base.numbers import number, table
from core.base.text import in_lines
from core.cli.files import json_flag
from core.cli.study_command import Asked, measured_part
from core.cli.terminal import show, show_json
from core.studies.pitfalls import PITFALLS, PitfallReport


@click.command("pitfalls")
@click.option("--batch", type=click.IntRange(1, 4096), default=32, show_default=True, help="Batch size.")
@json_flag
def pitfalls_command(batch: int, as_json: bool) -> None:
    """Time 784-128-10 on this machine's CPU in the ways of many published comparisons, beside our figure.

    It takes about half a minute, most of which is TensorFlow starting. Nothing is kept in the history.
    """
    report = measured_part(PITFALLS, Asked(batch), store=False)
    if as_json:
        show_json(report.model_dump(mode="json"))
    else:
        show(pitfalls_text(report))


def pitfalls_text(report: PitfallReport) -> str:
    """Return the printed text: our figures, every way beside them, and why each misleads."""
    ours = f"inference {number(report.infer_step_ms)} ms, training {number(report.train_step_ms)} ms"
    rows = [(figure.title, figure.step_ms, f"{number(figure.ratio)}×") for figure in report.figures]
    return in_lines(
        [
            f"{report.workload} at batch {report.batch:,}: a step takes {ours}, measured",
            "",
            *table(("way of timing", "ms per step", "times our figure"), rows),
            "",
            *(f"{figure.title}: {figure.explanation}" for figure in report.figures),
        ]
    )
