"""Workers that fail at random requests, by a seed: any kind of study must survive any sequence of failures."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, get_args

from core.base.evidence import Outcome
from core.studies.runner import Stop
from core.worker.protocol import CellFailed, R, Request, WorkerError, WorkerLost
from core.workload.spec import Target

SHARES = (0.003, 0.02, 0.1, 0.5)  # of requests that fail, in turn by seed
START_SHARE = 0.5  # of it: probability that workers cannot start
STOP_SHARE = 0.002  # of requests during which a stop is requested
FAILED_S = 3.0
OUTCOMES: tuple[Outcome, ...] = tuple(o for o in get_args(Outcome) if o not in ("measured", "skipped", "pending"))


@dataclass
class Faulty:
    """Launches a machine's workers with faults. ``answered`` counts the requests that did not fail, by kind."""

    machine: Any
    seed: int
    stop: Stop = field(default_factory=Stop)
    answered: Counter[str] = field(default_factory=Counter)
    failed: int = 0
    open_workers: int = 0

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        self.share = SHARES[self.seed % len(SHARES)]

    def launch(self, targets: tuple[Target, ...], *options: Any, **limits: Any) -> tuple[Any, ...]:
        self.happen(START_SHARE * self.share, "starting")
        workers = self.machine.launch(targets, *options, **limits)
        self.open_workers += len(workers)
        return tuple(FaultyWorker(self, worker) for worker in workers)

    def happen(self, share: float, doing: str) -> None:
        """Let a request's random events happen: a stop is requested; the request fails."""
        if self.rng.random() < STOP_SHARE:
            (self.stop.interrupt if self.rng.random() < 0.5 else self.stop.set)()
        if self.rng.random() < share:
            self.failed += 1
            self.machine.clock.advance(FAILED_S)
            kind: type[WorkerError] = self.rng.choice((CellFailed, WorkerLost))
            raise kind(self.rng.choice(OUTCOMES), f"Planted while {doing}.")


class FaultyWorker:
    """A worker that stays lost once it was lost."""

    def __init__(self, faults: Faulty, worker: Any) -> None:
        self._faults, self._worker = faults, worker
        self._lost: WorkerLost | None = None
        self._open = True
        self.ready = worker.ready

    def ask(self, request: Request[R], deadline_s: float) -> R:
        assert self._open
        if self._lost is not None:
            raise self._lost
        try:
            self._faults.happen(self._faults.share, request.doing)
            reply: R = self._worker.ask(request, deadline_s)
        except WorkerLost as lost:
            self._lost = lost
            raise
        self._faults.answered[request.kind] += 1  # type: ignore[attr-defined]
        return reply

    def cpu_time_s(self) -> float:
        return 0.0

    def close(self) -> None:
        self._worker.close()
        self._faults.open_workers -= self._open
        self._open = False
