"""The sentence of a link about its reach, and the files that a result offers."""

import json

import pytest

from core.rounds.answer.analyse import analyse
from core.rounds.show.report import picture
from core.ui.downloads import run_files, study_files
from core.ui.share import reach
from simulated.runs import make_run
from tests.support.downloads import content
from tests.support.targets import run_of


@pytest.mark.parametrize(
    ("host", "said"),
    [
        ("localhost", "on this computer only"), ("127.0.0.1", "on this computer only"),
        ("::1", "on this computer only"),
        ("192.168.1.20", "inside your own network"), ("10.0.0.7", "inside your own network"),
        ("fe80::1", "inside your own network"), ("bench", "inside your own network"),
        ("gpu.internal", "inside your own network"),
        ("breakeven.example.com", "everybody who can reach breakeven.example.com."), ("8.8.8.8", "can reach 8.8.8.8."),
    ],
)  # fmt: skip
def test_a_link_says_whom_it_reaches(host: str, said: str) -> None:
    assert said in reach(host)


def test_a_run_has_every_file_and_without_a_round_no_picture() -> None:
    files = ["png", "svg", "md", "html", "json", "rounds.csv", "cells.csv"]
    assert [file.ending for file in run_files(make_run())] == files
    assert [file.ending for file in run_files(run_of(3))] == [*files, "gpu.csv"]
    empty = make_run().model_copy(update={"rounds": ()})
    assert [file.ending for file in run_files(empty)] == files[2:]


def test_a_study_s_files_say_what_its_command_says() -> None:
    run = make_run()
    figure = picture(run, analyse(run))
    said = "A `head`\n\nrow | 1\n```\n"
    found = study_files("x1", lambda: {"a": 1}, text=lambda: said, figure=lambda: figure)
    files = {file.ending: file.make() for file in found}
    assert json.loads(files["json"]) == {"a": 1}
    assert files["png"].startswith(b"\x89PNG")
    assert files["svg"].startswith(b"<svg")
    told = files["md"].decode()
    assert told.startswith("### A \\`head\\`\n\n![A \\`head\\`](breakeven-x1.svg)\n\n````text\nrow | 1\n```\n````")
    assert "<h1>A `head`</h1>" in files["html"].decode()
    assert files["html"].count(b"<svg") == 1
    assert [file.ending for file in study_files("x1", dict)] == ["json"]


def test_the_rows_of_a_study_become_a_table() -> None:
    data = {"rows": [{"at": {"depth": 2}, "ms": 0.5, "all": [1, 2]}, {"at": {"depth": 4}, "why": "=1+1"}]}
    (file,) = [file for file in study_files("x1", lambda: data, rows=lambda data: data["rows"]) if file.ending == "csv"]
    assert file.make().decode() == "at_depth,ms,why\n2,0.5,\n4,,'=1+1\n"


def test_markdown_of_a_run_names_the_picture_beside_it() -> None:
    run = make_run()
    assert f"](breakeven-{run.id}.svg)" in content(run, "md").decode()
    assert "](breakeven" not in content(run.model_copy(update={"rounds": ()}), "md").decode()
