"""``sweep``: what it measures, keeps, and how it ends."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from core.store import Store
from core.studies.sweep.analyse import analyse
from core.studies.sweep.imports import read_run
from tests.support.commands import TARGETS, Command, done
from tests.support.simulation import Fault, Machine

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
    for words in ("669,706 parameters", "FLOPs a sample", "MB of memory at batch 1,024", "Measuring batch", "Finished"):
        assert words in err
    stored = Store().load(run.id)
    assert (stored.rounds, stored.status, stored.label) == (run.rounds, "finished", "measured")


def test_a_lost_target_still_gives_an_honest_verdict(cli: Command, machine: Machine, tmp_path: Path) -> None:
    machine.faults = (Fault(target=1, batch=64, outcome="out_of_memory"),)
    out_file = tmp_path / "run.json"
    out, _ = done(cli("sweep", *TARGETS, "--budget", "60", "--out", out_file))
    assert "out_of_memory" in out
    assert "out_of_memory" in {cell.outcome for cell in read_run(out_file.read_bytes(), "run.json").cells}


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
