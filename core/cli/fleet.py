"""The ``fleet`` command: one plan on the machines of a Ray cluster, or a comparison of several machines' run files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import Any

import click

from core.base.evidence import Status
from core.base.numbers import counted
from core.base.schema import UserError, parse_json
from core.base.text import shown
from core.cli.choices import currency_option, read_plan
from core.cli.files import FILE, BadInput, Failure, check_writable, json_flag, read_bytes, refusing
from core.cli.lists import ListsCommand
from core.cli.plan_fields import plan_options
from core.cli.study_command import NOTHING, History, answered, stop_signals, store_option
from core.cli.terminal import say, shown_progress
from core.rounds.run import Run, RunRecord
from core.rounds.show.imports import read_run
from core.rounds.study import MAX_RECORD_BYTES, new_id
from core.studies.fleet.collect import Found, collect
from core.studies.fleet.record import FleetPlan, FleetStudy, MachinePrice, labels
from core.studies.kind import Context, Kind
from core.studies.progress import Progress
from core.studies.registry import kind_of
from core.studies.runner import Cancelled, NullRecorder, Recorder, Stop, StudyFailed, StudyTools
from core.studies.sweep.ledger import Ledger
from core.workload.spec import MAX_BUDGET_S


@click.command("fleet", ListsCommand)
@click.argument("path", type=FILE, metavar="[PLAN]", required=False)
@click.option("--machines", multiple=True, metavar="LABEL=VALUE,…", help="A machine with these labels; once for each.")
@plan_options(FleetPlan, "each", metavar="LABEL")
@click.option("--address", envvar="BREAKEVEN_RAY_ADDRESS", help="Of a Ray cluster: auto, host:port or ray://host:port.")
@plan_options(FleetPlan, "wait_s", type=click.FloatRange(1, MAX_BUDGET_S))
@click.option("--collect", multiple=True, type=FILE, help="Files of runs, one for each machine, in place of PLAN.")
@click.option("--price", "prices", multiple=True, help="An hour of a machine, such as node1=2.50; once for each.")
@click.option("--priced-on", help="The day of the prices, such as 2026-11-01 (default: today).")
@currency_option
@click.option("--out", type=FILE, help="Write what it says and was measured, in JSON.")
@json_flag
@click.option("--name", help="Name in the history.")
@store_option
def fleet_command(**flags: Any) -> None:
    """Measure a plan on several machines at once, and say which is the fastest at which batch.

    PLAN is a file as for “sweep --plan”. It runs on every machine of a Ray cluster, or on those that --machines or
    --each choose; each is had alone. With --collect nothing is measured: files of “sweep --out” are put together.
    """
    if flags["out"] is not None:
        check_writable(flags["out"])
    with History(flags["store"]) as history:
        study, error = _collected(flags) if flags["collect"] else _measured(flags, history)
        if study is None:
            if error is not None:
                raise error
            say(NOTHING)
            return
        if history.queue is not None:
            history.queue.add_study("fleet", new_id(), study if flags["collect"] else _bare(study), flags["name"])
        for machine in study.machines:
            if machine.state != "finished":
                say(f"{machine.name}: {machine.state}. {machine.reason}".rstrip())
        answered(fleet_kind(), study, Context(), flags, error)


def fleet_kind() -> Kind[Any, Any, Any]:
    return kind_of("fleet")


def _bare(study: FleetStudy) -> FleetStudy:
    """Return the study without its runs, which are in the history."""
    return study.model_copy(update={"runs": ()})


def _measured(flags: dict[str, Any], history: History) -> tuple[FleetStudy | None, Failure | None]:
    """Measure what the flags request; no study if stopped before there was a result. Raises BadInput."""
    from core.studies.fleet.run import connected, run_fleet
    from core.worker import clock, process

    plan, stop, recorder = _plan(flags), Stop(), RunsRecorder(history.queue or NullRecorder())
    with connected(plan) as cluster, stop_signals(stop):
        say(f"{plan.sweep.title} on a cluster of {counted(len(cluster.nodes()), 'machine')}")
        try:
            with shown_progress() as show, told(show) as report:
                tools = StudyTools(process.launch_processes, clock.WallClock(), stop, None, report, recorder)
                study = run_fleet(tools, plan, cluster)
        except Cancelled:
            return None, None
        except StudyFailed as error:
            return None, Failure(str(error))
    return study.model_copy(update={"runs": tuple(recorder.runs[run_id] for run_id in study.part_ids)}), None


class RunsRecorder:
    """Recorder in front of another one. ``runs`` holds the runs that ended, whole."""

    def __init__(self, recorder: Recorder) -> None:
        self.runs: dict[str, Run] = {}
        self._recorder = recorder
        self._ledgers: dict[str, Ledger] = {}

    def begin(self, run: Run) -> None:
        self._ledgers[run.id] = Ledger(run, self._recorder)

    def record(self, run_id: str, records: tuple[RunRecord, ...]) -> None:
        self._ledgers[run_id].add(*records)

    def finish(self, run_id: str, status: Status, elapsed_s: float) -> None:
        self.runs[run_id] = self._ledgers.pop(run_id).finish(status, elapsed_s)

    def delete(self, run_id: str) -> None:
        del self._ledgers[run_id]
        self._recorder.delete(run_id)


@contextmanager
def told(show: Any) -> Iterator[Any]:
    """Report progress, and each machine's reason for waiting or restarting once; the end reports other reasons."""
    reported: set[tuple[str, str]] = set()

    def report(progress: Progress) -> None:
        for machine in progress.record.machines:
            news = machine.reason and machine.state in ("waiting", "finished")
            if news and (machine.name, machine.reason) not in reported:
                reported.add((machine.name, machine.reason))
                say(f"{machine.name}: {machine.reason}")
        show(progress)

    yield report


