"""The campaign of injected faults: its checks can fail, and failures are counted and can be replayed."""

from __future__ import annotations

import json
import mmap
import os
import random
import re
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.faults.cases import CaseClass, Findings
from benchmarks.faults.command import Row, choose, classes, failures, main, markdown
from benchmarks.faults.entries import CommandResult, check_result
from benchmarks.faults.planted import Planted
from benchmarks.faults.scenarios import MAKE
from benchmarks.faults.simulated import Played, check_played
from core.studies.registry import kinds
from simulated.simulation import Curve


def found(played: Played) -> set[str]:
    findings = Findings()
    check_played(played, findings)
    return {count for count, _ in findings.violations}


def test_there_is_a_study_of_nearly_every_kind() -> None:
    assert set(MAKE) <= set(kinds())
    assert len(MAKE) >= len(kinds()) - 2


def test_it_is_as_large_as_promised() -> None:
    cases = {
        group: sum(of.cases for of in classes() if of.group == group) for group in ("simulated", "real", "hostile")
    }
    assert cases["real"] >= 60
    assert cases["simulated"] + cases["real"] >= 1_000
    assert cases["hostile"] >= 5_000


@pytest.mark.parametrize("kind", sorted(MAKE))
def test_a_study_without_a_fault_keeps_all_that_was_told(kind: str) -> None:
    played = Played(MAKE[kind](), Planted())
    assert played.record is not None
    assert found(played) == set()
    assert sorted(played.kept) == sorted(number for number in played.faulty.told if number is not None)


def test_what_the_checks_are_for_is_found() -> None:
    played = Played(MAKE["frontier"](), Planted())
    whole = played.record
    played.record = whole.model_copy(update={"rounds": whole.rounds[:-1]})
    assert found(played) == {"rounds lost"}
    blocks = tuple(block.model_copy(update={"step_ms": 2 * block.step_ms}) for block in whole.rounds[0].blocks)
    played.record = whole.model_copy(
        update={"rounds": (whole.rounds[0].model_copy(update={"blocks": blocks}), *whole.rounds[1:])}
    )
    assert "wrong numbers" in found(played)
    played.record, played.took_s = whole, 1e4
    assert found(played) == {"over time"}


def test_a_cell_that_says_something_else_than_without_the_fault_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    played = Played(MAKE["sweep"](), Planted())
    monkeypatch.setattr(played.scenario.machine, "curves", (Curve(0.4, 0.02), Curve(0.9, 0.003)))
    assert found(played) == {"wrong numbers"}


@pytest.mark.parametrize(
    ("result", "count"),
    [
        (CommandResult(1, "", "Traceback (most recent call last):\nKeyError: 1"), "tracebacks"),
        (CommandResult(1, "", "", "KeyError: 1"), "tracebacks"),
        (CommandResult(0, "a \x1b[31m name\n", ""), "else"),
        (CommandResult(2, "", "one\ntwo\n"), "else"),
        (CommandResult(2, "an answer", "refused\n"), "else"),
        (CommandResult(3, "", "one\n"), "else"),
        (CommandResult(2, "", "One sentence.\n"), None),
        (CommandResult(0, "An answer.\n", "Progress.\n"), None),
    ],
)
def test_what_a_command_must_not_say(result: CommandResult, count: str | None) -> None:
    findings = Findings()
    check_result(result, findings)
    assert [name for name, _ in findings.violations] == ([] if count is None else [count])


def _raises(_: random.Random, __: int, ___: Findings) -> None:
    raise KeyError("a case")


def _dies(_: random.Random, __: int, findings: Findings) -> None:
    findings.about("dies")
    os.kill(os.getpid(), signal.SIGKILL)


def _waits(_: random.Random, __: int, ___: Findings) -> None:
    time.sleep(600)


def _large(_: random.Random, __: int, ___: Findings) -> None:
    bytearray(b"x") * 1_050_000_000


def _holds(_: random.Random, __: int, ___: Findings) -> None: ...


@pytest.fixture
def mapped_file(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Map a file of 600 MB and read it, as libraries are: part of this process's memory, but not of its forks'."""
    path = tmp_path_factory.mktemp("mapped") / "file"
    with path.open("w+b") as file:
        file.truncate(600 * 10**6)
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as pages:
            assert not any(pages[:: mmap.PAGESIZE])
            yield
    path.unlink()


@pytest.mark.processes
@pytest.mark.usefixtures("mapped_file")
def test_each_case_is_watched_in_a_process_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from benchmarks.faults.children import play

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    checks = (_raises, _dies, _waits, _large, _holds)
    made = [CaseClass(check.__name__, "hostile", 1, check, True, 1.0 if check is _waits else 200.0) for check in checks]
    told = {of.name: findings for of, _, findings in play([(of, 0) for of in made], 1, 2)}
    counts = {name: [count for count, _ in findings.violations] for name, findings in told.items()}
    assert counts == {
        "_raises": ["tracebacks"], "_dies": ["tracebacks"], "_waits": ["over time"], "_large": ["over 1 GB"],
        "_holds": [],
    }  # fmt: skip
    assert told["_dies"].case == "dies"
    assert not list(tmp_path.iterdir())


def test_a_table_names_what_failed() -> None:
    row = Row(CaseClass("name", "real", 2, _holds))
    row.add(0, Findings())
    row.add(1, Findings([("orphans", "one left"), ("orphans", "two left")], "a case"))
    assert "| name | 2 | 0 | 1 | 0 | 0 | 0 | 0 | 0 |" in markdown([row])
    assert "--seed 7 --only" in failures([row], 7)[0]


@pytest.mark.processes
@pytest.mark.skipif(sys.platform != "linux", reason="the campaign is for Linux")
def test_a_case_hears_the_signals_that_the_campaign_was_started_to_ignore(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from benchmarks.faults.started import IN_A_TERMINAL, Started

    monkeypatch.chdir(tmp_path)
    before = [signal.signal(number, signal.SIG_IGN) for number in IN_A_TERMINAL]
    try:
        started = Started("--help")
    finally:
        for number, handler in zip(IN_A_TERMINAL, before, strict=True):
            signal.signal(number, handler)
    status = Path(f"/proc/{started.process.pid}/status").read_text()
    ignored = int(re.search(r"SigIgn:\s*(\w+)", status)[1], 16)  # type: ignore[index]
    assert not any(ignored >> (number - 1) & 1 for number in IN_A_TERMINAL)
    assert started.wait(60) is not None


def test_one_case_can_be_chosen() -> None:
    ((of, indices),) = choose(["run JSON:17"], (), 1.0)
    assert (of.name, list(indices)) == ("run JSON", [17])
    with pytest.raises(ValueError, match="no class “nothing"):
        choose(["nothing of that name"], (), 1.0)


@pytest.mark.processes
def test_a_small_part_of_it_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a small part; the whole takes some 25 minutes: ``python -m benchmarks.faults``."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    out = tmp_path / "out.json"
    only = [part for name in ("nothing", "CSV for verdict:3", "plans:5", "GPU cards:1") for part in ("--only", name)]
    assert main([*only, "--seed", "1", "--out", str(out)]) == 0
    assert sum(row["cases"] for row in json.loads(out.read_text())["classes"]) == len(MAKE) + 3
