"""``sweep``: measure a plan here, with progress on stderr; the verdict goes to stdout, the run to a file and the store.

Ctrl-C or SIGTERM ends the sweep and keeps what was measured, as pressing Cancel on the page does.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from core.analysis.cudnn import cudnn_note
from core.analysis.memory import check_fits, estimate_bytes
from core.cli.answers import answer_of
from core.cli.choices import make_plan, plan_options
from core.cli.devices import default_targets
from core.cli.files import BadInput, Failure, check_writable, write_file
from core.cli.model_code import launcher_for
from core.cli.text import size, verdict_text
from core.environment import available_memory_bytes, list_devices
from core.measure.progress import Record, Recorder, Snapshot
from core.measure.protocol import Launcher
from core.results import Run, Status
from core.spec import SweepPlan

if TYPE_CHECKING:
    from core.store import Store

STOPPING = b"\nStopping; what was measured is kept.\n"
REFRESH_S = 2.0


@click.command()
@plan_options
@click.option("--out", type=click.Path(path_type=Path), help="Write the run to this file, in JSON.")
@click.option("--name", help="Name of the run in the history.")
@click.option("--store/--no-store", default=True, help="Keep the run in this machine's history (default: yes).")
@click.pass_context
def sweep(context: click.Context, out: Path | None, name: str | None, store: bool, **_: Any) -> None:
    """Measure two targets against each other on this machine, and print the verdict."""
    cancel = threading.Event()
    with stop_signals(cancel):
        plan = make_plan(context, lambda: default_targets(list_devices()))
        if out is not None:
            check_writable(out)
        launcher = launcher_for(plan.workload.network, context.params["model"])
        _describe(plan)
        keeper = _Keeper(_open_store() if store else None, out is not None)
        run, error = _measure(plan, name, keeper, cancel, launcher)
        if out is not None and (run.rounds or error is None):
            write_file(out, run.to_json(indent=1) + "\n")
            say(f"Wrote {out}.")
    if error is not None:
        raise Failure(error)
    if run.rounds:
        click.echo(verdict_text(run, answer_of(run)))
    elif run.status == "cancelled":
        say("Stopped before the first round; nothing was measured.")
    else:
        raise Failure(f"No cell could be measured. {next((c.reason for c in run.cells if c.reason), '')}".rstrip())


class _Keeper:
    """The store as a recorder, without which a sweep still goes on: its failure is told once, ``--out`` has it all."""

    def __init__(self, store: Store | None, has_file: bool) -> None:
        self._store = store
        self._elsewhere = "the run still goes to --out" if has_file else "only the verdict will be printed"

    def begin(self, run: Run) -> None:
        self._try(lambda store: store.begin(run))

    def record(self, run_id: str, records: tuple[Record, ...]) -> None:
        self._try(lambda store: store.record(run_id, records))

    def finish(self, run_id: str, status: Status, elapsed_s: float) -> None:
        self._try(lambda store: store.finish(run_id, status, elapsed_s))

    def _try(self, act: Callable[[Store], None]) -> None:
        from core.store import StoreError

        if self._store is None:
            return
        try:
            act(self._store)
        except StoreError as error:
            self._store = None
            say(f"The history stopped: {error} The sweep goes on; {self._elsewhere}.")


def _open_store() -> Store:
    from core.store import Store, StoreError

    try:
        return Store()
    except StoreError as error:
        raise Failure(f"{error} With --no-store a sweep runs without the history.") from None


def _measure(
    plan: SweepPlan, name: str | None, recorder: Recorder, cancel: threading.Event, launcher: Launcher
) -> tuple[Run, str | None]:
    """Run the sweep in this thread, under the machine's lock: the run as far as it came, and what ended it early."""
    from core.measure.clock import WallClock
    from core.measure.jobs import new_run
    from core.measure.lock import Busy, machine_lock
    from core.measure.noise import NoiseSampler
    from core.measure.pair import SweepFailed
    from core.measure.supervisor import run_sweep
    from core.store import new_run_id

    run = new_run(new_run_id(), plan, name)
    try:
        with machine_lock(run.name), _progress(plan.budget_s) as show:

            def on_progress(snapshot: Snapshot) -> None:
                nonlocal run
                run = snapshot.run
                show(snapshot)

            finished = run_sweep(
                run,
                launcher=launcher,
                clock=WallClock(),
                recorder=recorder,
                cancel=cancel,
                on_progress=on_progress,
                noise=NoiseSampler(),
            )
        return finished, None
    except (Busy, SweepFailed) as error:
        return run, str(error)


