"""``check``: exit status, what it measures where, and failures, with simulated workers and real checkouts."""

import json
from pathlib import Path
from typing import Any

import pytest

from core.machine.environment import capture_environment
from core.machine.lock import machine_lock
from core.rounds.run import Run
from core.worker.protocol import CellFailed, Described
from core.workload.spec import Target
from simulated.checkouts import git, repository, worktrees
from simulated.checks import check_machine, stored_code
from simulated.commands import Command, done, holds, refused, stop_at
from simulated.runs import make_run, planned
from simulated.simulation import QUIET, Fault, SimulatedWorker

ENTRY = "net.models:make"
OLD, NEW = "WIDTH = 64\n", "WIDTH = 128\n"
COUNTS = dict.fromkeys(("parameters", "forward_flops", "weight_gradient_flops", "activations"), 8)


class Here:
    """The checked machine, with the places where its workers started, and the error of describing code in a folder."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.machine = check_machine(1.0, QUIET)
        self.started: list[tuple[str | None, ...]] = []
        self.broken: dict[str, str] = {}
        self.apart: list[str | None] = []
        monkeypatch.setattr("core.worker.process.launch_processes", self.launch)
        monkeypatch.setattr("core.worker.clock.WallClock", lambda: self.machine.clock)
        monkeypatch.setattr("core.machine.interference.InterferenceSampler", lambda: None)
        monkeypatch.setattr("core.machine.meter.Meter", lambda: None)
        monkeypatch.setattr(SimulatedWorker, "describe", self.describe, raising=False)

    def takes(self, ratio: float, **options: Any) -> None:
        self.machine = check_machine(ratio, QUIET, **options)

    def launch(
        self, targets: tuple[Target, ...], deadline_s: float, *_: object, folders: Any = (), **__: object
    ) -> tuple[SimulatedWorker, ...]:
        self.started.append(tuple(folders))
        workers = self.machine.launch(targets, deadline_s)
        if len(targets) == 1:
            return workers
        here = str(Path.cwd())  # in either order, the worker of the current folder is the machine's second
        return tuple(workers[int(folder == here)] for folder in folders)

    def describe(self, request: Any, _: float) -> Described:
        self.apart.append(request.apart_from)
        text = (Path(request.folder) / "net" / "models.py").read_text()
        for part, reason in self.broken.items():
            if part in text:
                raise CellFailed("error", reason)
        width = int(text.split("=")[1])
        layer = {"name": "dense", "input_gradient_flops": 0} | COUNTS | {"parameters": width}
        return Described(name="sequential", input_shape=(6,), classes=3, layers=(layer,))


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch) -> Here:
    return Here(monkeypatch)


def measured_here(run: Run) -> Run:
    """Return a made-up run labelled as measured on this machine; its first target has the simulated step times."""
    return run.model_copy(update={"environment": capture_environment(), "label": "measured"})


@pytest.fixture
def baseline(tmp_path: Path) -> Path:
    """Return the file of a preset's run, measured here."""
    path = tmp_path / "baseline.json"
    run = make_run(processes=4, floors_ms=(0.5, 0.8), slopes_ms=(0.01, 0.01))
    path.write_text(measured_here(run).to_json())
    return path


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a repository of two commits, and a baseline measured elsewhere with its code."""
    folder = repository(tmp_path / "project", OLD, NEW)
    monkeypatch.chdir(folder)
    (tmp_path / "run.json").write_text(stored_code(ENTRY, "/elsewhere").to_json())
    return folder


AGAINST = ("check", "../run.json", "--model", ENTRY, "--against")


def test_unchanged_against_the_stored_run(cli: Command, here: Here, baseline: Path, data_dir: Path) -> None:
    out, err = done(cli("check", baseline))
    assert not data_dir.exists(), "nothing is kept in the history"
    holds(out, "Not slower: ", "15 % is", "from seed 0")
    assert "this machine" not in err
    assert here.machine.starts >= 6


@pytest.mark.parametrize(("ratio", "status", "word"), [(2.0, 1, "slower"), (1.0, 0, "unchanged"), (0.5, 0, "faster")])
def test_the_json_and_the_exit_status(
    cli: Command, here: Here, project: Path, ratio: float, status: int, word: str
) -> None:
    here.takes(ratio)
    got, out, _ = cli(*AGAINST, "HEAD~1", "--json", "--batches", "1,64")
    data = json.loads(out)
    assert (got, data["verdict"]) == (status, word)
    assert data["low"] <= data["ratio"] <= data["high"]
    assert data["ratio"] == pytest.approx(ratio, rel=0.02)
    assert [(one["batch"], one["verdict"]) for one in data["batches"]] == [(1, word), (64, word)]
    assert data["baseline"] == f"commit {git(project, 'rev-parse', 'HEAD~1')[:10]}"
    assert data["target"] == "cpu,threads=1"
    assert data["max_slowdown"] == 0.05


def test_two_checkouts_are_measured_each_in_its_folder_and_the_worktree_goes(
    cli: Command, here: Here, project: Path
) -> None:
    out, _ = done(cli(*AGAINST, "HEAD~1"))
    (old,), (new,), *pairs = here.started
    assert new == str(project)
    assert old is not None
    assert old.endswith("/checkout")
    assert here.apart == [str(project), old]
    assert pairs[:4] == [(old, new), (new, old)] * 2, "each is started first in turn"
    assert not Path(old).exists()
    assert worktrees(project) == 1
    holds(out, "128 parameters", "64 in commit")


def test_a_folder_is_measured_as_it_lies_there(cli: Command, here: Here, project: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    git(project, "worktree", "add", "--detach", str(other), "HEAD~1")
    done(cli(*AGAINST, "../other"))
    assert here.started[0] == (str(other),)
    assert other.is_dir()


@pytest.mark.usefixtures("project")
def test_from_a_folder_within_the_repository(
    cli: Command, here: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = repository(tmp_path / "deeper", OLD, NEW, file="src/net/models.py") / "src"
    monkeypatch.chdir(folder)
    done(cli("check", tmp_path / "run.json", "--model", ENTRY, "--against", "HEAD~1"))
    (old,), (new,), *_ = here.started
    assert new == str(folder)
    assert old is not None
    assert old.endswith("/checkout/src")
    assert here.apart == [str(folder.parent), old.removesuffix("/src")]


@pytest.mark.parametrize(("broken", "where"), [(OLD, "commit"), (NEW, "this folder")])
def test_code_that_fails_in_one_checkout_only(cli: Command, here: Here, project: Path, broken: str, where: str) -> None:
    here.broken[broken] = "net.models:make failed, called without arguments: ValueError."
    assert refused(cli(*AGAINST, "HEAD~1")).startswith(f"In {where}")
    assert worktrees(project) == 1
    assert here.machine.open_workers == 0


@pytest.mark.usefixtures("project")
def test_a_step_that_fails_in_one_checkout_only(cli: Command, here: Here) -> None:
    here.takes(1.0, faults=(Fault(1, 1, "nan_loss"),))
    status, out, err = cli(*AGAINST, "HEAD~1")
    assert (status, out) == (2, "")
    assert err.splitlines()[-1].startswith("Planted fault: nan_loss")
    here.takes(1.0, faults=(Fault(1, 64, "nan_loss"),))
    status, out, _ = cli(*AGAINST, "HEAD~1", "--batches", "1,64")
    assert status == 3
    holds(out, "Not clear: batch", "fault: nan_loss at")


def test_the_code_of_a_stored_run_is_measured_in_the_current_folder(
    cli: Command, here: Here, project: Path, tmp_path: Path
) -> None:
    run = Run.from_json((tmp_path / "run.json").read_text())
    stored = make_run(processes=4, floors_ms=(0.5, 0.8), slopes_ms=(0.01, 0.01))
    (tmp_path / "run.json").write_text(measured_here(planned(stored, workload=run.plan.workload)).to_json())
    assert f"--model {ENTRY}" in refused(cli("check", tmp_path / "run.json"))
    done(cli("check", tmp_path / "run.json", "--model", ENTRY))
    assert set(here.started) == {(str(project),)}


def test_another_machine_is_refused_without_a_checkout(cli: Command, here: Here, tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text(make_run(processes=4).to_json())
    assert "another machine" in refused(cli("check", tmp_path / "run.json"))
    assert here.started == []


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (("--max-slowdown", "much"), "“much”"),
        (("--max-slowdown", "0%"), "at most 1."),
        (("--max-slowdown", "nan"), "at most 1."),
        (("--max-slowdown", "5"), "at most 1."),
        (("--target", "gpu:3"), "cpu,threads=1 and cpu,threads=2"),
        (("--batches", "3"), "Batch 3 "),
        (("--batches", "1:256"), "batches"),
        (("--budget", "1"), "86,400"),
        (("--against", "HEAD"), "--against compares checkouts"),
        (("--against", "HEAD", "--model", "a.b:c"), "leave --model out"),
        (("--model", "a.b:c"), "leave --model out"),
        (("--asv", "nowhere"), "--asv nowhere"),
        (("--out", "/nowhere/out.json"), "cannot be written"),
    ],
    ids=lambda value: value[:2] if isinstance(value, tuple) else "",
)
def test_what_cannot_be_is_refused_first(
    cli: Command, here: Here, baseline: Path, flags: tuple[str, ...], sentence: str
) -> None:
    assert sentence in refused(cli("check", baseline, *flags))
    assert here.started == []


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize(
    ("against", "sentence"),
    [
        ("no-such-branch", "no-such-branch"),
        ("--output=/tmp/x", "/tmp/x"),
        (".", "current folder itself"),
    ],
)
def test_a_checkout_that_is_none(cli: Command, here: Here, against: str, sentence: str) -> None:
    assert sentence in refused(cli(*AGAINST[:-1], f"--against={against}"))
    assert here.started == []


def test_no_interpreter_that_a_run_names_is_started(cli: Command, here: Here, tmp_path: Path) -> None:
    run = stored_code(ENTRY, "/elsewhere")
    targets = (Target(framework="jax", python="/opt/evil/python"), *run.plan.targets[1:])
    (tmp_path / "run.json").write_text(planned(run, targets=targets).to_json())
    said = refused(cli("check", tmp_path / "run.json", "--model", ENTRY, "--against", "HEAD~1"))
    assert "a program to" in said
    assert here.started == []


def test_points_and_other_files_are_no_baseline(cli: Command, tmp_path: Path) -> None:
    points = tmp_path / "points.csv"
    points.write_text("target,batch,step_ms\ncpu,1,1.0\ngpu:0,1,2.0\n")
    assert "Only points" in refused(cli("check", points))
    assert "nowhere.json" in refused(cli("check", tmp_path / "nowhere.json"))


@pytest.mark.usefixtures("no_patience")
def test_a_busy_machine_is_no_slowdown(cli: Command, baseline: Path) -> None:
    with machine_lock("something else"):
        status, out, err = cli("check", baseline)
    assert (status, out) == (2, "")
    assert "measuring" in err.splitlines()[-1]


def test_stopped_before_there_is_anything_it_is_not_clear(
    cli: Command, here: Here, baseline: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop_at(here.machine, monkeypatch, 0.001)
    status, out, err = cli("check", baseline)
    assert (status, out) == (3, "")
    assert err.splitlines()[-1].startswith("Stopped before there")


def test_stopped_while_code_is_described_the_worktree_goes(
    cli: Command, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(SimulatedWorker, "describe", interrupted)
    status, _, err = cli(*AGAINST, "HEAD~1")
    assert status == 3
    assert "Stopped before there" in err
    assert worktrees(project) == 1


def test_stopped_later_it_says_what_was_measured(
    cli: Command, here: Here, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here.takes(2.0)
    stop_at(here.machine, monkeypatch, 55.0)
    status, out, _ = cli(*AGAINST, "HEAD~1")
    assert status == 1
    holds(out, "Slower: the step", "cancelled after")
    assert worktrees(project) == 1


@pytest.mark.usefixtures("project")
def test_lost_workers_are_one_sentence(cli: Command, here: Here) -> None:
    here.takes(1.0, faults=(Fault(1, 1, "crashed", in_block=True, lost=True),))
    status, out, err = cli(*AGAINST, "HEAD~1", "--batches", "1")
    assert (status, out) == (2, "")
    assert err.splitlines()[-1].startswith("Planted fault: crashed")


def test_files_beside_the_answer(cli: Command, project: Path, tmp_path: Path) -> None:
    (tmp_path / "asv").mkdir()
    (tmp_path / "asv" / "benchmarks.json").write_text('{"own.time_it": {"name": "own.time_it"}, "version": 2}')
    flags = ("--out", "../c.json", "--bencher", "../b.json", "--asv", "../asv", "--format", "md", "--batches", "1,64")
    out, _ = done(cli(*AGAINST, "HEAD~1", *flags))
    assert out.startswith("### Not slower: ")
    assert json.loads((tmp_path / "c.json").read_text())["verdict"] == "unchanged"
    bencher = json.loads((tmp_path / "b.json").read_text())
    assert list(bencher) == [f"{ENTRY} train cpu,threads=1 batch {batch}" for batch in (1, 64)]
    listed = json.loads((tmp_path / "asv" / "benchmarks.json").read_text())
    assert list(listed) == ["own.time_it", "version", f"breakeven.{ENTRY}.train.cpu,threads=1"]
    commits = {git(project, "rev-parse", name) for name in ("HEAD", "HEAD~1")}
    found = [json.loads(path.read_text()) for path in (tmp_path / "asv").glob("breakeven-*/*-breakeven-py*.json")]
    assert {one["commit_hash"] for one in found} == commits


def test_asv_wants_commits(cli: Command, project: Path, tmp_path: Path) -> None:
    (project / "net" / "models.py").write_text("WIDTH = 256\n")
    (tmp_path / "asv").mkdir()
    status, _, err = cli(*AGAINST, "HEAD", "--asv", "../asv")
    assert status == 2
    assert "results by commit" in err.splitlines()[-1]
