"""Isolation of page tests: each has its own engine, empty caches, and an example made for tests."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import streamlit as st
from streamlit.runtime.pages_manager import PagesManager
from streamlit.testing.v1 import AppTest, app_test

from core.base.evidence import Interference
from core.rounds.run import Run
from core.studies.registry import load_example
from core.studies.sweep.kind import SWEEP
from core.ui import machine, neighbours, registry
from core.ui.batch import form
from core.ui.history import page as history
from simulated.memories import GB
from simulated.pages import fake_engine
from simulated.runs import make_environment, make_run


@pytest.fixture(autouse=True)
def no_exception(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that a page's script ends without an exception, within a minute on a busy machine, whatever a test does to
    it.
    """
    run = AppTest._run

    def checked(at: AppTest, widget_state: Any = None, timeout: float | None = None) -> AppTest:
        run(at, widget_state, timeout or 60.0)
        assert not at.exception, at.exception
        return at

    monkeypatch.setattr(AppTest, "_run", checked)


class OneServer(PagesManager):
    """Pages manager that ignores AppTest's reset before every run, since a server remembers that its router has run."""


@pytest.fixture(autouse=True)
def cold_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a test one server: cold at its first page, and a click is handled in the first run of the script after
    it.
    """
    monkeypatch.setattr(PagesManager, "uses_pages_directory", None)
    monkeypatch.setattr(app_test, "PagesManager", OneServer)


@pytest.fixture(autouse=True)
def quiet_neighbours(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide other programs of the machine that runs the tests from all pages."""
    monkeypatch.setattr(neighbours.Watch, "look", lambda _: Interference())


@pytest.fixture
def example() -> Run:
    return make_run(77).model_copy(update={"id": "example-run", "name": "The example"})


@pytest.fixture
def engine(data_dir: Path, example: Run, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    assert data_dir
    st.cache_resource.clear()
    fake = fake_engine()
    monkeypatch.setattr(registry, "engine", lambda: fake)
    monkeypatch.setattr(registry, "load_example", lambda kind: example if kind == SWEEP.name else load_example(kind))
    monkeypatch.setattr(registry, "quieten", lambda: None)  # it takes longer than a page
    two = machine.Machine(("cpu",), {"cpu": "CPU"}, 2, ("Install the driver.",))
    monkeypatch.setattr(machine, "devices", lambda: two)
    yield fake
    fake.store.close()


@pytest.fixture
def no_example(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert engine
    monkeypatch.setattr(registry, "load_example", lambda _: None)


@pytest.fixture
def this_machine(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Use the runs' own machine, with 8 GB free."""
    assert engine
    monkeypatch.setattr(machine, "now", make_environment)
    monkeypatch.setattr(form, "available_memory_bytes", lambda: 8 * GB)


@pytest.fixture
def select(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Choose rows of the table; AppTest cannot click on them."""
    chosen: list[int] = []
    real = history._selected_rows
    monkeypatch.setattr(history, "_selected_rows", lambda found: (real(found), list(chosen))[1])

    def choose(at: AppTest, *rows: int) -> None:
        chosen[:] = rows
        at.run()

    return choose
