"""``check`` between two Python environments: what it measures where, and whom it refuses, with simulated workers."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from core.machine import installed
from core.rounds.run import Run
from core.worker.protocol import CellFailed, Described
from core.workload.spec import Target
from simulated.checks import stored_code
from simulated.commands import Command, done, holds, refused
from simulated.runs import make_run, planned
from tests.core.cli.test_cli_check import ENTRY, Here
from tests.core.machine.test_installed import interpreter

pytestmark = pytest.mark.skipif(os.name != "posix", reason="the interpreters here are shell scripts")
PACKAGES = dict.fromkeys(("numpy", "packaging", "protobuf", "psutil", "pydantic"), "9") | {"tensorflow": "2.21.0"}
PRESET = ("check", "--preset", "784-128-10", "--target", "cpu,threads=1")


class Environments(Here):
    """The checked machine, whose second worker is the one of the interpreter ``new``."""

    new = ""

    def launch(self, targets: tuple[Target, ...], deadline_s: float, *_: object, **allowed: Any) -> Any:
        self.started.append(tuple(target.python for target in targets))
        self.allowed = {name for name, value in allowed.items() if value is True}
        pythons = [target.python for target in targets]
        workers = self.machine.launch(
            tuple(target.model_copy(update={"python": None}) for target in targets), deadline_s
        )
        self.described_by = pythons[0]
        return workers if len(set(pythons)) == 1 else tuple(workers[python == self.new] for python in pythons)

    def describe(self, _request: Any, _: float) -> Described:
        if (reason := self.broken.get(self.described_by)) is not None:
            raise CellFailed("error", reason)
        parameters = 20 if self.described_by == self.new else 10
        sizes = dict.fromkeys(("forward_flops", "weight_gradient_flops", "activations", "input_gradient_flops"), 8)
        layer = {"name": "dense", "parameters": parameters} | sizes
        return Described(name="sequential", input_shape=(6,), classes=3, layers=(layer,))


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch) -> Environments:
    installed._ask.cache_clear()
    monkeypatch.delenv("BREAKEVEN_PYTHON_TENSORFLOW", raising=False)
    return Environments(monkeypatch)


def made(folder: Path, python: tuple[int, ...], keras: str) -> str:
    folder.mkdir()
    return interpreter(folder, json.dumps([python, PACKAGES | {"keras": keras}]))


@pytest.fixture
def old(tmp_path: Path) -> str:
    return made(tmp_path / "old", (3, 11, 7), "3.10.0")


@pytest.fixture
def new(tmp_path: Path, here: Environments) -> str:
    here.new = made(tmp_path / "new", (3, 13, 1), "3.15.1")
    return here.new


@pytest.mark.parametrize(("ratio", "status", "word"), [(2.0, 1, "slower"), (1.0, 0, "unchanged"), (0.5, 0, "faster")])
def test_the_json_and_the_exit_status(
    cli: Command, here: Environments, old: str, new: str, data_dir: Path, ratio: float, status: int, word: str
) -> None:
    here.takes(ratio)
    found, out, _ = cli(*PRESET, "--python", old, "--against-python", new, "--json")
    data = json.loads(out)
    assert (found, data["verdict"], data["max_slowdown"]) == (status, word, 0.05)
    assert data["low"] <= data["ratio"] <= data["high"]
    assert data["ratio"] == pytest.approx(ratio, rel=0.02)
    assert [(one["batch"], one["verdict"]) for one in data["batches"]] == [(1, word), (64, word)]
    assert (data["target"], data["network"]) == ("cpu,threads=1", "784-128-10")
    assert [side["python"] for side in data["record"]["plan"]["sides"]] == [old, new]
    assert here.started[:4] == [(old, new), (new, old)] * 2, "each is started first in turn"
    assert here.allowed == {"allow_python"}
    assert not data_dir.exists(), "nothing is kept in the history"


def test_the_answer_names_the_versions_on_both_sides(cli: Command, here: Environments, old: str, new: str) -> None:
    here.takes(2.0)
    _, out, _ = cli(*PRESET, "--python", old, "--against-python", new, "--batches", "64", "--format", "md")
    before = "Python 3.11.7 with tensorflow 2.21.0 and keras 3.10.0"
    after = "Python 3.13.1 with tensorflow 2.21.0 and keras 3.15.1"
    holds(out, f"### Slower: in {after} the step takes 2 (", f"times as long as in {before} at batch 64.")


def test_a_run_names_network_target_and_batches_wherever_it_was_measured(
    cli: Command, old: str, new: str, tmp_path: Path
) -> None:
    run = make_run(processes=4)
    (tmp_path / "run.json").write_text(run.to_json())
    flags = ("--target", run.target_names[1], "--python", old, "--against-python", new, "--json")
    data = json.loads(done(cli("check", tmp_path / "run.json", *flags))[0])
    assert (data["target"], data["network"]) == (run.target_names[1], run.plan.workload.network.name)
    assert {one["batch"] for one in data["batches"]} <= set(run.batches)


@pytest.mark.parametrize("flags", [(), ("--target", "cpu,python={old}")])
def test_without_python_the_baseline_is_what_the_target_uses(
    cli: Command, here: Environments, old: str, new: str, monkeypatch: pytest.MonkeyPatch, flags: tuple[str, ...]
) -> None:
    if not flags:
        monkeypatch.setenv("BREAKEVEN_PYTHON_TENSORFLOW", old)
    done(cli(*PRESET[:3], "--target", "cpu", *(flag.format(old=old) for flag in flags), "--against-python", new))
    assert here.started[0] == (old, new)


def test_by_default_it_is_the_python_of_this_program(cli: Command, here: Environments, new: str) -> None:
    done(cli(*PRESET, "--against-python", new))
    assert here.started[0] == (sys.executable, new)


def test_an_environment_is_named_as_in_a_shell_and_its_link_is_kept(
    cli: Command, here: Environments, old: str, new: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "linked").symlink_to(old)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(Path(new).parent), prepend=os.pathsep)
    done(cli(*PRESET, "--python", "./linked", "--against-python", "python"))
    assert here.started[0] == (str(tmp_path / "linked"), new)


def test_the_same_environment_twice_is_a_control_and_said(cli: Command, here: Environments, old: str) -> None:
    out, _ = done(cli(*PRESET, "--python", old, "--against-python", old))
    holds(out, "Both sides are the same", f"keras 3.10.0 ({old})")
    assert here.started[0] == (old, old)


def code_of(old: str, new: str, *more: str) -> tuple[str, ...]:
    return ("check", *more, "--model", ENTRY, "--python", old, "--against-python", new)


@pytest.mark.parametrize("baseline", [True, False])
def test_own_code_is_called_in_each_environment(
    cli: Command,
    here: Environments,
    old: str,
    new: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    baseline: bool,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("run.json").write_text(stored_code(ENTRY, "/elsewhere").to_json())
    more = ("run.json",) if baseline else ("--target", "cpu")
    out, _ = done(cli(*code_of(old, new, *more)))
    assert here.started[-5:-3] != []
    assert {(old,), (new,)} <= set(here.started)
    assert here.allowed == {"allow_code", "allow_python"}
    holds(out, "20 parameters, and 10 in Python 3.11.7")


def test_code_that_the_new_environment_breaks_is_refused(
    cli: Command, here: Environments, old: str, new: str, tmp_path: Path
) -> None:
    (tmp_path / "run.json").write_text(stored_code(ENTRY, "/elsewhere").to_json())
    here.broken[new] = "net.models:make failed, called without arguments: AttributeError."
    assert refused(cli(*code_of(old, new, str(tmp_path / "run.json")))).startswith("In Python 3.13.1")
    assert here.machine.open_workers == 0


def test_a_run_with_an_interpreter_of_its_own_needs_python(
    cli: Command, here: Environments, old: str, new: str, tmp_path: Path
) -> None:
    run = make_run()
    targets = (Target(python="/opt/evil/python", threads=1), *run.plan.targets[1:])
    (tmp_path / "run.json").write_text(planned(run, targets=targets).to_json())
    assert Run.from_json((tmp_path / "run.json").read_text())
    flags = ("check", tmp_path / "run.json", "--against-python", new)
    assert "a program to" in refused(cli(*flags))
    assert here.started == []
    done(cli(*flags, "--python", old))
    assert here.started[0] == (old, new)


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (("--preset", "784-128-10"), "Name a baseline"),
        (("--preset", "784-128-10", "--python", "{new}"), "--against-python"),
        (("--against-python", "{new}", "--against", "HEAD~1"), "leave out --against."),
        (("--against-python", "{new}", "--asv", "."), "leave out --asv."),
        (("{run}", "--preset", "784-128-10", "--mode", "train", "--against-python", "{new}"), "--mode, --preset."),
        (("{run}", "--model", "a.b:c", "--against-python", "{new}"), "leave --model out"),
        (("{code}", "--against-python", "{new}"), f"--model {ENTRY}"),
        (("--preset", "no", "--against-python", "{new}"), "“no”"),
        (("--target", "cpu,framework=litert", "--against-python", "{new}"), "does not train"),
        (("--target", "cpu:2", "--batches", "1,3", "--against-python", "{new}"), "multiple of 2"),
        (("--against-python", "/nowhere/bin/python"), "/nowhere/bin/python, the interpreter for TensorFlow, does not"),
        (("--against-python", "/tmp"), "bin/python"),
        (("--against-python", "{bare}"), "-m pip install tensorflow keras"),
        (("--python", "{bare}", "--against-python", "{new}"), "-m pip install tensorflow keras"),
        (("--against-python", "/opt/a,b/python"), "whole path of an interpreter"),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, tuple) else "",
)
def test_what_cannot_be_is_refused_first(
    cli: Command, here: Environments, new: str, tmp_path: Path, flags: tuple[str, ...], sentence: str
) -> None:
    (tmp_path / "bare").mkdir()
    bare = {name: version for name, version in PACKAGES.items() if name != "tensorflow"}
    places = {"new": new, "bare": interpreter(tmp_path / "bare", json.dumps([[3, 12, 1], bare]))}
    for name, run in (("run", make_run()), ("code", stored_code(ENTRY, "/elsewhere"))):
        places[name] = str(tmp_path / f"{name}.json")
        Path(places[name]).write_text(run.to_json())
    assert sentence in refused(cli("check", *(flag.format(**places) for flag in flags)))
    assert here.started == []
