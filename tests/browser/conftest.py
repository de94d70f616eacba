"""A real server and a real browser. The tests of a file share one of each; those that write have their own server."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from core.store import Store
from simulated.frontier_studies import make_frontier_study
from simulated.noises import make_noise_study
from simulated.runs import make_run
from simulated.scalings import make_scaling_study
from tests.support.browser import PATIENCE_MS
from tests.support.servers import answer, free_port

ROOT = Path(__file__).parents[2]
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync"]  # fmt: skip


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield the address of a server with a stored run and studies, for tests that only look at it."""
    folder = tmp_path_factory.mktemp("server")
    with _served(folder, studies=True) as address:
        yield address


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[str]:
    """Yield the address of a server with a stored run, for a test that writes or must be the first."""
    with _served(tmp_path, studies=False) as address:
        yield address


@pytest.fixture
def serve() -> Callable[..., Any]:
    """Return a function that serves a folder, for a test that outlives its server."""
    return _served


@contextmanager
def _served(folder: Path, studies: bool, variables: dict[str, str] | None = None) -> Iterator[str]:
    """Serve a new store, and check at the end that the server lives and has loaded no framework.

    It ends with its children.

    Args:
        variables: Its environment; by default this process's, in which other tests may have hidden all GPUs.
    """
    _fill(folder / "data", studies)
    address = f"http://localhost:{(port := free_port())}"
    command = [sys.executable, "-m", "streamlit", "run", "app.py", "--server.headless=true", f"--server.port={port}"]
    environment = dict(os.environ if variables is None else variables)
    environment |= {"BREAKEVEN_DATA_DIR": str(folder / "data"), "BREAKEVEN_LOCK_DIR": str(folder)}
    log = (folder / "server.log").open("wb")
    process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=log)
    try:
        assert answer(process, f"{address}/_stcore/health") == b"ok"
        yield address
        assert process.poll() is None, "the server died"
        assert "tensorflow" not in _loaded(process.pid)
    finally:
        children = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
        process.terminate()
        process.wait(40)
        log.close()
    assert not [child for child in children if child.is_running() and child.status() != psutil.STATUS_ZOMBIE]


def _fill(data: Path, studies: bool) -> None:
    run = make_run(1, label="measured")
    store = Store(f"sqlite:///{data / 'runs.sqlite3'}")
    store.begin(run)
    store.finish(run.id, "finished", 17.0)
    if studies:
        store.add_study("frontier", "study-a", make_frontier_study())
        store.add_study("scaling", "study-s", make_scaling_study())
        store.add_study("noise", "20260107-noise", make_noise_study(run))
    store.close()


def _loaded(pid: int) -> str:
    """Return the shared libraries mapped into the server, if the system shows them."""
    maps = Path(f"/proc/{pid}/maps")
    return maps.read_text().lower() if maps.exists() else ""


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        pytest.skip("Chromium is not installed, so no browser test can run")
    with playwright.sync_playwright() as running:
        browser = running.chromium.launch(executable_path=path, headless=True, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def open_tab(chromium: Any) -> Iterator[Callable[..., Any]]:
    """Yield a function that opens an address in a browser without state of other tests."""
    contexts = []

    def open_tab(address: str, **options: Any) -> Any:
        contexts.append(chromium.new_context(viewport={"width": 1280, "height": 900}, **options))
        page = contexts[-1].new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.goto(address)
        return page

    yield open_tab
    for context in contexts:
        context.close()
