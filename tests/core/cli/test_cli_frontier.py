"""``frontier``: a whole study on simulated workers, its text and JSON, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from core.frontier import FrontierStudy
from tests.support.commands import TARGETS, Command, refused
from tests.support.frontiers import random_truth
from tests.support.simulation import Fault, Machine

SHORT = ("frontier", "--depths", "2,4", "--widths", "16:1024:0.5", "--batches", "1:512:0.34", "--budget", 60)


@pytest.fixture
def mapped(machine: Machine) -> Machine:
    machine.law = random_truth(0).law
    machine.__post_init__()
    return machine


@pytest.mark.usefixtures("mapped")
def test_a_study_prints_verdict_read_outs_map_and_label(cli: Command) -> None:
    status, out, err = cli(*SHORT, *TARGETS, "--at", "2,256,8")
    assert status == 0
    lines = out.splitlines()
    assert lines[0].startswith("At depth 2, width 256, batch 8 ")
    assert "; measured)" in lines[0]
    assert "At depth 2 and width 256 " in out
    assert any(line.startswith("width \\ batch  1 ") for line in lines)
    assert "* measured there, the others interpolated; ? a tie cannot be excluded." in lines
    rows = [line for line in lines if line.startswith(("16 ", "64 ", "256 ", "1,024 "))]
    assert len(rows) == 4
    assert any("*" in row for row in rows)
    assert any(line.startswith("All times are measured: Multi-layer perceptron (training, adam)") for line in lines)
    assert "32 settings, of which those that tell most are measured" in err
    assert "measuring both targets in turn" in err


@pytest.mark.usefixtures("mapped")
def test_json_and_file_hold_the_same_object_and_the_record_reads_back(cli: Command, tmp_path: Path) -> None:
    out_file = tmp_path / "frontier.json"
    status, out, _ = cli(*SHORT, *TARGETS, "--json", "--out", out_file)
    data = json.loads(out)
    assert status == 0
    assert json.loads(out_file.read_text()) == data
    assert data["code"] == "frontier"
    study = FrontierStudy.model_validate(data["record"])
    assert study.plan.target_names == ("cpu,threads=1", "cpu,threads=2")
    assert study.plan.batches == (1, 8, 64, 512)


@pytest.mark.usefixtures("mapped")
def test_flags_reach_the_plan(cli: Command) -> None:
    flags = ("--classes", 3, "--mode", "infer", "--optimizer", "sgd")
    status, out, _ = cli(*SHORT, *TARGETS, *flags, "--json")
    assert status == 0
    plan = FrontierStudy.model_validate(json.loads(out)["record"]).plan
    assert dict(plan.sizes) == {"inputs": 784, "classes": 3}
    assert (plan.mode, plan.optimizer, plan.budget_s, plan.point) == ("infer", "sgd", 60.0, None)


def test_failed_settings_are_named(cli: Command, mapped: Machine) -> None:
    mapped.faults = (Fault(target=1, batch=512, outcome="out_of_memory"),)
    status, out, _ = cli(*SHORT, *TARGETS)
    assert status == 0
    assert "on cpu,threads=2: out of memory. Planted fault: out_of_memory at batch 512." in out
    assert "settings were skipped. Skipped, because cpu,threads=2 ran out of memory at depth" in out


def test_nothing_measured_is_one_sentence_and_status_1(cli: Command, mapped: Machine) -> None:
    mapped.faults = (Fault(target=0, batch=1, outcome="error"),)
    status, out, err = cli(*SHORT, *TARGETS)
    assert (status, out) == (1, "")
    assert err.splitlines()[-1].startswith("Planted fault: error at batch ")


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (("--depth", 2), "--depth is an axis of the map; write --depths 2"),
        (("--depths", "x"), "The depth values “x” are not understood"),
        (("--widths", "4"), "depth 2 with width 4 cannot be built"),
        (("--batches", "0,1"), "greater than or equal to 1"),
        (("--at", "2,256"), "--at is “2,256”; accepted are three whole numbers"),
        (("--at", "9,256,8"), "the operating point's depth is 9; the map goes from 2 to 4"),
        (("--heads", 2), "--heads is no size of mlp"),
        (("--targets", "cpu", "cpu"), "both targets are “cpu”"),
        (("--budget", 1), "greater than or equal to 2"),
        (("--out", "/nowhere/f.json"), "cannot be written"),
    ],
)
def test_what_is_wrong_gets_one_sentence_and_status_2(cli: Command, flags: tuple[object, ...], sentence: str) -> None:
    assert sentence in refused(cli(*SHORT, *TARGETS, *flags))