def _describe(plan: SweepPlan) -> None:
    """Say what will run and what it needs. Raises BadInput when it cannot fit in memory."""
    network, largest = plan.workload.network, plan.batches[-1]
    say(plan.title)
    say(f"{network.parameters:,} parameters, {plan.workload.flops_per_sample:,} FLOPs a sample, {plan.pipeline.title}")
    for target in plan.targets:
        needed = estimate_bytes(plan.workload, target, largest).total_bytes
        say(f"{target}: about {size(needed)} of memory at batch {largest:,} (estimated)")
    if (note := cudnn_note(plan.workload, plan.targets)) is not None:
        say(note)
    available = available_memory_bytes()
    if available is not None:
        try:
            check_fits(plan, available)
        except ValueError as error:
            raise BadInput(str(error)) from None


@contextmanager
def stop_signals(cancel: threading.Event) -> Iterator[None]:
    """The first signal cancels the sweep, which then ends in order; a second one ends the program."""

    def stop(_: int, __: FrameType | None) -> None:
        if cancel.is_set():
            raise KeyboardInterrupt
        cancel.set()
        with suppress(OSError):
            os.write(2, STOPPING)  # a handler may interrupt a print, so it does not print

    names = ("SIGINT", "SIGTERM", "SIGHUP")
    with ExitStack() as stack:
        for number in (getattr(signal, name) for name in names if hasattr(signal, name)):
            stack.callback(signal.signal, number, signal.signal(number, stop))
        yield


@contextmanager
def _progress(budget_s: float) -> Iterator[Callable[[Snapshot], None]]:
    """What shows snapshots on stderr: a bar in a terminal, plain lines elsewhere."""
    if not sys.stderr.isatty():
        yield _PlainLines()
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
    from rich.table import Column

    words = TextColumn("{task.description}", markup=False, table_column=Column(ratio=1))
    columns = (BarColumn(bar_width=20), TimeElapsedColumn(), words)
    # drawn once a second: drawing more often would take time from what is measured
    with Progress(*columns, console=Console(stderr=True), transient=True, expand=True, refresh_per_second=1) as bar:
        task = bar.add_task("Starting", total=budget_s)
        yield lambda snapshot: bar.update(task, completed=snapshot.progress.elapsed_s, description=_words(snapshot))


class _PlainLines:
    """A line whenever the phase changes, and otherwise every two seconds at most."""

    def __init__(self) -> None:
        self._phase, self._last_s = "", float("-inf")

    def __call__(self, snapshot: Snapshot) -> None:
        progress = snapshot.progress
        if progress.phase != self._phase or progress.elapsed_s - self._last_s >= REFRESH_S:
            self._phase, self._last_s = progress.phase, progress.elapsed_s
            say(f"{progress.elapsed_s:6.1f} s  {_words(snapshot)}")


def _words(snapshot: Snapshot) -> str:
    progress = snapshot.progress
    so_far = f"  So far: {snapshot.answer.verdict.sentence}" if snapshot.answer else ""
    return f"{progress.activity} ({progress.cells_done} of {progress.cells_total} cells).{so_far}"


def say(text: str) -> None:
    """A line on stderr."""
    click.echo(text, err=True)
