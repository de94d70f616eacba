"""A real server on a free port with folders of its own, and a real browser, for the benchmarks of the dashboard."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).parents[1]
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync"]  # fmt: skip
START_S = 60.0
STOP_S = 40.0


@dataclass(frozen=True)
class Server:
    address: str
    process: psutil.Process

    def rss_mb(self) -> float:
        """Return the memory of the server process alone in MB (10⁶ bytes), without its workers."""
        return float(self.process.memory_info().rss / 1e6)

    def cpu_s(self) -> float:
        """Return the CPU seconds of the server process so far, without its workers."""
        times = self.process.cpu_times()
        return float(times.user + times.system)

    def has_tensorflow(self) -> bool:
        """Check that some library of TensorFlow is mapped into the server. Linux only (/proc)."""
        return "tensorflow" in Path(f"/proc/{self.process.pid}/maps").read_text().lower()


def environment(folder: Path) -> dict[str, str]:
    """Return variables that keep data and the machine's lock inside ``folder``."""
    return {"BREAKEVEN_DATA_DIR": str(folder / "data"), "BREAKEVEN_LOCK_DIR": str(folder)}


@contextlib.contextmanager
def running_server(
    folder: Path, variables: dict[str, str] | None = None, module: str = "streamlit"
) -> Iterator[Server]:
    """Run ``streamlit run app.py`` with its data in ``folder`` and yield the server.

    Args:
        variables: The server's whole environment, if its data are elsewhere.
        module: Run in place of ``streamlit``.

    Raises:
        RuntimeError: The server does not answer within a minute.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    command = [sys.executable, "-m", module, "run", "app.py", "--server.headless=true", f"--server.port={port}"]
    if variables is None:
        variables = {k: v for k, v in os.environ.items() if k != "BREAKEVEN_DATABASE_URL"} | environment(folder)
    with (folder / "server.log").open("wb") as log:
        process = subprocess.Popen(command, cwd=ROOT, env=variables, stdout=log, stderr=log)
        try:
            address = f"http://localhost:{port}"
            _wait_until_healthy(address, process)
            yield Server(address, psutil.Process(process.pid))
        finally:
            process.terminate()
            process.wait(STOP_S)


def _wait_until_healthy(address: str, process: subprocess.Popen[bytes]) -> None:
    end_s = time.monotonic() + START_S
    while time.monotonic() < end_s and process.poll() is None:
        with contextlib.suppress(OSError), urllib.request.urlopen(f"{address}/_stcore/health", timeout=2) as reply:
            if reply.read() == b"ok":
                return
        time.sleep(0.2)
    raise RuntimeError("The server did not start.")


@contextlib.contextmanager
def open_browser() -> Iterator[Any]:
    """Yield headless Chromium, driven by Playwright.

    Raises:
        RuntimeError: Chromium is not installed.
    """
    from playwright.sync_api import sync_playwright

    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        raise RuntimeError("Chromium is not installed; this benchmark needs a browser.")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, headless=True, args=FLAGS)
        try:
            yield browser
        finally:
            browser.close()


def new_tab(browser: Any, width: int, height: int, patience_ms: float = 120_000) -> Any:
    """Open a tab of that size in a profile of its own; whatever takes longer than ``patience_ms`` fails."""
    page = browser.new_context(viewport={"width": width, "height": height}).new_page()
    page.set_default_timeout(patience_ms)
    return page


def settle(page: Any) -> None:
    """Wait until the page's heading is there and Streamlit's script has ended."""
    page.locator("h1, h2, h3").first.wait_for()
    page.locator('[data-test-script-state="notRunning"]').first.wait_for(state="attached")


def browser_processes() -> list[psutil.Process]:
    """Return every process of the browser that this process started."""
    return [p for p in psutil.Process().children(recursive=True) if "chrom" in _name(p)]


def _name(process: psutil.Process) -> str:
    try:
        return str(process.name()).lower()
    except psutil.Error:
        return ""
