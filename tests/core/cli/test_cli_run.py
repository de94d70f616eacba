"""The command ``run``: its flags, the script's own arguments, and what it refuses. What it measures is tested beside
the study (tests/core/studies/job).
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from core.cli import run as module
from core.cli.study_command import Asked
from core.studies.job.record import JobPlan
from core.workload.spec import Target
from simulated.commands import Command, refused

FAR = ("--no-store", "--budget", "5")


@pytest.fixture
def plans(monkeypatch: pytest.MonkeyPatch) -> list[JobPlan]:
    """Plans that the command makes, in place of measuring them."""
    made: list[JobPlan] = []

    def keep(plan: Any, **_: Any) -> Asked:
        made.append(plan)
        raise module.BadInput("kept")

    monkeypatch.setattr(module, "Asked", keep)
    return made


@pytest.mark.parametrize(
    ("arguments", "own"),
    [
        (("train.py",), ()),
        (("train.py", "--epochs", "3", "--targets", "a", "b"), ("--epochs", "3", "--targets", "a", "b")),
        (("--targets", "cpu,threads=1", "cpu", "--", "train.py", "--name", "x"), ("--name", "x")),
        (("--", "train.py", "--targets", "a", "b"), ("--targets", "a", "b")),
    ],
)
def test_what_follows_the_script_is_its_own(
    arguments: tuple[str, ...], own: tuple[str, ...], cli: Command, plans: list[JobPlan], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    Path("train.py").touch()
    cli("run", *FAR, *arguments)
    (plan,) = plans
    assert plan.script is not None
    assert (plan.script.name, plan.script.python, plan.script.folder) == ("train.py", sys.executable, str(tmp_path))
    assert plan.budget_s == 5.0
    targets = (Target(threads=1), Target()) if arguments[0] == "--targets" else ()
    assert (plan.targets, plan.script.arguments) == (targets, own)


def test_without_a_gpu_three_cards_are_modelled(cli: Command, plans: list[JobPlan]) -> None:
    cli("run", *FAR, "-m", "json.tool")
    assert plans[0].gpus == module.USUAL_CARDS
    assert plans[0].script is not None
    assert plans[0].script.is_module


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("no_such.py",), "There is no script “no_such.py”"),
        (("--gpu", "no such card", "--", "x.py"), "no such card"),
        (("--targets", "nothing", "--", "x.py"), "“nothing”"),
    ],
)
def test_what_cannot_run_is_refused_in_one_sentence(arguments: tuple[str, ...], words: str, cli: Command) -> None:
    assert words in refused(cli("run", *FAR, *arguments))


@pytest.mark.tensorflow
def test_a_script_is_run_measured_and_written(cli: Command, tmp_path: Path) -> None:
    script = Path(__file__).parents[2] / "fixtures" / "scripts" / "sequential.py"
    out = tmp_path / "job.json"
    status, _, err = cli("run", "--no-store", "--budget", "45", "--out", str(out), "--", str(script))
    assert status == 0, err
    data = json.loads(out.read_text())
    assert data["script"] == "sequential.py"
    assert len(data["targets"]) == 2
    assert data["unexplained"] < 0.05
    assert sum(data["seconds"].values()) == pytest.approx(data["wall_s"], rel=0.01)
