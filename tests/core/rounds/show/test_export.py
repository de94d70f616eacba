"""Exports state what they are, read back unchanged, and carry nothing that runs."""

import csv
import io
import json
import re

import pytest

from core.base.evidence import Interference, Setup
from core.rounds.answer.analyse import analyse
from core.rounds.run import Run
from core.rounds.show.export import cell_rows, cells_csv, placement_lines, rounds_csv, verdict_data
from core.rounds.show.imports import read_run
from core.rounds.show.report import html_report
from core.studies.diagnosis.answer import diagnose
from core.studies.diagnosis.export import diagnosis_data
from core.studies.diagnosis.record import Diagnosis
from simulated.diagnoses import HELPING, make_diagnosis
from simulated.runs import make_run
from tests.support.energies import with_energy
from tests.support.traced import cpu_cell, with_traces

HOSTILE = '=HYPERLINK("http://x","y")<script>alert(1)</script>'


def read(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


@pytest.mark.parametrize(
    "run",
    [
        make_run(),
        make_run(with_failures=True, noise=0.1),
        make_run(floors_ms=(0.8, 0.3)),
        make_run(slopes_ms=(0.01, 0.02), floors_ms=(0.8, 0.3), seed=4),
    ],
    ids=["crossover", "failures", "ahead", "other way round"],
)
def test_rounds_as_csv_give_the_same_verdict(run: Run) -> None:
    """Compare without the neighbours' activity, which CSV does not carry."""
    rounds = tuple(item.model_copy(update={"interference": Interference()}) for item in run.rounds)
    run = run.model_copy(update={"rounds": rounds})
    again = read_run(rounds_csv(run).encode(), "rounds.csv")
    assert [(r.index, r.batch, r.pass_index, r.blocks) for r in again.rounds] == [
        (r.index, r.batch, r.pass_index, r.blocks) for r in run.rounds
    ]
    before, after = analyse(run), analyse(again)
    assert after.cells == before.cells
    for name in ("kind", "targets", "ahead", "crossovers", "lead", "reason"):
        assert getattr(after.verdict, name) == getattr(before.verdict, name)


def test_the_first_target_stays_first_though_another_ran_first() -> None:
    run = make_run()
    only_second = run.rounds[0].model_copy(update={"blocks": run.rounds[0].blocks[1:]})
    run = run.model_copy(update={"rounds": (only_second, *run.rounds[1:])})
    assert read_run(rounds_csv(run).encode(), "x.csv").target_names == run.target_names


@pytest.mark.parametrize("label", ["measured", "recorded", "modelled"])
def test_every_line_carries_the_label(label: str) -> None:
    run = make_run(label=label)
    answer = analyse(run)
    for text in (rounds_csv(run), cells_csv(run, answer)):
        assert {line["label"] for line in read(text)} == {label}
    assert f"Charts ({label})" in html_report(run, answer)


def test_cells_hold_statistics_and_outcomes() -> None:
    run = make_run(with_failures=True)
    answer = analyse(run)
    lines = read(cells_csv(run, answer))
    assert len(lines) == len(run.cells) == 22
    first = answer.cells[0]
    assert lines[0]["target"] == run.target_names[0]
    assert float(lines[0]["step_ms"]) == first.step_ms
    assert float(lines[0]["samples_per_s"]) == pytest.approx(1000 * first.batch / first.step_ms)
    assert float(lines[0]["overhead_share_fitted"]) > 0.8
    failed = [line for line in lines if line["outcome"] == "out_of_memory"]
    assert [(line["batch"], line["step_ms"], line["rounds"]) for line in failed] == [("512", "", "0")]


def test_cells_without_an_answer_are_still_listed() -> None:
    run = make_run().model_copy(update={"rounds": ()})
    rows = cell_rows(run, None)
    assert len(rows) == 22
    assert {row.step_ms for row in rows} == {None}
    assert "Nothing was measured" in html_report(run, None)


@pytest.mark.parametrize("start", ["=1+1", "+1", "-1", "@x", "\t=1", " =1", "'=1"])
def test_no_cell_of_a_csv_is_a_formula(start: str) -> None:
    run = make_run(batches=(1, 2)).model_copy(update={"target_names": (start, "b")})
    for text in (rounds_csv(run), cells_csv(run, analyse(run))):
        targets = {line["target"] for line in read(text)}
        assert targets == {f"'{start}", "b"}


def test_an_escaped_name_comes_back() -> None:
    run = make_run(batches=(1, 2)).model_copy(update={"target_names": ("=a", "b")})
    assert read_run(rounds_csv(run).encode(), "x.csv").target_names == ("=a", "b")


def test_verdict_data_has_the_promised_keys() -> None:
    data = verdict_data(make_run(), analyse(make_run()))
    assert list(data) == [
        "verdict", "targets", "ahead", "crossovers", "lead", "reason", "claims", "machine", "warnings", "next_batch",
        "ran_as",
    ]  # fmt: skip
    assert set(data["crossovers"][0]) == {"batch", "low", "high", "ahead_after"}
    assert set(data["lead"]) == {"target", "margin", "from_batch", "low", "high"}


def test_the_report_puts_the_verdict_first_and_everything_in() -> None:
    run = make_run(with_failures=True)
    answer = analyse(run)
    page = html_report(run, answer)
    visible = re.sub(r"(?s)<style.*?</style>", "", page)
    order = (answer.verdict.sentence, "Charts (recorded)", "Every step time (recorded)", "How it was measured")
    places = [visible.index(words) for words in (*order, "Machine")]
    assert places == sorted(places)
    for words in ("Example CPU at 2.4 GHz", "made from a seed", "out of memory", "784-128-10", run.id):
        assert words in visible
    assert page.count("<svg ") == 4


def test_the_report_can_reach_nothing() -> None:
    page = html_report(make_run(), analyse(make_run()))
    assert not re.search(r"\b(src|href)\s*=|@import|<script|<link|<iframe|<form|url\((?!#)", page)
    assert "default-src 'none'" in page
    assert not re.search(r"(connect|script)-src", page)


def test_the_report_escapes_what_people_wrote() -> None:
    run = make_run(batches=(1, 2, 4))
    run = run.model_copy(
        update={
            "name": HOSTILE,
            "target_names": (HOSTILE, "b"),
            "warnings": (run.warnings[0].model_copy(update={"text": HOSTILE}),),
            "cells": tuple(cell.model_copy(update={"reason": HOSTILE}) for cell in run.cells),
            "environment": run.environment.model_copy(update={"cpu": HOSTILE, "versions": {HOSTILE: HOSTILE}}),
        }
    )
    page = html_report(run, analyse(run))
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page


def test_a_diagnosis_is_strict_json_from_which_everything_follows() -> None:
    """Check one start of three rounds: its bounds are unknown, and must not become NaN or Infinity."""
    run = make_run()
    diagnosis = make_diagnosis(run, HELPING, processes=1, rounds=3, failed={"xla": "No."}, reruns={"steps-8": run})
    told = diagnose(run, diagnosis)
    text = json.dumps(diagnosis_data(diagnosis, told), allow_nan=False)
    data = json.loads(text)
    assert Diagnosis.model_validate(data["record"]) == diagnosis
    assert (data["verdict"], data["reason"], data["label"]) == (told.sentence, told.reason, "recorded")
    assert (data["target"], data["batch"]) == (1, diagnosis.batch)
    steps = next(f for f in data["findings"] if f["family"] == "steps")
    assert steps["gain"] is not None
    assert (steps["low"], steps["high"], steps["judgement"]) == (None, None, "unclear")
    assert [r["code"] for r in data["readings"]] == [r.code for r in told.readings]
    assert data["warnings"] == [w.model_dump() for w in told.warnings]


def test_the_report_shows_where_traced_steps_go() -> None:
    """Check for one chart per target with traces, with their label; none without."""
    run = make_run(label="recorded")
    assert 'id="traced-' not in html_report(run, analyse(run))
    traced = with_traces(run, cpu_cell(8, target=1), cpu_cell(64, target=1))
    page = html_report(traced, analyse(traced))
    assert 'id="traced-2"' in page
    assert 'id="traced-1"' not in page
    assert "under the profiler" in page


def test_the_report_shows_what_the_gpu_was_doing_and_its_energy() -> None:
    run = with_energy(label="recorded")
    page = html_report(run, analyse(run))
    for words in ("What the GPU was doing (recorded)", "GPU 0 was busy 14 % of the time at batch 1 and 96 %",
                  "needs less energy per sample than CPU (the CPU packages) from a batch between", "mJ per sample",
                  'id="utilisation-2"', 'id="energy"'):  # fmt: skip
        assert words in page, words
    assert 'id="utilisation-1"' not in page
    run = make_run()
    assert "GPU was doing" not in html_report(run, analyse(run))
    short = with_energy(budget_s=30.0)
    page = html_report(short, analyse(short))
    assert "84 s" in page
    assert 'id="energy"' not in page


def test_where_the_work_ran_is_told_for_each_target_by_its_last_batch() -> None:
    common = {"process": 0, "build_ms": 1.0, "first_call_ms": 1.0, "warmup_steps": 1, "warmup_ms": 1.0}
    common |= {"warmup_steady": True, "steps_per_block": 1}
    cudnn = ("GPU:0 (151 operations)", "GPU:0 (2 recurrent layers ran by 2 CudnnRNNV3)")
    run = make_run(1)
    setups = (
        Setup(target=1, batch=1, placement=("GPU:0 (1 operation)",), **common),
        Setup(target=1, batch=8, placement=cudnn, **common),
        Setup(target=1, batch=9, **common),
    )
    told = placement_lines(run.model_copy(update={"setups": setups}))
    assert told == [f"{run.names[1]}: ran on {cudnn[0]}, {cudnn[1]}"]
    assert placement_lines(run.model_copy(update={"setups": ()})) == []
