"""Faults in studies of every kind on simulated machines; the seed determines what workers do, and when."""

from __future__ import annotations

import random
import threading
from functools import cache
from typing import Any

from benchmarks.faults.cases import FIRST_HANG_S, LATE_S, LATE_SHARE, CaseClass, Findings
from benchmarks.faults.planted import FaultyMachine, How, Planted
from benchmarks.faults.scenarios import MAKE, numbers_of
from core.base.evidence import Outcome
from core.base.schema import UserError
from core.studies.kind import Context
from core.studies.progress import Progress
from core.studies.registry import kinds
from core.studies.runner import StudyTools
from simulated.causes import make_case
from simulated.kinds import Scenario
from simulated.sweeps import MemoryRecorder

NEAR = 1e-4  # relative; the change that makes each number unique is far smaller
LOST: tuple[Outcome, ...] = ("crashed", "hung", "out_of_memory")
FAILED: tuple[Outcome, ...] = ("out_of_memory", "nan_loss", "misplaced", "error", "crashed", "hung")
HOW: tuple[How, ...] = ("once", "once", "same target", "everything")


class Played:
    """One study with a planted fault: its record or its failure, what was reported, what was stored meanwhile."""

    def __init__(self, scenario: Scenario, planted: Planted) -> None:
        self.scenario, cancel = scenario, threading.Event()
        self.faulty = FaultyMachine(scenario.machine, planted, cancel)
        self.recorder, self.shown = MemoryRecorder(), None
        self.record: Any = None
        self.error: UserError | None = None
        tools = StudyTools(self.faulty.launch, self.faulty.clock, cancel, None, self._report, self.recorder)
        begin_s = self.faulty.clock.now_s()
        try:
            self.record = scenario.measure(tools)
        except UserError as error:
            self.error = error
        finally:
            self.took_s = self.faulty.clock.now_s() - begin_s - self.faulty.injected_s

    def _report(self, progress: Progress) -> None:
        self.shown = progress.record or self.shown

    @property
    def kept(self) -> list[float]:
        """Return the remaining numbers; for a failed study those shown last, which commands write and pages show."""
        left = self.record if self.record is not None else self.shown
        return [] if left is None else numbers_of(left)


@cache
def requests(kind: str) -> int:
    """Return the number of requests of a study without a fault, after checking that it succeeds."""
    played = Played(MAKE[kind](), Planted())
    assert played.record is not None, f"{kind} fails without a fault: {played.error}"
    return played.faulty.requests


def check_played(played: Played, findings: Findings) -> None:
    """Check what must hold whatever fault was planted."""
    scenario, faulty, record = played.scenario, played.faulty, played.record
    findings.require(not faulty.open, "else", f"{len(faulty.open)} workers were not closed")
    limit_s = (1 + LATE_SHARE) * scenario.budget_s + (FIRST_HANG_S if faulty.first_hung else LATE_S)
    if faulty.planted.what == "slow":
        limit_s += faulty.slowest_s
    words = f"{played.took_s:.0f} s of a budget of {scenario.budget_s:.0f} s"
    findings.require(played.took_s <= limit_s, "over time", words)
    _check_kept(played, findings)
    if record is None:
        sentence = str(played.error)
        findings.require(
            bool(sentence) and "\n" not in sentence and sentence.isprintable(), "else", f"no sentence: {sentence!r}"
        )
        return
    kind = kinds()[scenario.kind]
    same = kind.record.from_json(record.to_json())
    findings.require(same == record, "wrong numbers", "the record does not read back as it was")
    context = Context(run=make_case("precision", 3).run if scenario.kind == "diagnosis" else None)
    with findings.watching(UserError):
        answer = kind.answer(record, context)
        kind.text(record, answer, context)
        kind.export(record, answer, context)
        if scenario.kind == "sweep" and faulty.planted.what != "slow":
            _check_cells(played, answer.cells, findings)


def _check_cells(played: Played, cells: Any, findings: Findings) -> None:
    """Check that surviving cells have the values without the fault, since the machine has no noise."""
    for cell in cells:
        truth_ms = played.scenario.machine.curves[cell.target].step_ms(cell.batch)
        words = f"{cell.step_ms} ms for {truth_ms} ms at batch {cell.batch}"
        findings.require(abs(cell.step_ms / truth_ms - 1) < NEAR, "wrong numbers", words)


