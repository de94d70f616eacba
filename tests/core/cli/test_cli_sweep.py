"""``sweep``: what it measures, keeps, and how it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from core.analysis.analyse import analyse
from core.imports import read_run
from core.measure.lock import machine_lock
from core.store import Store
from tests.support.commands import TARGETS, Command
from tests.support.simulation import Fault, Machine

ROOT = Path(__file__).parents[3]


def test_sweep_measures_keeps_and_answers(cli: Command, machine: Machine, tmp_path: Path) -> None:
    out_file = tmp_path / "run.json"
    status, out, err = cli(
        "sweep", "--preset", "784-512-512-10", "--mode", "infer", *TARGETS, "--batches", "1:1024", "--budget", "60",
        "--out", out_file, "--name", "for review",
    )  # fmt: skip
    assert status == 0
    run = read_run(out_file.read_bytes(), "run.json")
    assert (run.label, run.status, run.name) == ("measured", "finished", "for review")
    assert run.plan is not None
    assert (run.plan.workload.mode, run.plan.budget_s) == ("infer", 60)
    crossover = analyse(run).verdict.crossovers[0]
    assert crossover.batch == pytest.approx(machine.true_crossover(1, 1024), rel=0.05)
    assert out.splitlines()[0] == analyse(run).verdict.sentence
    for words in ("669,706 parameters", "FLOPs a sample", "MB of memory at batch 1,024", "Measuring batch", "Finished"):
        assert words in err
    stored = Store().load(run.id)
    assert (stored.rounds, stored.status, stored.label) == (run.rounds, "finished", "measured")
    assert machine.open_workers == 0


def test_sweep_without_the_history_stores_nothing(cli: Command, machine: Machine, data_dir: Path) -> None:
    assert cli("sweep", *TARGETS, "--budget", "20", "--no-store")[0] == 0
    assert machine.starts > 0
    assert not data_dir.exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_sweep_and_keeps_what_was_measured(
    cli: Command, machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    advance = type(machine.clock).advance

    def advance_and_stop(_: object, seconds: float) -> None:
        before = machine.clock.time_s
        advance(machine.clock, seconds)
        if before < 20 <= machine.clock.time_s:
            signal.raise_signal(number)

    monkeypatch.setattr(type(machine.clock), "advance", advance_and_stop)
    handler = signal.getsignal(number)
    out_file = tmp_path / "run.json"
    status, out, err = cli("sweep", *TARGETS, "--budget", "300", "--out", out_file)
    run = read_run(out_file.read_bytes(), "run.json")
    assert status == 0
    assert "Stopping; what was measured is kept." in err
    assert run.status == Store().load(run.id).status == "cancelled"
    assert run.rounds == Store().load(run.id).rounds
    assert len(run.rounds) > 10
    assert run.elapsed_s < 30
    assert out.splitlines()[0] == analyse(run).verdict.sentence
    assert machine.open_workers == 0
    assert signal.getsignal(number) is handler


def test_a_signal_before_the_first_round_is_no_failure(
    cli: Command, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def launch(*arguments: object) -> object:
        signal.raise_signal(signal.SIGINT)
        return machine.launch(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr("core.measure.process.launch_processes", launch)
    status, out, err = cli("sweep", *TARGETS)
    assert (status, out) == (0, "")
    assert "nothing was measured" in err


def test_a_lost_target_still_gives_an_honest_verdict(cli: Command, machine: Machine, tmp_path: Path) -> None:
    machine.faults = (Fault(target=1, batch=64, outcome="out_of_memory"),)
    out_file = tmp_path / "run.json"
    status, out, _ = cli("sweep", *TARGETS, "--budget", "60", "--out", out_file)
    assert status == 0
    assert "out_of_memory" in out
    assert "out_of_memory" in {cell.outcome for cell in read_run(out_file.read_bytes(), "run.json").cells}


def test_a_sweep_that_measures_nothing_is_a_failure(cli: Command, machine: Machine) -> None:
    machine.faults = tuple(Fault(target=t, batch=1, outcome="out_of_memory") for t in (0, 1))
    status, out, err = cli("sweep", *TARGETS)
    assert (status, out) == (1, "")
    assert "No cell could be measured. Planted fault" in err.splitlines()[-1]


def test_a_full_store_costs_the_history_not_the_sweep(
    cli: Command, machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from core.store import StoreError

    calls: list[str] = []

    def record(_: Store, run_id: str, __: object) -> None:
        calls.append(run_id)
        raise StoreError("The disk is full.")

    monkeypatch.setattr(Store, "record", record)
    status, _, err = cli("sweep", *TARGETS, "--budget", "20", "--out", tmp_path / "run.json")
    assert status == 0
    assert machine.starts > 0
    assert len(calls) == 1
    assert err.count("The history stopped: The disk is full.") == 1
    assert len(read_run((tmp_path / "run.json").read_bytes(), "run.json").rounds) > 10


def test_a_busy_machine_is_a_failure_with_a_sentence(cli: Command, machine: Machine, tmp_path: Path) -> None:
    with machine_lock("something else"):
        status, out, err = cli("sweep", *TARGETS, "--out", tmp_path / "run.json")
    assert (status, out) == (1, "")
    assert "measuring" in err.splitlines()[-1]
    assert machine.starts == 0
    assert not (tmp_path / "run.json").exists()


def test_a_real_sweep_stopped_by_ctrl_c_leaves_a_run_and_no_process(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "core", "sweep", "--preset", "100-50-10", *TARGETS, "--batches", "1:64"]
    command += ["--budget", "120", "--out", str(tmp_path / "run.json")]
    child = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=dict(os.environ)
    )
    assert child.stderr is not None
    for line in child.stderr:
        if "So far" in line:
            break
    child.send_signal(signal.SIGINT)
    out, _ = child.communicate()
    run = read_run((tmp_path / "run.json").read_bytes(), "run.json")
    assert child.returncode == 0
    assert (run.status, run.label) == ("cancelled", "measured")
    assert len(run.rounds) >= 1
    assert out.splitlines()[0] == analyse(run).verdict.sentence
    for process in run.processes:
        with pytest.raises(ProcessLookupError):
            os.kill(process.pid, 0)
