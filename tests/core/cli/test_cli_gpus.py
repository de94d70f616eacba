"""The gpus command: its table, its JSON with sources, and cards that a user adds."""

import json

import pytest

from core.hardware.catalogue import catalogue
from simulated.commands import as_json, done, holds, refused

CARD = {"name": "Ours", "fp32_tflops": 20, "memory_gb": 16, "bandwidth_gb_s": 500, "link": "PCIe 4.0 x16"}


@pytest.fixture
def own_file(tmp_path):
    path = tmp_path / "mine.json"
    path.write_text(json.dumps({"gpus": [CARD]}), encoding="utf-8")
    return path


def test_the_table_names_every_card_and_marks_what_is_assumed(cli):
    out, _ = done(cli("gpus"))
    lines = out.splitlines()
    assert lines[0].split()[:2] == ["name", "architecture"]
    rows = {line.split()[0]: line for line in lines[1:] if line}
    assert set(catalogue()) <= set(rows)
    assert "156" in rows["A100-80GB-SXM"]
    assert " 2.7 " in rows["A100-80GB-SXM"]
    assert " ~2.2 " in rows["T4"]
    assert "0.59 USD (2026-05-07)" in rows["T4"]
    holds(out, "without sparsity", "~ are assumed")


def test_json_holds_every_field_and_its_source(cli):
    data = as_json(cli("gpus", "--json"))
    cards = {card["name"]: card for card in data["gpus"]}
    assert list(cards) == list(catalogue())
    a100 = cards["A100-80GB-SXM"]
    assert (a100["tf32_tflops"], a100["half_tflops"]) == (156, 312)
    assert "datasheet" in a100["sources"]["half_tflops"]
    assert a100["price"]["dated"] == "2026-05-07"
    assert data["checked"]


def test_a_card_is_added_once_and_kept(cli, own_file):
    status, out, _ = cli("gpus", "--add", own_file)
    assert (status, "Ours (yours)" in out) == (0, True)
    cards = {card["name"]: card for card in json.loads(cli("gpus", "--json")[1])["gpus"]}
    assert cards["Ours"]["own"] is True
    assert cards["Ours"]["sources"]["fp32_tflops"] == "yours"


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [({"name": "H200"}, "already a name of H200"), ({"link": "rope"}, "link_gb_s"), ({"memory_gb": 0}, "memory_gb")],
)
def test_a_card_that_cannot_be_used_is_refused_and_nothing_is_kept(cli, own_file, fields, sentence):
    own_file.write_text(json.dumps({"gpus": [CARD | fields]}), encoding="utf-8")
    assert sentence in refused(cli("gpus", "--add", own_file))
    assert "yours)" not in cli("gpus")[1]


def test_a_missing_file_is_bad_input(cli, tmp_path):
    assert "cannot be read" in refused(cli("gpus", "--add", tmp_path / "nowhere.json"))


def test_prices_are_in_the_one_unit_that_was_chosen(cli, monkeypatch):
    assert "0.53 EUR (2026-05-07)" in cli("gpus", "--currency", "EUR=0.9")[1]
    monkeypatch.setenv("BREAKEVEN_CURRENCY", "EUR=0.5")
    assert "0.30 EUR (2026-05-07)" in cli("gpus")[1]
    prices = [card["price"] for card in json.loads(cli("gpus", "--json")[1])["gpus"] if card["price"]]
    assert {price["currency"] for price in prices} == {"EUR"}
    assert "0.59 USD (2026-05-07)" in cli("gpus", "--currency", "EUR")[1]  # without a rate the list price stays
    monkeypatch.setenv("BREAKEVEN_CURRENCY", "euro")
    assert refused(cli("gpus")).startswith("BREAKEVEN_CURRENCY: ")