def _plan(flags: dict[str, Any]) -> FleetPlan:
    """Return the plan from the flags. Raises BadInput."""
    if flags["path"] is None:
        raise BadInput("A fleet run needs a plan in JSON, as for “sweep --plan”, or --collect and files of runs.")
    sweep = read_plan(flags["path"])
    with refusing():
        return FleetPlan(
            sweep=sweep,
            machines=tuple(map(labels, flags["machines"])),
            each=flags["each"],
            address=flags["address"],
            prices=_prices(flags),
            wait_s=flags["wait_s"],
        )


def _prices(flags: dict[str, Any]) -> dict[str, MachinePrice]:
    """Return the prices by machine. Raises UserError."""
    dated, prices = flags["priced_on"] or date.today().isoformat(), {}
    for text in flags["prices"]:
        name, equals, amount = text.rpartition("=")
        if not (name.strip() and equals):
            raise UserError(f"“{shown(text)}” is no price; accepted is machine=2.50.")
        try:
            per_hour = float(amount)
        except ValueError:
            raise UserError(f"“{shown(amount)}” is no price; accepted is a number such as 2.50.") from None
        prices[name.strip()] = MachinePrice(per_hour=per_hour, currency=flags["money"].currency, dated=dated)
    return prices


def _collected(flags: dict[str, Any]) -> tuple[FleetStudy, Failure | None]:
    """Return the fleet run of several files; unreadable ones are reported and left out. Raises BadInput."""
    if chosen := [flag for flag in ("path", "machines", "each") if flags[flag]]:
        raise BadInput(f"--collect measures nothing; leave out {' and '.join(_flag(flag) for flag in chosen)}.")
    runs: list[Found] = []
    unread: list[str] = []
    for path in flags["collect"]:
        try:
            runs += found_in(path)
        except BadInput as error:
            unread.append(error.message)
    for sentence in unread:
        say(sentence)
    with refusing():
        study = collect(runs, _prices(flags), unread)
    for warning in study.warnings:
        if warning.text not in unread:
            say(warning.text)
    return study, None


def _flag(name: str) -> str:
    return "the plan" if name == "path" else f"--{name}"


def found_in(path: Path) -> Sequence[Found]:
    """Return the run in a file, or the runs of a fleet run. Raises BadInput."""
    data = read_bytes(path, MAX_RECORD_BYTES, "a run in JSON")
    with refusing(f"{shown(str(path))}: "):
        try:
            return (Found(path, read_run(data, path.name)),)
        except UserError:
            fleet = fleet_in(data)
            if fleet is None:
                raise
    names = {machine.run_id: machine.name for machine in fleet.machines}
    return [Found(path, run, names.get(run.id, "")) for run in fleet.runs]


def fleet_in(data: bytes) -> FleetStudy | None:
    """Return the fleet run in a file, at the top or under ``record``; None if there is none."""
    try:
        parsed = parse_json(data)
        record = parsed.get("record", parsed) if isinstance(parsed, dict) else None
        return FleetStudy.from_data(record) if isinstance(record, dict) and "machines" in record else None
    except UserError:
        return None
