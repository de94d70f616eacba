"""Fixtures to run commands in this process, with simulated workers on request."""

from pathlib import Path

import pytest

from core.cli import main
from simulated.commands import Command
from simulated.memories import MemoryMachine, linear
from simulated.runs import make_run
from simulated.simulation import Curve, Machine


@pytest.fixture
def cli(capfd: pytest.CaptureFixture[str]) -> Command:
    """Run a command in this process: exit status, stdout, stderr."""

    def run(*arguments: object) -> tuple[int, str, str]:
        status = main([str(argument) for argument in arguments])
        return status, *capfd.readouterr()

    return run


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    """Replace real workers by simulated ones on a virtual clock; they cross near batch 90."""
    machine = Machine(curves=(Curve(0.3, 0.01), Curve(0.8, 0.004)))
    monkeypatch.setattr("core.worker.process.launch_processes", machine.launch)
    monkeypatch.setattr("core.worker.clock.WallClock", lambda: machine.clock)
    monkeypatch.setattr("core.machine.interference.InterferenceSampler", lambda: None)
    monkeypatch.setattr("core.machine.meter.Meter", lambda: None)
    return machine


@pytest.fixture
def limited(monkeypatch: pytest.MonkeyPatch) -> MemoryMachine:
    """Replace workers by simulated ones with a memory limit; 26,000 samples fit into 1.2 GB."""
    machine = MemoryMachine(linear(30e6, 20e3))
    monkeypatch.setattr("core.worker.process.launch_processes", machine.launch)
    monkeypatch.setattr("core.studies.memory.run.available_memory_bytes", machine.available_bytes)
    monkeypatch.setattr("core.cli.memory.available_memory_bytes", machine.available_bytes)
    monkeypatch.setattr("core.worker.clock.WallClock", lambda: machine.clock)
    return machine


@pytest.fixture
def run_file(tmp_path: Path) -> Path:
    path = tmp_path / "run.json"
    path.write_text(make_run().to_json())
    return path
