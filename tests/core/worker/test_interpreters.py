"""The Python with which a worker starts, which only a command may name."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from core.base.schema import UserError
from core.cli.model_code import launcher_for, launcher_of
from core.studies.sweep.kind import SWEEP
from core.worker import interpreters, process
from core.worker.interpreters import interpreter, refuse_python
from core.worker.process import ProcessWorker, launch_processes, worker_environment
from core.worker.protocol import CellFailed
from core.workload.spec import Target
from simulated.runs import make_run

OWN = Target(framework="jax", python="/opt/jax/bin/python")


@pytest.fixture
def complete(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every interpreter complete."""
    monkeypatch.setattr(interpreters, "why_missing", lambda *_: None)
    monkeypatch.delenv("BREAKEVEN_PYTHON_JAX", raising=False)


@pytest.mark.usefixtures("complete")
def test_the_targets_own_comes_before_the_environments_and_that_before_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    assert interpreter(Target(framework="jax")) == sys.executable
    monkeypatch.setenv("BREAKEVEN_PYTHON_JAX", "/opt/other/bin/python")
    assert interpreter(Target(framework="jax")) == "/opt/other/bin/python"
    assert interpreter(OWN) == "/opt/jax/bin/python"
    assert interpreter(Target()) == sys.executable


def test_one_that_lacks_something_starts_no_worker() -> None:
    with pytest.raises(CellFailed, match="/opt/jax/bin/python") as caught:
        ProcessWorker(OWN)
    assert caught.value.outcome == "error"


def test_a_program_that_a_target_names_is_run_only_where_that_is_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "ProcessWorker", lambda *_, **__: pytest.fail("it was started"))
    with pytest.raises(CellFailed, match="names a program") as caught:
        launch_processes((Target(), OWN), 5)
    assert "BREAKEVEN_PYTHON_JAX" in caught.value.reason
    refuse_python((Target(), Target(framework="jax")))


def test_a_page_does_not_run_a_run_whose_target_names_a_program() -> None:
    run = make_run()
    assert run.plan is not None
    SWEEP.check(run)
    brought = run.model_copy(update={"plan": run.plan.model_copy(update={"targets": (Target(), OWN)})})
    with pytest.raises(UserError, match="names a program"):
        SWEEP.check(brought)


def test_only_a_commands_own_targets_are_allowed_to() -> None:
    network = make_run().plan.workload.network
    assert launcher_of((Target(),)) is launch_processes
    assert launcher_for(network, None, (Target(), OWN)).keywords == {"allow_python": True}
    assert launcher_for(network, None) is launch_processes  # of a stored run


@pytest.mark.parametrize(("framework", "backend"), [("tensorflow", "tensorflow"), ("jax", "jax"), ("torch", "torch")])
def test_keras_is_told_its_backend(framework: str, backend: str) -> None:
    env = worker_environment(Target(framework=framework))
    assert env["KERAS_BACKEND"] == backend
    assert Path(env["PYTHONPATH"].partition(":")[0], "core").is_dir()
