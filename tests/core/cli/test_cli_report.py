"""``report``: a run as HTML, Markdown with its picture, SVG or PNG."""

import base64
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from core.rounds.answer.analyse import analyse
from simulated.commands import Command, done, refused
from simulated.runs import make_run

VERDICT = analyse(make_run()).verdict.sentence
PNG = b"\x89PNG"


def test_html_is_what_it_writes_unless_told_otherwise(cli: Command, tmp_path: Path, run_file: Path) -> None:
    for name in ("report.html", "report", "report.txt"):
        out = tmp_path / name
        assert done(cli("report", run_file, "--out", out)) == ("", f"Wrote {out}.\n")
        assert VERDICT in out.read_text()
        assert out.read_text().startswith("<!doctype html>")
    assert "cannot be written" in refused(cli("report", run_file, "--out", tmp_path / "no" / "r.html"))
    assert "cannot be written" in refused(cli("report", run_file, "--out", tmp_path))


@pytest.mark.parametrize(("flags", "ending"), [((), "svg"), (("--picture", "png"), "png")])
def test_markdown_has_its_picture_beside_it(
    cli: Command, tmp_path: Path, run_file: Path, flags: tuple[str, ...], ending: str
) -> None:
    out, beside = tmp_path / "a b.md", tmp_path / f"a b.{ending}"
    _, said = done(cli("report", run_file, "--out", out, *flags))
    assert said == f"Wrote {beside}.\nWrote {out}.\n"
    text = out.read_text()
    assert text.startswith(f"### {VERDICT}\n\nrecorded · 5 ")
    assert f"](a%20b.{ending})\n" in text
    assert beside.read_bytes().startswith(PNG if ending == "png" else b"<svg")


def test_markdown_without_a_file_is_printed_and_may_hold_its_picture(cli: Command, run_file: Path) -> None:
    """Print for ``$GITHUB_STEP_SUMMARY``, which shows no picture of a job's own."""
    out, err = done(cli("report", run_file, "--format", "md"))
    assert (out.splitlines()[0], err) == (f"### {VERDICT}", "")
    assert "![" not in out
    rows = [line for line in out.splitlines() if line.startswith("|")]
    assert len(rows) == 2 + len(make_run().batches)
    assert len({row.count("|") for row in rows}) == 1
    out, _ = done(cli("report", run_file, "--format", "md", "--picture", "inline"))
    found = re.search(r"\]\(data:image/svg\+xml;base64,([^)]+)\)", out)
    assert found is not None
    assert ElementTree.fromstring(base64.b64decode(found[1])).tag.endswith("svg")


def test_a_picture_alone_by_its_ending_light_or_dark(cli: Command, tmp_path: Path, run_file: Path) -> None:
    made = {}
    for name, flags in (("both.svg", ()), ("dark.svg", ("--theme", "dark")), ("light.png", ()),
                        ("dark.png", ("--theme", "dark")), ("named", ("--format", "svg"))):  # fmt: skip
        done(cli("report", run_file, "--out", tmp_path / name, *flags))
        made[name] = (tmp_path / name).read_bytes()
    assert b"prefers-color-scheme" in made["both.svg"]
    assert b"prefers-color-scheme" not in made["dark.svg"]
    assert made["named"] == made["both.svg"]
    assert made["light.png"].startswith(PNG)
    assert made["light.png"] != made["dark.png"]


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ((), "with --out; only Markdown"),
        (("--format", "png"), "with --out; only Markdown"),
        (("--out", "r.html", "--picture", "png"), "--picture is for Markdown"),
        (("--format", "md", "--picture", "svg"), "has no file beside it"),
        (("--format", "pdf"), "'pdf' is not one of"),
    ],
)
def test_flags_that_do_not_go_together_are_refused(
    cli: Command, run_file: Path, flags: tuple[str, ...], said: str
) -> None:
    assert said in refused(cli("report", run_file, *flags))


def test_nothing_is_written_where_the_picture_cannot_be(cli: Command, tmp_path: Path, run_file: Path) -> None:
    (tmp_path / "r.svg").mkdir()
    assert "cannot be written" in refused(cli("report", run_file, "--out", tmp_path / "r.md"))
    assert not (tmp_path / "r.md").exists()
