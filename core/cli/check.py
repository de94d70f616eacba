"""The ``check`` command: two checkouts or two Python environments measured in turn, or a step against a stored run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from core.base.files import read_limited, reason
from core.base.schema import parse_json
from core.base.text import json_text, shown
from core.cli.check_plan import check_asked
from core.cli.choices import workload_options
from core.cli.files import FILE, BadInput, Failure, check_writable, conclude, json_flag, read_file, refusing, write_out
from core.cli.networks import flag_of, network_flags, network_options
from core.cli.plan_fields import plan_options
from core.cli.study_command import History, measured, stop_signals
from core.cli.terminal import say
from core.rounds.run import Run
from core.studies.check.answer import CheckAnswer, Finding, check_answer
from core.studies.check.export import LIST, asv_files, bencher_data, check_data, check_markdown, check_text
from core.studies.check.record import CheckPlan, CheckRecord
from core.studies.check.run import CHECK
from core.studies.runner import Stop

MAX_LIST_BYTES = 20_000_000


def check_out(out: Path | None, bencher: Path | None, asv: Path | None) -> None:
    """Raise BadInput if a file could not be written, before any work is done for it."""
    for path in (out, bencher):
        if path is not None:
            check_writable(path)
    if asv is not None and not _is_folder(asv):
        raise BadInput(f"--asv {shown(str(asv))} is no folder; name the folder of results that asv.conf.json names.")


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):  # the name may be too long or invalid
        return False


def write_files(
    record: CheckRecord,
    answer: CheckAnswer,
    data: dict[str, Any],
    out: Path | None,
    bencher: Path | None,
    asv: Path | None,
) -> tuple[Failure | None, ...]:
    """Write the requested files; return the failures."""
    failures = [write_out(out, json_text(data)), write_out(bencher, json_text(bencher_data(record, answer)))]
    if asv is not None:
        failures.append(_write_asv(record, asv))
    return tuple(failures)


def _write_asv(record: CheckRecord, folder: Path) -> Failure | None:
    with refusing():
        files = asv_files(record)
    listed = folder / LIST
    if listed.exists():  # keep the project's own benchmarks
        with refusing(f"{shown(str(listed))}: "):
            known = parse_json(read_limited(listed, MAX_LIST_BYTES, "a list of asv's benchmarks"))
        files[LIST] = {**known, **files[LIST]} if isinstance(known, dict) else files[LIST]
    for name, content in files.items():
        path = folder / name
        try:
            path.parent.mkdir(exist_ok=True)
        except OSError as error:
            return Failure(f"{path.parent} could not be made: {reason(error)}.")
        if (failure := write_out(path, json_text(content))) is not None:
            return failure
    return None


STATUS: Mapping[Finding, int] = {"unchanged": 0, "faster": 0, "slower": 1, "inconclusive": 3}
STOPPED = "Stopped before there was anything to compare; it is not clear whether the step got slower."


@click.command("check")
@click.argument("path", type=FILE, metavar="[BASELINE]", required=False)
@click.option("--against", metavar="DIR_OR_COMMIT", help="Measure this checkout of your code, in turn with this one.")
@click.option("--python", metavar="PYTHON", help="Interpreter before an upgrade (default: the target's own).")
@click.option("--against-python", metavar="PYTHON", help="Interpreter after it: measure both environments in turn.")
@network_options()
@workload_options
@plan_options(CheckPlan, "max_slowdown", type=str)
@plan_options(CheckPlan, "budget_s")
@click.option("--target", help="One of the baseline's targets (default: the first); without a baseline, any.")
@plan_options(CheckPlan, "batches")
@click.option("--format", "form", type=click.Choice(["text", "md"]), default="text", show_default=True)
@json_flag
@click.option("--out", type=FILE, help="Write that JSON, with all that was measured.")
@click.option("--bencher", type=FILE, help="Write Bencher Metric Format.")
@click.option("--asv", type=FILE, help="Write into this folder of results of airspeed velocity.")
def check_command(**flags: Any) -> None:
    """Say whether a training or inference step got slower, by how much, and how sure that is.

    BASELINE is a run in JSON; its network, target and pipeline are what is measured. Two environments can be compared
    without one, on the network that flags name. Exit status: 0 no slowdown above what is allowed, 1 slower, 3 not
    clear, 2 bad input or nothing could be measured. Nothing is kept in the history.
    """
    with _own_status():
        check_out(flags["out"], flags["bencher"], flags["asv"])
        record = _measured(flags)
        answer = check_answer(record)
        data = check_data(record, answer)
        failures = write_files(record, answer, data, flags["out"], flags["bencher"], flags["asv"])
        words = check_markdown(record, answer) if flags["form"] == "md" else check_text(record, answer)
        conclude(words, data if flags["as_json"] else None, *failures)
    raise click.exceptions.Exit(STATUS[answer.verdict])


def _measured(flags: dict[str, Any]) -> CheckRecord:
    """Measure what the flags request. Raises KeyboardInterrupt if stopped before there was a result."""
    stop = Stop()

    def check() -> None:
        if stop.is_set():
            raise KeyboardInterrupt

    with stop_signals(stop), ExitStack() as checkouts:
        with refusing():
            run = None if flags["path"] is None else _baseline(flags)
            request = check_asked(run, flags, check, checkouts)
        record, error = measured(CHECK, request, History(False), stop)  # type: ignore[arg-type]
    if error is not None:
        raise error
    if record is None:
        raise KeyboardInterrupt
    return record


def _baseline(flags: dict[str, Any]) -> Run:
    """Return the run of the baseline. Raises BadInput, also for flags that name another network."""
    source = click.get_current_context().get_parameter_source
    names = {*network_flags(), "mode", "optimizer"} - {"model"}  # which permits the run's own code
    if named := sorted(flag_of(name) for name in names if source(name) is ParameterSource.COMMANDLINE):
        raise BadInput(f"Network, mode and optimizer are the baseline's; leave out {', '.join(named)}.")
    return read_file(flags["path"])


@contextmanager
def _own_status() -> Iterator[None]:
    """Map failures and Ctrl-C to exit statuses other than 1, which means a slower step."""
    try:
        yield
    except Failure as error:
        raise BadInput(error.message) from None
    except (KeyboardInterrupt, click.Abort):
        say(STOPPED)
        raise click.exceptions.Exit(STATUS["inconclusive"]) from None
