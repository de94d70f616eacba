"""Common behaviour of all measuring commands: Ctrl-C, --out, the history, a busy machine, a full disk."""

import json
import signal
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from core.machine.lock import machine_lock
from core.rounds.run import Run
from core.store import Store, StoreError
from core.store.rows import content
from core.store.tables import StoreUnavailable
from core.studies import store_queue
from core.studies.registry import kind_of, read_record
from simulated.commands import Command, done, holds, refused, stop_at
from simulated.kinds import cases
from simulated.memories import GB
from simulated.runs import make_run
from simulated.simulation import Fault, Machine

COMMANDS = {name: tuple(case.command.split()) for name, case in cases().items() if case.command}


@pytest.fixture(params=COMMANDS)
def name(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the kind, whose command runs in a folder that holds a run."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.json").write_text(make_run(3, label="measured").to_json())
    return str(request.param)


@pytest.fixture(autouse=True)
def workers(name: str, machine: Machine, request: pytest.FixtureRequest) -> Any:
    """Return simulated workers that fit the command."""
    if name == "diagnosis":
        machine.law = lambda request, _: 1.0 + 0.01 * request.batch
        machine.curves = machine.curves * 4  # maximum of workers that variants need
        machine.__post_init__()
    return request.getfixturevalue("limited") if name == "memory" else machine


def same(kept: Any, written: Any) -> bool:
    """Check that two records are the same evidence; the store keeps a sweep's cells and traces in another order."""
    if not isinstance(kept, Run):
        return bool(kept == written)
    return _evidence(kept) == _evidence(written)


def _evidence(run: Run) -> str:
    return content(run.model_copy(update={"traces": tuple(sorted(run.traces, key=_place))}))


def _place(cell: Any) -> tuple[int, int]:
    return cell.target, cell.batch


def stored(name: str) -> list[Any]:
    store = Store()
    records = [store.study(kind_of(name), summary.id) for summary in store.summaries(name)]
    store.close()
    return records


def test_what_was_measured_is_printed_written_and_kept_under_its_name(cli: Command, name: str, tmp_path: Path) -> None:
    out, err = done(cli(*COMMANDS[name], "--out", "out.json", "--name", "New disk", "--json"))
    assert err.splitlines()[-1] == "Wrote out.json."
    assert (tmp_path / "out.json").read_text() == out
    assert out.startswith('{\n "')
    (kept,) = stored(name)
    written = read_record(kind_of(name), out)
    assert same(kept, written)
    assert kept.status == "finished"
    store = Store()
    assert [summary.name for summary in store.summaries(name)] == ["New disk"]
    store.close()


def test_no_store_keeps_nothing(cli: Command, name: str) -> None:
    assert cli(*COMMANDS[name], "--no-store")[0] == 0
    assert stored(name) == []


