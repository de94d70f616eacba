"""The gpus command: its table, its JSON with sources, and cards that a person adds."""

from __future__ import annotations

import json

import click
import pytest
from click.testing import CliRunner

from core.cli.gpus import gpus_command
from core.hardware.catalogue import catalogue

CARD = {"name": "Ours", "fp32_tflops": 20, "memory_gb": 16, "bandwidth_gb_s": 500, "link": "PCIe 4.0 x16"}


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Run the command alone: exit status and what it printed (the sentence of a refusal where it refused)."""
    monkeypatch.setenv("BREAKEVEN_DATA_DIR", str(tmp_path / "data"))

    def call(*arguments: object) -> tuple[int, str]:
        result = CliRunner().invoke(gpus_command, [str(argument) for argument in arguments], standalone_mode=False)
        if isinstance(result.exception, click.ClickException):
            return result.exception.exit_code, result.exception.format_message()
        assert result.exception is None
        return 0, result.stdout

    return call


@pytest.fixture
def own_file(tmp_path):
    path = tmp_path / "mine.json"
    path.write_text(json.dumps({"gpus": [CARD]}), encoding="utf-8")
    return path


def test_the_table_names_every_card_and_marks_what_is_assumed(run):
    status, out = run()
    assert status == 0
    lines = out.splitlines()
    assert lines[0].split()[:2] == ["name", "architecture"]
    rows = {line.split()[0]: line for line in lines[1:] if line}
    assert set(catalogue()) <= set(rows)
    assert "156" in rows["A100-80GB-SXM"]
    assert " 2.7 " in rows["A100-80GB-SXM"]
    assert " ~2.2 " in rows["T4"]
    assert "0.59 USD (2026-05-07)" in rows["T4"]
    assert "without sparsity" in out
    assert "~ are assumed" in out


def test_json_holds_every_field_and_its_source(run):
    status, out = run("--json")
    data = json.loads(out)
    assert status == 0
    cards = {card["name"]: card for card in data["gpus"]}
    assert list(cards) == list(catalogue())
    a100 = cards["A100-80GB-SXM"]
    assert (a100["tf32_tflops"], a100["half_tflops"]) == (156, 312)
    assert "datasheet" in a100["sources"]["half_tflops"]
    assert a100["price"]["dated"] == "2026-05-07"
    assert data["checked"]


def test_a_card_is_added_once_and_kept(run, own_file):
    status, out = run("--add", own_file)
    assert (status, "Ours (yours)" in out) == (0, True)
    cards = {card["name"]: card for card in json.loads(run("--json")[1])["gpus"]}
    assert cards["Ours"]["own"] is True
    assert cards["Ours"]["sources"]["fp32_tflops"] == "yours"


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [({"name": "H200"}, "already a name of H200"), ({"link": "rope"}, "link_gb_s"), ({"memory_gb": 0}, "memory_gb")],
)
def test_a_card_that_cannot_be_used_is_refused_and_nothing_is_kept(run, own_file, fields, sentence):
    own_file.write_text(json.dumps({"gpus": [CARD | fields]}), encoding="utf-8")
    status, said = run("--add", own_file)
    assert status == 2
    assert sentence in said
    assert "yours)" not in run()[1]


def test_a_missing_file_is_bad_input(run, tmp_path):
    status, said = run("--add", tmp_path / "nowhere.json")
    assert (status, "cannot be read" in said) == (2, True)
