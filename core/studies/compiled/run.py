"""Compiling a step for cards that are not here, in one limited worker process of JAX."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from core.base.evidence import Ended, Warning
from core.base.numbers import counted
from core.base.schema import UserError
from core.hardware.catalogue import GpuSpec
from core.hardware.chip import chip
from core.machine.environment import available_memory_bytes
from core.machine.installed import NO_COMPILER, versions, why_missing
from core.studies.compiled.record import CompiledStep, CompilePlan, CompileStudy
from core.studies.runner import Cancelled, StudyRunner, StudyTools, cut_short
from core.worker.protocol import CellFailed, Compile, Worker, WorkerError, WorkerLost

MEMORY_SHARE = 0.8
"""Share of the free memory that the compiler may take; the largest network tried took 2.8 GB (BERT-large, training)."""
SLOWEST_S = 90.0
"""Seconds that one compilation may take without being given up (BERT-large, training: 70 s on two cores)."""


@dataclass(frozen=True)
class CompileSearch:
    """Plan with ``earlier`` studies, whose programs are used again where nothing differs."""

    plan: CompilePlan
    earlier: tuple[CompileStudy, ...] = ()

    def __post_init__(self) -> None:
        """Raise UserError for a card that cannot be compiled for."""
        for card in self.plan.cards:
            chip(card)


def refuse_missing(_: CompileSearch | None = None) -> None:
    """Raise UserError without JAX. The worker, which may be another Python's, says if the compiler is missing."""
    if why_missing("jax") is not None:
        raise UserError(NO_COMPILER)


def run_compile_study(tools: StudyTools, search: CompileSearch) -> CompileStudy:
    """Compile within the budget; batch sizes from the first on, all cards at each. Raises StudyFailed."""
    return _Compiling(tools, search).run()


class _Compiling(StudyRunner):
    def __init__(self, tools: StudyTools, search: CompileSearch) -> None:
        super().__init__(tools, search.plan.budget_s)
        self._plan = search.plan
        self._known = known_steps(search)
        self._compiler = versions("jax").get("jax", "")
        self._steps: list[CompiledStep] = []
        self._why = ""

    def run(self) -> CompileStudy:
        status: Ended = "finished"
        try:
            self._compile_all()
        except Cancelled:
            status = self.tools.stopped_as
        except WorkerError as error:
            status, self._why = "failed", error.reason
        if not any(step.program for step in self._steps):
            raise self.nothing(status, self._why or next((step.reason for step in self._steps), ""))
        return self._study(status)

    def _study(self, status: Ended) -> CompileStudy:
        warnings = self.asking.warnings
        if self._why:
            warnings += (cut_short(counted(len(self._steps), "program"), self._why),)
        steps = tuple(sorted(self._steps, key=lambda step: (step.card, step.batch)))
        late = len(self._plan.cards) * len(self._plan.batches) - len(steps)
        if late and status == "finished" and not self._why:
            text = f"There was no time for {counted(late, 'program')}; give it a longer budget."
            warnings += (Warning(code="compile_late", text=text),)
        return CompileStudy(
            plan=self._plan, compiler=self._compiler, steps=steps, warnings=warnings, **self.envelope(status)
        )

    def _compile_all(self) -> None:
        """Compile what is not known yet. A worker that is lost, once for each card, costs its program alone."""
        missing = []
        for batch in self._plan.batches:
            for index, card in enumerate(self._plan.cards):
                step = self._known.get((chip(card), batch))
                if step is not None:
                    self._steps.append(step.model_copy(update={"card": index}))
                else:
                    missing.append((index, card, batch))
        while missing and not self._why:
            self.check()
            self._tell("Starting the compiler")
            limit = round(MEMORY_SHARE * available_memory_bytes())
            (worker,) = self.asking.start((self._plan.target,), limit_bytes=limit)
            try:
                self._compiler = worker.ready.versions.get("jax", self._compiler)
                missing = self._with(worker, missing)
            finally:
                worker.close()

    def _with(self, worker: Worker, missing: list[tuple[int, GpuSpec, int]]) -> list[tuple[int, GpuSpec, int]]:
        """Compile with one worker until it is lost; return what is left."""
        while missing:
            index, card, batch = missing[0]
            if self._steps and self.remaining_s <= 0:
                return []
            self._tell(f"Compiling batch {batch:,} for {card.name}")
            self.check()
            missing = missing[1:]
            try:
                request = Compile(
                    workload=self._plan.workload, precision=self._plan.precision, batch=batch, chip=chip(card)
                )
                done = self.asking.ask(worker, request, expected_s=SLOWEST_S)
            except WorkerLost as error:
                self._fail(index, batch, error)
                return missing
            except CellFailed as error:
                self._fail(index, batch, error)
                if error.reason.endswith(NO_COMPILER):
                    self._why = error.reason
                    return []
                continue
            step = CompiledStep(card=index, batch=batch, program=done.to_program(), compile_ms=done.compile_ms)
            self._steps.append(step)
        return missing

    def _fail(self, index: int, batch: int, error: WorkerError) -> None:
        self._steps.append(CompiledStep(card=index, batch=batch, outcome=error.outcome, reason=error.reason))

    def _tell(self, activity: str) -> None:
        total = len(self._plan.cards) * len(self._plan.batches)
        record = self._study("cancelled") if any(step.program for step in self._steps) else None
        self.tell("measuring" if self._steps else "starting", activity, len(self._steps), total, record)


def known_steps(search: CompileSearch) -> dict[tuple[str, int], CompiledStep]:
    """Return the steps of earlier studies that compiling again would repeat, by card and batch size."""
    wanted = search.plan.workload, search.plan.precision, versions("jax").get("jax", "")
    known = {}
    for study in search.earlier:
        same = (study.plan.workload, study.plan.precision, study.compiler) == wanted
        for step in study.steps if same else ():
            if step.program is not None:
                with suppress(UserError):  # another version may have known other cards
                    known[chip(study.plan.cards[step.card]), step.batch] = step
    return known
