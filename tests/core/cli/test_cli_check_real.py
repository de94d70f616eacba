"""``check`` with real workers: two commits of a small Keras model, the second one many times wider."""

import json
from pathlib import Path

import pytest

from core.rounds.run import Run
from simulated.checkouts import git, repository, worktrees
from simulated.checks import stored_code
from simulated.commands import Command, holds, refused
from tests.core.cli.test_cli_check import ENTRY

pytestmark = [pytest.mark.tensorflow, pytest.mark.timeout(600)]
MODEL = """
from pathlib import Path

import keras

from net.size import CLASSES


def make():
    width = int(Path("width.txt").read_text())  # of the working folder
    return keras.Sequential([keras.Input((256,)), keras.layers.Dense(width), keras.layers.Dense(CLASSES)])
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = repository(tmp_path / "project", "128", "8192", file="width.txt")
    git(folder, "checkout", "--quiet", "--detach", "HEAD~1")
    (folder / "net").mkdir()
    (folder / "net" / "size.py").write_text("CLASSES = 10\n")
    (folder / "net" / "models.py").write_text(MODEL)
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "code")
    git(folder, "branch", "narrow")
    (folder / "width.txt").write_text("8192")
    monkeypatch.chdir(folder)
    (tmp_path / "run.json").write_text(stored_code(ENTRY, "/elsewhere").to_json())
    return folder


def test_a_slowdown_between_two_commits_is_found(cli: Command, project: Path) -> None:
    flags = ("--model", ENTRY, "--against", "narrow", "--batches", "64", "--budget", "60", "--json")
    status, out, err = cli("check", "../run.json", *flags)
    assert out, err
    data = json.loads(out)
    (one,) = data["batches"]
    old, new = (side["workload"]["network"] for side in data["record"]["plan"]["sides"])
    assert (sum(layer["parameters"] for layer in old["counts"]), old["folder"] != new["folder"]) == (34_186, True)
    assert one["step_ms"] > 2 * one["baseline_ms"]
    if one["processes"] >= 3:  # a very busy machine may not have time for as many
        assert (status, data["verdict"]) == (1, "slower")
        assert data["low"] > 1
    else:
        assert (status, data["verdict"]) == (3, "inconclusive")
        assert data["settles_s"] > 60
    assert worktrees(project) == 1


def test_code_that_both_checkouts_would_import_from_one_is_refused(
    cli: Command, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "bench.py").write_text("from net.models import make\n")
    git(project, "add", "--all")
    git(project, "commit", "--quiet", "--message", "bench")
    git(project, "rm", "--quiet", "-r", "--cached", "net")
    git(project, "commit", "--quiet", "--message", "net is elsewhere")
    monkeypatch.setenv("PYTHONPATH", str(project))
    run = Path("../run.json")
    run.write_text(run.read_text().replace(ENTRY, "bench:make"))
    assert Run.from_json(run.read_text())
    said = refused(cli("check", run, "--model", "bench:make", "--against", "HEAD"))
    holds(said, "imported net", "both checkouts")
    assert worktrees(project) == 1
