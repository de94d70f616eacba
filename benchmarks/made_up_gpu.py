"""A made-up GPU for the real program, for viewing its output: nothing that it shows is a measurement.

    python -m benchmarks.made_up_gpu --state throttled [--out FOLDER] [--budget SECONDS] [--shots] [--serve PORT]

Runs the real commands ``devices`` and ``sweep`` with a made-up card in that state (simulated/made_up) and keeps
their output, with ``run.json``, in FOLDER/STATE. ``--shots`` takes pictures of the pages, before and after the run;
``--serve`` then shows them in a browser until it is stopped.
"""

from __future__ import annotations

import argparse
import contextlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from benchmarks.server import ROOT, open_browser, running_server, settle
from simulated.made_up.states import STATES, environment

SIZES: tuple[tuple[int, int, Literal["light", "dark"]], ...] = ((1440, 900, "light"), (1024, 768, "dark"))
PAGES = ("crossover", "overhead", "method")
OTHER = "made-up-training"  # the process that shares the card
COMMAND_S = 300.0


@contextlib.contextmanager
def state_environment(name: str, folder: Path) -> Iterator[dict[str, str]]:
    """Yield the environment of the real program in that state, while the other process on the card runs."""
    folder.mkdir(parents=True, exist_ok=True)
    if STATES[name].other_bytes is None:
        yield environment(name, folder)
        return
    program = folder / OTHER
    program.unlink(missing_ok=True)
    program.symlink_to(shutil.which("sleep") or "/bin/sleep")
    other = subprocess.Popen([program, "3600"])
    try:
        yield environment(name, folder, other.pid)
    finally:
        other.kill()
        other.wait()


def run_command(variables: dict[str, str], folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run ``python -m core`` with these arguments and keep its output in the folder."""
    command = [sys.executable, "-m", "core", *arguments]
    done = subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True, timeout=COMMAND_S)
    transcript = f"$ breakeven {' '.join(arguments)}\n{done.stdout}{done.stderr}[exit status {done.returncode}]\n"
    (folder / f"{arguments[0]}.txt").write_text(transcript)
    print(transcript)
    return done


def sweep_arguments(state: str, folder: Path, budget_s: float) -> tuple[str, ...]:
    return (
        "sweep", "--preset", "784-128-10", "--targets", *STATES[state].targets, "--batches", "1:2048",
        "--budget", f"{budget_s:g}", "--name", f"Made-up GPU (simulated), {state}", "--out", str(folder / "run.json"),
    )  # fmt: skip


def take_shots(address: str, folder: Path, when: str, pages: dict[str, str]) -> None:
    """Take a picture of the whole of each page in each size."""
    with open_browser() as browser:
        for width, height, scheme in SIZES:
            context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
            page = context.new_page()
            page.set_default_timeout(60_000)
            for name, path in pages.items():
                page.goto(f"{address}/{path}")
                _whole(page, height)
                page.screenshot(path=folder / f"{when}-{name}-{width}-{scheme}.png")
                page.set_viewport_size({"width": width, "height": height})
            context.close()


def _whole(page: Any, height: int) -> None:
    """Wait until the page is drawn, then make the window as high as its content, which scrolls inside it."""
    for _ in range(2):
        settle(page)
        page.wait_for_timeout(1_500)
        content = page.evaluate("document.querySelector('[data-testid=stMain]')?.scrollHeight || 0")
        page.set_viewport_size({"width": page.viewport_size["width"], "height": max(height, min(content, 9_000))})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--state", choices=list(STATES), action="append", help="once for each; default: all")
    parser.add_argument("--out", type=Path, default=Path(tempfile.gettempdir()) / "made-up-gpu", metavar="FOLDER")
    parser.add_argument("--budget", type=float, default=25.0, metavar="SECONDS")
    parser.add_argument("--shots", action="store_true", help="pictures of the pages, too")
    parser.add_argument("--serve", type=int, metavar="PORT", help="then show the last state's pages here")
    options = parser.parse_args()
    for state in options.state or STATES:
        folder = options.out.resolve() / state
        shutil.rmtree(folder, ignore_errors=True)
        with state_environment(state, folder) as variables:
            show(state, folder, variables, options)
            if options.serve and state == (options.state or list(STATES))[-1]:
                command = [sys.executable, "-m", "streamlit", "run", "app.py", "--server.headless=true"]
                subprocess.run([*command, f"--server.port={options.serve}"], cwd=ROOT, env=variables)


def show(state: str, folder: Path, variables: dict[str, str], options: argparse.Namespace) -> None:
    print(f"== {state}: {STATES[state].says} (made up)")
    run_command(variables, folder, "devices")
    if options.shots:
        with running_server(folder, variables) as server:
            take_shots(server.address, folder, "before", {"sweep": ""})
    measured = run_command(variables, folder, *sweep_arguments(state, folder, options.budget)).returncode == 0
    if options.shots and measured:
        with running_server(folder, variables) as server:
            take_shots(server.address, folder, "after", {"sweep": ""} | {name: name for name in PAGES})


if __name__ == "__main__":
    main()
