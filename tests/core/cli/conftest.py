"""Commands run in this process, with simulated workers where a test asks for them."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.cli import main
from tests.support.commands import Command
from tests.support.runs import make_run
from tests.support.simulation import Curve, Machine


@pytest.fixture
def cli(capfd: pytest.CaptureFixture[str]) -> Command:
    """Run a command in this process: exit status, stdout, stderr."""

    def run(*arguments: object) -> tuple[int, str, str]:
        status = main([str(argument) for argument in arguments])
        return status, *capfd.readouterr()

    return run


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    """Simulated workers on a virtual clock in place of real ones; they cross near batch 90."""
    machine = Machine(curves=(Curve(0.3, 0.01), Curve(0.8, 0.004)))
    monkeypatch.setattr("core.measure.process.launch_processes", machine.launch)
    monkeypatch.setattr("core.measure.clock.WallClock", lambda: machine.clock)
    monkeypatch.setattr("core.measure.noise.NoiseSampler", lambda: None)
    return machine


@pytest.fixture
def run_file(tmp_path: Path) -> Path:
    path = tmp_path / "run.json"
    path.write_text(make_run().to_json())
    return path
