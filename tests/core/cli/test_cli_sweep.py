"""``sweep``: what it measures and stores, and its end."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from core.rounds.answer.analyse import analyse
from core.rounds.show.imports import read_run
from core.store import Store
from simulated.commands import TARGETS, Command, done, holds
from simulated.simulation import Fault, Machine
from tests.support.energies import busy_pct
from tests.support.meters import PoweredMachine, SimulatedMeter

ROOT = Path(__file__).parents[3]


def test_sweep_measures_keeps_and_answers(cli: Command, machine: Machine, tmp_path: Path) -> None:
    out_file = tmp_path / "run.json"
    out, err = done(cli(
        "sweep", "--preset", "784-512-512-10", "--mode", "infer", *TARGETS, "--batches", "1:1024", "--budget", "60",
        "--out", out_file, "--name", "for review",
    ))  # fmt: skip
    run = read_run(out_file.read_bytes(), "run.json")
    assert (run.label, run.status, run.name) == ("measured", "finished", "for review")
    assert (run.plan.workload.mode, run.plan.budget_s) == ("infer", 60)
    crossover = analyse(run).verdict.crossovers[0]
    assert crossover.batch == pytest.approx(machine.true_crossover(1, 1024), rel=0.05)
    assert out.splitlines()[0] == analyse(run).verdict.sentence
    holds(out.splitlines()[1], "1 thread: graph, ", "2 threads: graph, ")
    for words in ("669,706 parameters", "FLOPs per sample", "MB of memory at", "Measuring batch", "Finished"):
        assert words in err
    stored = Store().load(run.id)
    assert (stored.rounds, stored.status, stored.label) == (run.rounds, "finished", "measured")


def test_a_lost_target_still_gives_an_honest_verdict(cli: Command, machine: Machine, tmp_path: Path) -> None:
    machine.faults = (Fault(target=1, batch=64, outcome="out_of_memory"),)
    out_file = tmp_path / "run.json"
    out, _ = done(cli("sweep", *TARGETS, "--budget", "120", "--out", out_file))
    assert "out_of_memory" in out
    (why,) = [line for line in out.splitlines() if "failed (out of memory)" in line]
    assert "512, 1,024: Skipped" in why, "though the scan had met 256 first"
    assert "out_of_memory" in {cell.outcome for cell in read_run(out_file.read_bytes(), "run.json").cells}


@pytest.mark.statistical
def test_what_the_gpu_did_and_its_energy_are_said(
    cli: Command, machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    powered = PoweredMachine(machine.curves, gpu_w=lambda _: 70.0)
    monkeypatch.setattr("core.worker.process.launch_processes", powered.launch)
    monkeypatch.setattr("core.worker.clock.WallClock", lambda: powered.clock)
    meter = SimulatedMeter(powered, utilisation=busy_pct, reasons=("power_cap",))
    monkeypatch.setattr("core.machine.meter.Meter", lambda: meter)
    out_file = tmp_path / "run.json"
    out, err = done(cli(
        "sweep", "--targets", "cpu", "gpu:0", "--batches", "1:1024", "--budget", "240", "--out", out_file
    ))  # fmt: skip
    holds(out, "was busy 14", "1 and 96", "under load; heat", "less energy per")
    assert "energy of batch" in err
    assert meter.closed == 1
    run = read_run(out_file.read_bytes(), "run.json")
    assert {w.model_dump_json() for w in Store().load(run.id).energy} == {w.model_dump_json() for w in run.energy}
    page = tmp_path / "report.html"
    done(cli("report", out_file, "--out", page))
    assert "was doing (measured)" in page.read_text()
    assert "less energy per" in done(cli("verdict", out_file))[0]


@pytest.mark.tensorflow
def test_a_real_sweep_stopped_by_ctrl_c_leaves_a_run_and_no_process(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "core", "sweep", "--preset", "100-50-10", *TARGETS, "--batches", "1:64"]
    command += ["--budget", "120", "--out", str(tmp_path / "run.json")]
    child = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=dict(os.environ)
    )
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
