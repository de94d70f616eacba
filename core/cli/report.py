"""The ``report`` command: a run as a file for people: HTML, Markdown with a picture, or the picture alone."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Literal

import click

from core.cli.files import FILE, BadInput, check_writable, conclude, read_file, write_out
from core.cli.verdict import answer_of
from core.rounds.answer.answer import Answer
from core.rounds.run import Run

ENDINGS = {".html": "html", ".htm": "html", ".md": "md", ".svg": "svg", ".png": "png"}
Theme = Literal["light", "dark"]
INLINE = "data:image/svg+xml;base64,"


@click.command()
@click.argument("path", type=FILE)
@click.option(
    "--format", "kind", type=click.Choice(["html", "md", "svg", "png"]),
    help="What to write (default: what the ending of --out says, else html).",
)  # fmt: skip
@click.option("--out", type=FILE, help="File to write; Markdown is printed without it.")
@click.option(
    "--picture", type=click.Choice(["svg", "png", "inline", "none"]),
    help="Of Markdown: a picture beside it (default: svg), inside it as a data address, or none.",
)  # fmt: skip
@click.option(
    "--theme", type=click.Choice(["light", "dark"]), help="Of a picture (default: light; of SVG what its reader has)."
)
def report(path: Path, kind: str | None, out: Path | None, picture: str | None, theme: Theme | None) -> None:
    """Write the run in PATH (JSON or CSV) for people: one HTML file that opens offline, Markdown with verdict, table
    and picture for a pull request or a job's summary, or the picture alone.
    """
    kind = kind or (ENDINGS.get(out.suffix.lower(), "html") if out is not None else "html")
    beside = _beside(kind, out, picture)
    for place in (out, beside):
        if place is not None:
            check_writable(place)
    run = read_file(path)
    answer = answer_of(run)
    if kind == "html":
        from core.rounds.show.report import html_report

        conclude(None, None, write_out(out, html_report(run, answer)))
    elif kind == "md":
        _markdown(run, answer, out, beside, picture == "inline", theme)
    else:
        conclude(None, None, write_out(out, _drawn(run, answer, kind, theme)))


def _beside(kind: str, out: Path | None, picture: str | None) -> Path | None:
    """Return the path of a Markdown file's picture. Raises BadInput for flags that exclude each other."""
    if kind != "md":
        if out is None:
            raise BadInput("Say where to write it with --out; only Markdown (--format md) is printed without it.")
        if picture is not None:
            raise BadInput("--picture is for Markdown (--format md) alone.")
        return None
    if picture in ("inline", "none"):
        return None
    if out is None:
        if picture is not None:
            raise BadInput("Markdown that is printed has no file beside it; give --out, or --picture inline.")
        return None
    return out.with_suffix(f".{picture or 'svg'}")


def _markdown(
    run: Run, answer: Answer, out: Path | None, beside: Path | None, inline: bool, theme: Theme | None
) -> None:
    from urllib.parse import quote

    from core.rounds.show.report import markdown_report

    place, unwritten = None, None
    if beside is not None:
        place = quote(beside.name)
        unwritten = write_out(beside, _drawn(run, answer, beside.suffix[1:], theme))
    elif inline:
        drawn = _drawn(run, answer, "svg", theme)
        assert isinstance(drawn, str)
        place = INLINE + base64.b64encode(drawn.encode()).decode()
    text = markdown_report(run, answer, place)
    conclude(text.removesuffix("\n") if out is None else None, None, write_out(out, text), unwritten)


def _drawn(run: Run, answer: Answer, kind: str, theme: Theme | None) -> str | bytes:
    """Return the run's picture as SVG or PNG."""
    from core.figures.png import png
    from core.figures.svg import svg
    from core.rounds.show.report import picture, picture_words

    paper = theme or ("light" if kind == "png" else "both")
    drawn = svg(picture(run, answer), paper, alt=picture_words(run, answer))
    return png(drawn) if kind == "png" else drawn
