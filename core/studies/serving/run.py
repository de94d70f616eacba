"""Serving requests here: a server per target, visited in turn with requests at rates about the predicted capacity."""

from __future__ import annotations

import math

from core.base.evidence import Ended, Warning
from core.base.numbers import counted, number
from core.studies.runner import Cancelled, StudyRunner, StudyTools
from core.studies.serving.answer import PARTS, SHARES, judged_rates, next_rate, part_s, visit_s
from core.studies.serving.record import ServingPlan, ServingStudy, Visit
from core.worker.protocol import Prepare, Serve, Worker, WorkerError
from core.workload.names import shown_names
from core.workload.spec import Pipeline

WARMUP_MS = 300.0
WAITING_LIMITS = 10.0
"""So many limits' worth of requests may wait: whoever is behind them misses the limit anyway."""
SLOWEST = 3.0
"""A visit should take at most this times as long as its requests come; the rest is for a server that is behind."""


def run_serving(tools: StudyTools, plan: ServingPlan) -> ServingStudy:
    """Serve within the budget, until every target's capacity is known well enough.

    A target whose server fails is left out with a warning. Raises StudyFailed if nothing was served.
    """
    return _Runner(tools, plan).run()


class _Runner(StudyRunner):
    def __init__(self, tools: StudyTools, plan: ServingPlan) -> None:
        super().__init__(tools, plan.budget_s)
        self.plan, self.names = plan, shown_names(plan.targets)
        self.visits: list[Visit] = []
        self.failed: dict[int, WorkerError] = {}

    def run(self) -> ServingStudy:
        status: Ended = "finished"
        try:
            self._tell("Starting a server for each target")
            with self.started(self.plan.targets) as workers:
                for target, worker in enumerate(workers):
                    self._prepare(target, worker)
                self._serve(workers)
        except Cancelled:
            status = self.tools.stopped_as
        if not self.visits:
            raise self.nothing(status, next((error.reason for error in self.failed.values()), ""))
        return ServingStudy(
            run_id=self.plan.run_id, plan=self.plan, visits=tuple(self.visits),
            warnings=(*self.asking.warnings, *map(self._warning, self.failed)), **self.envelope(status),
        )  # fmt: skip

    def _prepare(self, target: int, worker: Worker) -> None:
        service = self.plan.service
        try:
            for slot in range(service.instances):
                for size in service.sizes:
                    self._tell(f"Preparing {self.names[target]}: batch {size:,}")
                    request = Prepare(workload=self.plan.workload, pipeline=Pipeline(kind="host"), batch=size,
                                      slot=slot, warmup_ms=WARMUP_MS, latency_samples=0, steps_per_block=1)  # fmt: skip
                    self.asking.prepare(worker, request, target)
        except WorkerError as error:
            self.failed[target] = error

    def _serve(self, workers: tuple[Worker, ...]) -> None:
        """Visit the targets in turn while there is time. Raises Cancelled."""
        known = set(range(len(workers)))
        while known and len(self.failed) < len(workers):
            for target in sorted(known):
                rate = None if target in self.failed else self._next(target)
                if rate is None:
                    known.remove(target)
                elif self.remaining_s < visit_s(self.plan.service) and self.visits:
                    return
                else:
                    self._visit(target, workers[target], rate)

    def _next(self, target: int) -> float | None:
        mine = [visit for visit in self.visits if visit.target == target]
        return next_rate(judged_rates(mine, self.plan.service), self.plan.predicted[target].value)

    def _visit(self, target: int, worker: Worker, rate_per_s: float) -> None:
        service = self.plan.service
        self._tell(f"Serving {number(rate_per_s)} requests per second on {self.names[target]}")
        request = Serve(
            rate_per_s=rate_per_s, sizes=service.sizes, max_delay_ms=service.max_delay_ms,
            instances=service.instances, burstiness=service.burstiness, limit_ms=service.limit_ms, level=service.level,
            part_s=part_s(service), parts=PARTS, seed=len(self.visits),
            most_waiting=service.max_batch + math.ceil(WAITING_LIMITS * rate_per_s * service.limit_ms / 1000),
        )  # fmt: skip
        self.asking.restart_interference((worker,))
        try:
            with self.asking.watched(worker):
                reply = self.asking.ask(worker, request, rate_per_s, expected_s=SLOWEST * visit_s(service))
        except WorkerError as error:
            self.failed[target] = error
            return
        fields = reply.model_dump(exclude={"kind"})
        interference = self.interference((worker,))
        self.visits.append(Visit(target=target, rate_per_s=rate_per_s, interference=interference, **fields))

    def _warning(self, target: int) -> Warning:
        visits = counted(sum(visit.target == target for visit in self.visits), "visit")
        reason = self.failed[target].reason
        return Warning(code=f"server_{target}", text=f"{self.names[target]} ended after {visits}: {reason}")

    def _tell(self, activity: str) -> None:
        """Report the activity; raise Cancelled if asked to stop."""
        self.check()
        first = len(SHARES) * len(self.plan.targets)  # visits until every target was seen at all first rates
        self.tell("measuring" if self.visits else "starting", activity, min(len(self.visits), first), first)