def _check_kept(played: Played, findings: Findings) -> None:
    """Check that every reported round is in the remaining data, and nothing else is."""
    told, kept, size = played.faulty.told, set(played.kept), played.scenario.size
    invented = kept - set(told)
    findings.require(not invented, "wrong numbers", f"{len(invented)} numbers that no worker told")
    lost, run = 0, 0
    for number in [*told, None]:  # consecutive numbers not kept: less than a round was cut short
        if number is not None and number not in kept:
            run += 1
            continue
        lost, run = lost + run // size, 0
    findings.require(not lost, "rounds lost", f"{lost} rounds of {len(told)} numbers told are not in what is left")
    if played.scenario.kind == "sweep" and played.recorder.begun is not None:
        stored = {block.step_ms for item in played.recorder.rounds for block in item.blocks}
        findings.require(stored >= kept, "rounds lost", f"{len(kept - stored)} blocks never reached the store")
        left = played.recorder.deleted or played.recorder.finished is not None
        findings.require(left, "else", "the stored run is left “running”")


def _scenario(index: int) -> Scenario:
    return MAKE[sorted(MAKE)[index % len(MAKE)]]()


def _played(index: int, planted: Planted, findings: Findings) -> Played | None:
    scenario = _scenario(index)
    findings.about(f"{scenario.kind}: {planted.words}")
    with findings.watching():
        played = Played(scenario, planted)
        check_played(played, findings)
        return played
    return None


def _at(random_: random.Random, index: int) -> int:
    return random_.randrange(requests(_scenario(index).kind))


def worker_lost(random_: random.Random, index: int, findings: Findings) -> None:
    planted = Planted("lost", _at(random_, index), random_.choice(LOST), random_.choice(HOW))
    _played(index, planted, findings)


def cell_failed(random_: random.Random, index: int, findings: Findings) -> None:
    planted = Planted("failed", _at(random_, index), random_.choice(FAILED), random_.choice(HOW))
    _played(index, planted, findings)


def nan_late(random_: random.Random, index: int, findings: Findings) -> None:
    planted = Planted("failed", _at(random_, index), "nan_loss", "everything")
    _played(index, planted, findings)


def slow_replies(random_: random.Random, index: int, findings: Findings) -> None:
    seconds = 10 ** random_.uniform(-1, 4)
    _played(index, Planted("slow", _at(random_, index), "hung", random_.choice(HOW), seconds), findings)


def lost_at_start(random_: random.Random, index: int, findings: Findings) -> None:
    """Lose a worker once while it starts: it is started once more, in any study."""
    at = random_.choice((0, 0, 1, 2))
    planted = Planted("start", at, random_.choice((*LOST, "error")), random_.choice(("once", "once", "everything")))
    played = _played(index, planted, findings)
    again = planted.how == "once" and planted.outcome == "crashed"
    if played is not None and again and played.record is None:
        findings.add("else", f"one lost start ended the study: {played.error}")


def cancelled(random_: random.Random, index: int, findings: Findings) -> None:
    played = _played(index, Planted("cancel", _at(random_, index)), findings)
    if played is None or played.record is None:
        return
    late = played.faulty.requests - played.faulty.planted.at
    findings.require(late <= 2 * played.scenario.size + 2, "over time", f"{late} requests after it was cancelled")
    findings.require(played.record.status in ("cancelled", "finished"), "else", f"status {played.record.status}")


def clock_jumps(random_: random.Random, index: int, findings: Findings) -> None:
    seconds = 10 ** random_.uniform(1, 6)
    _played(index, Planted("jump", _at(random_, index), seconds=seconds), findings)


def without_a_fault(_: random.Random, index: int, findings: Findings) -> None:
    """Plant nothing: the checks of the other classes must hold here first."""
    _played(index, Planted(), findings)


CLASSES = (
    CaseClass("nothing", "simulated", len(MAKE), without_a_fault),
    CaseClass("worker lost", "simulated", 203, worker_lost),
    CaseClass("cell failed", "simulated", 203, cell_failed),
    CaseClass("NaN late", "simulated", 98, nan_late),
    CaseClass("slow reply", "simulated", 126, slow_replies),
    CaseClass("lost at start", "simulated", 98, lost_at_start),
    CaseClass("cancelled", "simulated", 126, cancelled),
    CaseClass("clock jumps", "simulated", 84, clock_jumps),
)
