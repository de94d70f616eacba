"""``frontier``: a whole study on simulated workers, its text and JSON, and refusals."""

import pytest

from core.studies.frontier.record import FrontierStudy
from simulated.commands import TARGETS, Command, as_json, done, holds
from simulated.frontiers import random_truth
from simulated.simulation import Fault, Machine

SHORT = ("frontier", "--depths", "2,4", "--widths", "16:1024:0.5", "--batches", "1:512:0.34", "--budget", 60)


@pytest.fixture
def mapped(machine: Machine) -> Machine:
    machine.law = random_truth(0).law
    machine.__post_init__()
    return machine


@pytest.mark.usefixtures("mapped")
def test_a_study_prints_verdict_read_outs_map_and_label(cli: Command) -> None:
    out, err = done(cli(*SHORT, *TARGETS, "--at", "2,256,8"))
    lines = out.splitlines()
    holds(lines[0], "At depth 2, ", "width 256, ", "batch 8, ")
    assert "; measured)" in lines[0]
    assert "and width 256, " in out
    assert any(line.startswith("width \\ batch") for line in lines)
    assert any(line.startswith("* measured there") for line in lines)
    rows = [line for line in lines if line.startswith(("16 ", "64 ", "256 ", "1,024 "))]
    assert len(rows) == 4
    assert any("*" in row for row in rows)
    assert any(line.startswith("All times are") and "(training, adam)" in line for line in lines)
    holds(err, "32 settings, ", "both targets in")


@pytest.mark.usefixtures("mapped")
def test_flags_reach_the_plan(cli: Command) -> None:
    flags = ("--classes", 3, "--mode", "infer", "--optimizer", "sgd")
    data = as_json(cli(*SHORT, *TARGETS, *flags, "--json"))
    assert data["code"] == "frontier"
    plan = FrontierStudy.model_validate(data["record"]).plan
    assert (plan.target_names, plan.batches) == (TARGETS[1:], (1, 8, 64, 512))
    assert dict(plan.sizes) == {"inputs": 784, "classes": 3}
    assert (plan.mode, plan.optimizer, plan.budget_s, plan.point) == ("infer", "sgd", 60.0, None)


def test_failed_settings_are_named(cli: Command, mapped: Machine) -> None:
    mapped.faults = (Fault(target=1, batch=512, outcome="out_of_memory"),)
    out, _ = done(cli(*SHORT, *TARGETS))
    holds(out, "Planted fault: out_of_memory", "at batch 512.", "settings were skipped")
