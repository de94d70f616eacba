"""A simulated machine with a fault at a chosen request, which notes what its workers reported."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any, Literal

from core.base.evidence import Outcome
from core.worker.protocol import BlockDone, CellFailed, GradientsSampled, Prepared, WorkerError, WorkerLost

What = Literal["lost", "failed", "slow", "start", "cancel", "jump", "none"]
How = Literal["once", "same target", "everything"]


@dataclass(frozen=True)
class Planted:
    """A fault: ``what`` happens at request ``at`` (of ``start``: at that launch), and later as ``how`` says.

    ``seconds`` is the delay of a slow reply, or the jump of the clock.
    """

    what: What = "none"
    at: int = 0
    outcome: Outcome = "error"
    how: How = "once"
    seconds: float = 0.0

    @property
    def words(self) -> str:
        more = {
            "lost": self.outcome,
            "failed": self.outcome,
            "slow": f"{self.seconds:.0f} s",
            "jump": f"{self.seconds:.0f} s",
        }
        return f"{self.what} ({more.get(self.what, self.outcome)}), {self.how}, at {self.at}"


class FaultyMachine:
    """Layer between a study and a simulated machine. ``told`` are the numbers that workers measured, each unique."""

    def __init__(self, machine: Any, planted: Planted, cancel: threading.Event, serial: int = 0) -> None:
        self.machine, self.planted, self.cancel, self.clock = machine, planted, cancel, machine.clock
        self.requests = self.launched = 0
        self.serial = serial
        self.told: list[float | None] = []  # None at a failed request, which ended the round in progress
        self.open: set[FaultyWorker] = set()
        self.struck: set[int] = set()  # targets
        self.injected_s = 0.0
        self.known: set[str] = set()  # kinds of requests already answered
        self.first_hung = False
        self.slowest_s = 0.0

    def launch(self, targets: Any, deadline_s: float, *more: Any, **named: Any) -> tuple[FaultyWorker, ...]:
        number, planted = self.launched, self.planted
        self.launched += 1
        if planted.what == "start" and (number == planted.at or (number > planted.at and planted.how != "once")):
            self.clock.advance(deadline_s if planted.outcome == "hung" else 2.0)
            self.first_hung |= planted.outcome == "hung" and "start" not in self.known
            kind = CellFailed if planted.outcome == "error" else WorkerLost
            raise kind(planted.outcome, f"Planted at the start: {planted.outcome}.")
        workers = self.machine.launch(targets, deadline_s, *more, **named)
        made = tuple(FaultyWorker(self, index, worker) for index, worker in enumerate(workers))
        self.open |= set(made)
        self.known.add("start")
        return made

    def strikes(self, target: int) -> bool:
        """Check that the fault occurs at this request."""
        number, planted = self.requests, self.planted
        self.requests += 1
        if planted.how == "once" or number <= planted.at:
            hit = number == planted.at
        else:
            hit = planted.how == "everything" or target in self.struck
        if hit:
            self.struck.add(target)
        return hit

    def tell(self, reply: Any) -> Any:
        """Return the reply with its numbers made unique and noted."""
        unique = 1 + 1e-9 * (self.serial + len(self.told))
        if isinstance(reply, BlockDone):
            reply = reply.model_copy(update={"block_ms": reply.block_ms * unique})
            self.told.append(reply.block_ms / reply.steps)
        elif isinstance(reply, GradientsSampled):
            self.told += [small for small, _ in reply.norms2]
        elif isinstance(reply, Prepared) and reply.memory_peak_bytes is not None:
            reply = reply.model_copy(update={"memory_peak_bytes": reply.memory_peak_bytes + len(self.told)})
            self.told.append(reply.memory_peak_bytes)
        return reply


class FaultyWorker:
    def __init__(self, machine: FaultyMachine, target: int, worker: Any) -> None:
        self._machine, self._target, self._worker = machine, target, worker
        self._lost: WorkerLost | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._worker, name)

    def ask(self, request: Any, deadline_s: float, *more: Any, **named: Any) -> Any:
        try:
            reply = self._answer(request, deadline_s, *more, **named)
            self._machine.known.add(request.kind)
            return reply
        except WorkerError:
            self._machine.told.append(None)
            raise

    def _answer(self, request: Any, deadline_s: float, *more: Any, **named: Any) -> Any:
        machine, planted = self._machine, self._machine.planted
        if self._lost is not None:
            raise self._lost
        if machine.strikes(self._target):
            if planted.what == "lost":
                self._lose(planted.outcome, request, deadline_s)
            if planted.what == "failed":
                raise CellFailed(planted.outcome, f"Planted: {planted.outcome}.")
            if planted.what == "cancel":
                machine.cancel.set()
            if planted.what == "jump":
                machine.clock.advance(planted.seconds)
                machine.injected_s += planted.seconds
            if planted.what == "slow":
                return self._slowly(request, deadline_s, planted.seconds, *more, **named)
        return machine.tell(self._worker.ask(request, deadline_s, *more, **named))

    def _slowly(self, request: Any, deadline_s: float, seconds: float, *more: Any, **named: Any) -> Any:
        if seconds > deadline_s:
            self._lose("hung", request, deadline_s)
        reply = self._worker.ask(request, deadline_s, *more, **named)
        self._machine.clock.advance(seconds)
        self._machine.slowest_s = max(self._machine.slowest_s, seconds)
        if isinstance(reply, BlockDone):
            reply = reply.model_copy(update={"block_ms": reply.block_ms + 1000 * seconds})
        return self._machine.tell(reply)

    def _lose(self, outcome: Outcome, request: Any, deadline_s: float) -> None:
        if outcome == "hung":
            self._machine.clock.advance(deadline_s)
            self._machine.first_hung |= request.kind not in self._machine.known
        self._lost = WorkerLost(outcome, f"Planted: {outcome}.")
        raise self._lost

    def cpu_time_s(self) -> float:
        return 0.0

    def close(self) -> None:
        self._machine.open.discard(self)
        self._worker.close()
