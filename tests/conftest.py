"""Isolation of every test: its own data folder and machine lock, and none of the user's databases and GPUs.

Plain ``pytest`` runs the tests marked ``fast`` here: all without a marker of :data:`SLOW`. At its end it lists what it
left out. ``pytest -m ""`` runs everything.
"""

import gc
import os
import shlex
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # read when NumPy is imported; more threads would only wait
os.environ.setdefault("BREAKEVEN_FRESH_STARTS", "1")  # otherwise opening a page would import a framework

from hypothesis import HealthCheck, settings

from core.machine.environment import usable_cores

# The same examples on every machine, however busy it is. With --hypothesis-profile=random they differ from run to run
# and depend on --hypothesis-seed alone. A test's own folder is no state that one example could leave to the next.
TIMELESS = settings(
    deadline=None, database=None, print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)  # fmt: skip
settings.register_profile("same", TIMELESS, derandomize=True)
settings.register_profile("random", TIMELESS, derandomize=False)
settings.load_profile("same")
SLOW = ("browser", "tensorflow", "statistical", "pages", "processes", "ray")
MOST_PROCESSES = 8  # each holds Streamlit and Plotly in memory
POSTGRES = "BREAKEVEN_TEST_POSTGRES_URL"
LEFT_OUT = pytest.StashKey[Counter[str]]()
COLLECTED = pytest.StashKey[list[str]]()
"""Every test of this process, including those left out; then, after a “!”, each framework that was imported."""
FRAMEWORKS = ("tensorflow", "keras", "torch", "jax")


@pytest.fixture(autouse=True, scope="module")
def quick_collection() -> Iterator[None]:
    """Hide existing objects from the garbage collector while a file of tests runs.

    A process that has collected all tests and loaded the frameworks holds millions, which every full collection visits;
    Streamlit asks for one around every run of a script.
    """
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(autouse=True)
def data_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "data"
    monkeypatch.setenv("BREAKEVEN_DATA_DIR", str(folder))
    monkeypatch.setenv("BREAKEVEN_LOCK_DIR", str(tmp_path))
    monkeypatch.delenv("BREAKEVEN_DATABASE_URL", raising=False)
    monkeypatch.delenv("BREAKEVEN_CURRENCY", raising=False)
    return folder


@pytest.fixture
def no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuse a machine that is held as soon as asked, for a test that holds it throughout."""
    monkeypatch.setattr("core.machine.lock.PROBE_PATIENCE_S", 0.02)


@pytest.fixture(autouse=True)
def no_card(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide real cards, since an unusable one would have plans refused that simulated workers measure."""
    monkeypatch.setitem(sys.modules, "pynvml", None)


def pytest_configure(config: pytest.Config) -> None:
    config.stash[LEFT_OUT] = Counter()


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Return one process per core, but none for a single file, which is never divided."""
    files = {argument.split("::")[0] for argument in config.args}
    if len(files) == 1 and Path(files.pop()).is_file():
        return 0
    return min(usable_cores() or 1, MOST_PROCESSES)


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Iterator[None]:
    """Apply ``-m fast`` after ``-k``, so that a test counts as left out only if it would have run without it.

    Files with large simulations come first if ``--no-loadscope-reorder`` keeps this order: they take longest and have
    few tests, and pytest-xdist would leave them to the end, when one process works and the others wait.
    """
    config.stash[COLLECTED] = [item.nodeid for item in items] + [
        f"!{one}" for one in FRAMEWORKS if sys.modules.get(one)
    ]
    plain = config.option.markexpr == "fast"
    for item in items:
        if _slow(item) is None:
            item.add_marker("fast")
    config.option.markexpr = "" if plain else config.option.markexpr
    yield
    config.option.markexpr = "fast" if plain else config.option.markexpr
    chosen: list[pytest.Item] = []
    others: list[pytest.Item] = []
    for item in items:
        marker = _slow(item) if plain else None
        if item.get_closest_marker("postgres") and not os.environ.get(POSTGRES):
            marker = "postgres"
        config.stash[LEFT_OUT].update([marker] if marker else [])
        (others if marker else chosen).append(item)
    if others:
        config.hook.pytest_deselected(items=others)
    long = {item.path for item in chosen if item.get_closest_marker("statistical")}
    items[:] = sorted(chosen, key=lambda item: item.path not in long)


def _slow(item: pytest.Item) -> str | None:
    return next((marker for marker in SLOW if item.get_closest_marker(marker)), None)


def pytest_sessionfinish(session: pytest.Session) -> None:
    if hasattr(session.config, "workeroutput"):  # with pytest-xdist only its processes collect
        session.config.workeroutput["left_out"] = dict(session.config.stash[LEFT_OUT])


def pytest_testnodedown(node: Any) -> None:
    """Store what a process left out; each process has collected, and left out, the same."""
    node.config.stash[LEFT_OUT] = Counter(getattr(node, "workeroutput", {}).get("left_out", {}))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    left_out = config.stash[LEFT_OUT]
    if not left_out:
        return
    terminalreporter.section("left out")
    if counts := ", ".join(f"{left_out[marker]} {marker}" for marker in SLOW if marker in left_out):
        command = shlex.join(["pytest", "-m", "", *config.invocation_params.args]).replace("''", '""')
        terminalreporter.line(f"Slow tests: {counts}. With them: {command}")
    if left_out["postgres"]:
        terminalreporter.line(f"On PostgreSQL: {left_out['postgres']}. To run them, name a database in {POSTGRES}.")
