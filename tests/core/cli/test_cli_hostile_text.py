"""Hostile text in every field of every record: in terminals, files, reports, charts and tables of numbers.

The pages are in tests/pages/test_hostile_pages.py.
"""

from __future__ import annotations

import csv
import io
import json
import re
from html.parser import HTMLParser
from typing import Any

import pytest

from core.base.schema import UserError
from core.cli.batch import batch_text
from core.cli.terminal import show, show_json
from core.cli.trace import trace_data, trace_text
from core.figures.style import literal
from core.rounds.answer.analyse import analyse
from core.rounds.run import Run
from core.rounds.show.export import cells_csv, rounds_csv, run_json
from core.rounds.show.imports import read_run
from core.rounds.show.report import html_report, markdown_report
from core.studies.batch.answer import batch_answer
from core.studies.batch.export import batch_data
from core.studies.kind import Context
from core.studies.registry import kinds
from core.traces.record import TraceReport
from simulated.commands import Command, refused
from tests.support.hostile import ACTING, FORGED, HOSTILE, MARKUP, SHORT
from tests.support.hostile_records import KEYS, hostile_records, hostile_run, mark, plain_records, text_fields, texts_of

REFUSED = {
    "Run.id", "Target.device", "FrontierPlan.family", "FrontierPlan.sizes", "MachinePrice.currency",
    "MachinePrice.dated", "FleetPlan.each", "Readings.missing", "CardPrice.currency", "CardPrice.dated", "GpuSpec.name",
    "GpuSpec.aliases",
}  # fmt: skip
"""Fields that accept only names of this program, a unit or a day, and the values used instead."""
ACTING_IN_LINES = set(ACTING) - {"\n"}


def imported() -> Run:
    """Return a run with texts as long as a file's may be."""
    run = hostile_run()
    return run.model_copy(update={"warnings": tuple(w.model_copy(update={"code": SHORT}) for w in run.warnings)})


def test_every_field_for_text_was_filled_or_refuses_it() -> None:
    """Check the coverage of fields, on which every other test here rests."""
    _, everything = hostile_records(keys=True)
    records, filler = hostile_records()
    assert text_fields() == set(everything.filled) | set(everything.refused)
    assert set(everything.refused) == REFUSED
    assert set(filler.filled) == text_fields() - REFUSED - KEYS
    assert len(filler.filled) >= 40
    assert set(records) == set(kinds())
    for record in records.values():
        assert any(FORGED in text for text in texts_of(record.model_dump(mode="json")))


def printed(capfd: pytest.CaptureFixture[str]) -> str:
    """Return the terminal's text, after checking that nothing in it acts and nothing is forged."""
    out, err = capfd.readouterr()
    assert not set(out + err) & ACTING_IN_LINES
    assert not [line for line in (out + err).splitlines() if line.lstrip().startswith(FORGED)]
    return out + err


@pytest.mark.parametrize("keys", [False, True], ids=["texts", "keys too"])
@pytest.mark.parametrize("name", kinds())
def test_a_command_prints_it_as_text(name: str, keys: bool, capfd: pytest.CaptureFixture[str]) -> None:
    records, filler = hostile_records(keys)
    kind, record, context = kinds()[name], records[name], Context(run=records["sweep"])
    try:
        answer = kind.answer(record, context)
        text, data = kind.text(record, answer, context), kind.export(record, answer, context)
    except UserError as error:
        if not keys:  # such a key may hide a part
            raise
        text, data = str(error), record.model_dump(mode="json")
    show(text)
    said = printed(capfd)
    if not keys:
        assert any(mark(field) in said for field in filler.filled)
    show_json(data)
    assert json.loads(printed(capfd)) == json.loads(json.dumps(data))


def test_traces_and_batches_are_printed_as_text(capfd: pytest.CaptureFixture[str]) -> None:
    run = hostile_run()
    traced = run.traces[0]
    report = TraceReport(devices=(traced.device,), host_ops=traced.host_ops, retraces=2, notes=(HOSTILE,))
    show(trace_text(report, HOSTILE))
    assert printed(capfd).count("=1+1 ?[31mred") >= 4  # file, kernels, operations, note
    show_json(trace_data(HOSTILE, report))
    printed(capfd)
    noise = hostile_records()[0]["noise"]
    answer = batch_answer(run, analyse(run), noise, {}, (), None)
    show(batch_text(run, answer, noise))
    assert mark("Run.name") in printed(capfd)
    show_json(batch_data(run, answer, noise))
    printed(capfd)


def test_commands_over_a_file_print_it_as_text(cli: Command, tmp_path: Any) -> None:
    path = tmp_path / "run.json"
    path.write_text(run_json(imported()), encoding="utf-8")
    for arguments in (("verdict", path), ("verdict", path, "--json"), ("batch", path), ("batch", path, "--json"),
                      ("predict", "--gpu", "L4", "--against", path)):  # fmt: skip
        status, out, err = cli(*arguments)
        assert status == 0, err
        assert not set(out + err) & ACTING_IN_LINES
        assert FORGED in out or arguments[0] == "predict"