def test_stopping_before_the_first_round_is_no_failure_and_leaves_nothing(
    cli: Command, workers: Any, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop_at(workers, monkeypatch, 0.001)
    if name == "memory":  # its first probe is one measurement, which a signal does not interrupt
        monkeypatch.setattr("core.studies.memory.run._Search._probe", lambda *_: pytest.fail("probed"))
        signal_first(monkeypatch)
    status, out, err = cli(*COMMANDS[name], "--out", "out.json")
    assert (status, out) == (0, "")
    assert err.splitlines()[-1].startswith("Stopped before")
    assert not (tmp_path / "out.json").exists()
    assert stored(name) == []


def signal_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Send Ctrl-C while the study is being prepared."""
    from core.studies.memory import run

    forecast = run.forecast

    def stopping(*arguments: Any) -> Any:
        signal.raise_signal(signal.SIGINT)
        return forecast(*arguments)

    monkeypatch.setattr(run, "forecast", stopping)


@pytest.fixture
def hang_up() -> Iterator[Callable[[Any], object]]:
    """Set what this program does at the end of its terminal: these tests may have been started by nohup."""
    before = signal.getsignal(signal.SIGHUP)
    yield partial(signal.signal, signal.SIGHUP)
    signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize(
    ("number", "as_what"),
    [(signal.SIGINT, "cancelled"), (signal.SIGTERM, "interrupted"), (signal.SIGHUP, "interrupted")],
)
def test_stopping_later_keeps_and_writes_what_was_measured(
    cli: Command, workers: Any, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hang_up: Any,
    number: signal.Signals, as_what: str,
) -> None:  # fmt: skip
    hang_up(signal.SIG_DFL)
    stop_at(workers, monkeypatch, 25.0 if name == "sweep" else 15.0, number)
    handler = signal.getsignal(signal.SIGINT)
    out, err = done(cli(*COMMANDS[name], "--out", "out.json"))
    assert "Stopping; " in err
    assert err.splitlines()[-1] == "Wrote out.json."
    assert out
    written = read_record(kind_of(name), (tmp_path / "out.json").read_text())
    assert written.status == as_what
    (kept,) = stored(name)
    assert same(kept, written)
    assert signal.getsignal(signal.SIGINT) is handler


@pytest.mark.processes
def test_a_study_under_nohup_goes_on_after_the_end_of_its_terminal(
    cli: Command, workers: Any, name: str, monkeypatch: pytest.MonkeyPatch, hang_up: Any
) -> None:
    hang_up(signal.SIG_IGN)
    stop_at(workers, monkeypatch, 25.0 if name == "sweep" else 15.0, signal.SIGHUP)
    done(cli(*COMMANDS[name]))
    (kept,) = stored(name)
    assert kept.status == "finished"


@pytest.mark.usefixtures("no_patience")
def test_a_busy_machine_is_a_failure_with_a_sentence(cli: Command, name: str, tmp_path: Path) -> None:
    with machine_lock("something else"):
        status, out, err = cli(*COMMANDS[name], "--out", "out.json")
    assert (status, out) == (1, "")
    assert "measuring" in err.splitlines()[-1]
    assert not (tmp_path / "out.json").exists()


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [(("--out", "/nowhere/out.json"), "cannot be written"), (("--surprise",), "--surprise"), (("--budget", "nan"), "")],
    ids=["out", "unknown", "budget"],
)
def test_what_no_command_accepts_is_refused_first(
    cli: Command, workers: Any, name: str, flags: tuple[str, ...], sentence: str
) -> None:
    assert sentence in refused(cli(*COMMANDS[name], *flags)).splitlines()[-1]
    assert workers.clock.now_s() == 0


@pytest.mark.parametrize(
    ("name", "flags", "sentence"),
    [
        ("pipeline", ("--batch", 0), "between 1 and 65,536"),
        ("pipeline", ("--budget", 1), "between 2 and 86,400 seconds"),
        ("pipeline", ("--target", "npu"), "device “npu” is unknown"),
        ("pipeline", ("--preset", "9-9"), "9-9"),
        ("pipeline", ("--prefetch", "some"), "--prefetch is “some”"),
        ("pipeline", ("--parallel-calls", "0"), "parallel_calls"),
        ("pipeline", ("--preprocess-us", -1), "between 0 and 1,000,000 µs per sample"),
        ("pipeline", ("--data", "/nowhere/x.npz"), "There is nothing at /nowhere/x.npz on this machine."),
        ("pipeline", ("--data", ""), "No path is given"),
        ("pipeline", ("--data", "https://x/y.npz"), "a path on this machine"),
        ("frontier", ("--depth", 2), "--depth is an axis of the map; write --depths 2"),
        ("frontier", ("--depths", "x"), "The depth values “x” are not understood"),
        ("frontier", ("--widths", "4"), "depth 2 with width 4 cannot be built"),
        ("frontier", ("--batches", "0,1"), "at least 1"),
        ("frontier", ("--at", "2,256"), "--at is “2,256”; accepted are three whole numbers"),
        ("frontier", ("--at", "9,256,8"), "the operating point's depth is 9; the map goes from 2 to 4"),
        ("frontier", ("--heads", 2), "--heads is no size of mlp"),
        ("frontier", ("--targets", "cpu", "cpu"), "two targets are “cpu”"),
        ("frontier", ("--budget", 1), "between 2 and 86,400 seconds"),
        (
            "diagnosis",
            ("--target", "gpu:7"),
            "“gpu:7” is no target of this run; it has cpu,threads=1 and cpu,threads=2.",
        ),
        ("diagnosis", ("--batch", "0"), "The batch size must lie between 1 and 65,536."),
        ("diagnosis", ("--batch", "65537"), "must lie between 1 and 65,536"),
        ("diagnosis", ("--batch", "many"), "--batch"),
        ("diagnosis", ("--budget", "9.9"), "The budget must lie between 10 and 86,400 seconds."),
        ("diagnosis", ("--budget", "90000"), "between 10 and 86,400"),
        ("memory", ("--limit", "lots"), "The limit “lots” is not understood"),
        ("memory", ("--limit", "4"), "is not understood"),
        ("memory", ("--limit", "1MB"), "accepted are 100MB"),
        ("memory", ("--budget", 1), "between 2 and 86,400 seconds"),
        ("memory", ("--target", "npu"), "device “npu” is unknown"),
        ("memory", ("--preset", "9-9"), "9-9"),
    ],
    indirect=["name"],
)
def test_a_choice_that_is_not_possible_is_refused_first(
    cli: Command, workers: Any, name: str, flags: tuple[object, ...], sentence: str
) -> None:
    assert sentence in refused(cli(*COMMANDS[name], *flags)).splitlines()[-1]
    assert workers.clock.now_s() == 0


def test_nothing_measured_is_one_sentence_and_status_1(cli: Command, workers: Any, name: str, tmp_path: Path) -> None:
    sentence = "Planted fault: out_of_memory at batch "
    if name == "memory":
        workers.free_bytes, sentence = GB, "only 1.00 GB are free now"
    else:
        workers.faults = tuple(Fault(target=target, batch=1, outcome="out_of_memory") for target in (0, 1))
    status, out, err = cli(*COMMANDS[name], "--out", "out.json")
    assert (status, out) == (1, "")
    assert sentence in err.splitlines()[-1]
    assert err.splitlines()[-1].startswith("Nothing could be") is (name == "sweep")
    assert not (tmp_path / "out.json").exists()
    # only a sweep stores why each cell failed
    assert [record.status for record in stored(name)] == (["failed"] if name == "sweep" else [])


@pytest.mark.parametrize("kind", [StoreError, StoreUnavailable])
def test_a_full_store_costs_the_history_not_the_study(
    cli: Command, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: type[StoreError]
) -> None:
    def full(*_: object) -> None:
        raise kind("The disk is full.")

    monkeypatch.setattr(store_queue, "LAST_WAIT_S", 0.1)
    monkeypatch.setattr(store_queue, "WAIT_S", 0.1)
    monkeypatch.setattr(Store, "record" if name == "sweep" else "add_study", full)
    out, err = done(cli(*COMMANDS[name], "--out", "out.json"))
    assert out
    last = err.splitlines()[-1]
    holds(last, "The history lacks", "disk is full", "--out")
    assert json.loads((tmp_path / "out.json").read_text())