def test_a_card_of_ones_own_is_printed_as_text(cli: Command, tmp_path: Any) -> None:
    path, price = (
        tmp_path / "cards.json",
        {"per_hour": 1.0, "currency": "EUR", "dated": "2026-11-01", "source": HOSTILE},
    )
    card = {"name": "Ours", "title": HOSTILE, "link": SHORT, "fp32_tflops": 20, "memory_gb": 16, "bandwidth_gb_s": 500}
    path.write_text(json.dumps({"gpus": [card | {"link_gb_s": 16, "price": price}]}), encoding="utf-8")
    for arguments in (("gpus", "--add", path), ("gpus", "--json"), ("predict", "--gpu", "Ours")):
        status, out, err = cli(*arguments)
        assert (status, FORGED in out) == (0, True), err
        assert not set(out + err) & ACTING_IN_LINES
        assert not [line for line in out.splitlines() if line.lstrip().startswith(FORGED)]
    path.write_text(json.dumps({"gpus": [card | {"name": HOSTILE}]}), encoding="utf-8")
    assert refused(cli("gpus", "--add", path)).removesuffix("\n").isprintable()


@pytest.mark.parametrize("field", ["id", "device", "label"])
def test_a_field_that_takes_no_such_text_is_refused_in_one_line(cli: Command, tmp_path: Any, field: str) -> None:
    data = json.loads(run_json(plain_records()["sweep"]))
    if field == "device":
        data["plan"]["targets"][0]["device"] = HOSTILE
    else:
        data[field] = HOSTILE
    data[HOSTILE] = 1
    for each in (data, {HOSTILE: HOSTILE}):
        path = tmp_path / "run.json"
        path.write_text(json.dumps(each), encoding="utf-8")
        assert refused(cli("verdict", path)).removesuffix("\n").isprintable()


def test_a_stored_file_gives_back_the_text_as_it_was() -> None:
    run = imported()
    again = read_run(run_json(run).encode(), "run.json")
    assert (again.name, again.warnings, again.cells) == (run.name, run.warnings, run.cells)
    assert not set(run_json(hostile_run())) & ACTING_IN_LINES


WRAPPED = ("li", "tr", "td", "th", "text")
"""Tags that occur more often with longer texts."""


class Tags(HTMLParser):
    """The tags of a page with the names of their attributes."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, tuple[str, ...]]] = []
        self.words: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, tuple(name for name, _ in attrs)))

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def test_a_report_shows_it_as_text() -> None:
    plain = plain_records()["sweep"]
    ours, theirs = (Tags(html_report(run, analyse(run))) for run in (plain, hostile_run()))
    kept = [tag for tag in theirs.found if tag[0] not in WRAPPED]
    assert kept == [tag for tag in ours.found if tag[0] not in WRAPPED]
    assert {tag for tag, _ in theirs.found} == {tag for tag, _ in ours.found}
    words = "".join(theirs.words)
    for field in ("Run.name", "Run.target_names", "Warning.text", "Cell.reason", "Environment.cpu", "Gpu.name"):
        assert mark(field) in words, field
    assert not set(html_report(hostile_run(), None)) & ACTING_IN_LINES


def test_markdown_shows_it_as_text() -> None:
    run = hostile_run()
    for answer in (analyse(run), None):
        text = markdown_report(run, answer, "picture.svg")
        assert not set(text) & ACTING_IN_LINES
        assert not [line for line in text.splitlines() if line.lstrip().startswith(FORGED)]
        assert not [markup for markup in MARKUP if markup in text and not markup.startswith(":")]
        assert set(re.findall(r"(?<!\\)<[^>]*>", text)) <= {
            "<details>", "<summary>", "</summary>", "</details>", "<sub>", "</sub>",
        }  # fmt: skip
        assert not re.search(r"https?://|www\.", text)
        assert len(re.findall(r"(?<!\\)\]\(", text)) == (answer is not None)


@pytest.mark.parametrize("make", [rounds_csv, lambda run: cells_csv(run, analyse(run))], ids=["rounds", "cells"])
def test_no_cell_of_a_csv_file_is_a_formula(make: Any) -> None:
    cells = [cell for line in csv.reader(io.StringIO(make(hostile_run()))) for cell in line]
    assert any(mark("Run.target_names") in cell for cell in cells)
    texts = [cell for cell in cells if cell and not re.fullmatch(r"-?[\d.e-]+", cell)]
    assert not [cell for cell in texts if cell[0] in "=+-@\t\r\n＝＋－＠"]


def test_text_in_a_chart_is_no_tag_entity_or_value() -> None:
    assert literal("<b>x</b> &lt; %{y}\n") == "&lt;b&gt;x&lt;/b&gt; &amp;lt; &#37;{y} "
    assert not [markup for markup in MARKUP if "<" in markup and markup in literal(HOSTILE)]


@pytest.mark.parametrize("flag", ["--epoch-samples", "--price", "--" + "y" * 5000])
def test_a_refusal_quotes_no_more_than_the_ends_of_what_was_given(cli: Command, tmp_path: Any, flag: str) -> None:
    path = tmp_path / "run.json"
    path.write_text(run_json(plain_records()["sweep"]), encoding="utf-8")
    assert 10 < len(refused(cli("batch", path, flag, "x" * 5000))) < 1100
