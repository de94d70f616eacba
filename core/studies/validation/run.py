"""Measurement of the predictions: the self-check, the host if that had no time for it, then one sweep per part."""

from __future__ import annotations

import dataclasses

from core.base.evidence import Ended, Warning
from core.base.numbers import counted
from core.hardware.host_record import HostStudy
from core.rounds.plan import SweepPlan
from core.rounds.run import Run
from core.studies.host.run import BUDGET_S as HOST_S
from core.studies.host.run import HostPlan, run_host_study
from core.studies.progress import Progress
from core.studies.runner import Cancelled, NullRecorder, StudyFailed, StudyRunner, StudyTools, unheard
from core.studies.selfcheck.record import SelfCheck
from core.studies.selfcheck.run import BUDGET_S as SELF_CHECK_S
from core.studies.selfcheck.run import SelfCheckPlan, run_self_check
from core.studies.sweep.kind import new_run
from core.studies.sweep.supervisor import run_sweep
from core.studies.validation.record import (
    Part,
    Predictions,
    ValidationPlan,
    ValidationStudy,
    host_of,
    parts,
    predict_all,
    private,
    private_environment,
    private_warnings,
)
from core.workload.spec import MIN_BUDGET_S

SELF_CHECK_SHARE, HOST_SHARE = 0.3, 0.1
"""Maximum shares of the budget for these two; the rest is for sweeps."""
LEAST_SWEEP_S = 40.0
"""Shortest budget of a sweep; a shorter one would barely cover the starts of its workers."""
STEP_WIDTH = 0.03
"""Relative width of an interval at which a step needs no more rounds: far below any error of the model."""


def run_validation(tools: StudyTools, plan: ValidationPlan) -> ValidationStudy:
    """Measure within about the budget, and keep what there was time for.

    Raises:
        StudyFailed: No step was measured.
        Cancelled: The study was stopped before any step was measured.
    """
    return _Runner(tools, plan).run()


class _Runner(StudyRunner):
    def __init__(self, tools: StudyTools, plan: ValidationPlan) -> None:
        super().__init__(tools, plan.budget_s)
        self.plan, self.parts = plan, parts()
        self.again: Predictions | None = None
        self.selfcheck: SelfCheck | None = None
        self.host: HostStudy | None = None
        self.sweeps: list[Run] = []
        self.warnings: list[Warning] = []

    def run(self) -> ValidationStudy:
        status: Ended = "finished"
        try:
            self._check_machine()
            self._measure_host()
            self._predict_again()
            self._sweep_all()
        except Cancelled:
            status = self.tools.stopped_as
        if not self.sweeps:
            raise self.nothing(status, " ".join(dict.fromkeys(warning.text for warning in self.warnings)))
        self.tell("done", status.capitalize(), len(self.sweeps), len(self.parts))
        parts = {"again": self.again, "selfcheck": self.selfcheck, "host": self.host, "sweeps": tuple(self.sweeps)}
        machine = {"environment": private_environment(self.environment)}
        warnings = {"warnings": private_warnings(self.warnings)}
        return new_study(self.plan).model_copy(update=self.envelope(status) | parts | machine | warnings)

    def _check_machine(self) -> None:
        """Run the self-check and continue whatever it finds, since it documents the sweeps' basis. Raises Cancelled."""
        tools = self._tools("Self-check")
        budget_s = min(SELF_CHECK_S, SELF_CHECK_SHARE * self.budget_s)
        self.selfcheck = run_self_check(tools, SelfCheckPlan(self.plan.target, budget_s))
        self.check()

    def _measure_host(self) -> None:
        """Measure the host separately if the self-check had no time for it. Raises Cancelled."""
        if self.selfcheck is not None and self.selfcheck.host is not None:
            return
        try:
            study = run_host_study(self._tools("Host"), HostPlan(budget_s=min(HOST_S, HOST_SHARE * self.budget_s)))
        except StudyFailed as error:
            self.check()
            self.warnings.append(Warning(code="no_host", text=f"The host was not measured: {error}"))
        else:
            self.host = private(study)
        self.check()

    def _predict_again(self) -> None:
        """Predict with the measured host, before any predicted step is measured."""
        measured = self.host if self.selfcheck is None or self.selfcheck.host is None else self.selfcheck.host
        if measured is not None:
            host = host_of(measured, self.plan.host)
            self.again = predict_all(self.plan.spec, self.plan.target, self.parts, host)

    def _sweep_all(self) -> None:
        """Sweep each part within its share of the remaining time, as long as a share is enough. Raises Cancelled."""
        for number, part in enumerate(self.parts):
            self.check()
            left = self.parts[number:]
            if self.remaining_s < min(LEAST_SWEEP_S, self.budget_s / len(self.parts)):
                text = f"There was no time for {counted(len(left), 'sweep')} of {len(self.parts)}; give more minutes."
                self.warnings.append(Warning(code="no_time", text=text))
                return
            share_s = min(self.remaining_s, max(LEAST_SWEEP_S, self.remaining_s / len(left)))
            self._sweep(number, part, share_s)

    def _sweep(self, number: int, part: Part, budget_s: float) -> None:
        sweep = SweepPlan(
            workload=part.workload, targets=(self.plan.target,), batches=part.batches, refine=False,
            budget_s=max(MIN_BUDGET_S, budget_s), step_width=STEP_WIDTH,
        )  # fmt: skip
        tools = self._tools(f"Sweep {number + 1} of {len(self.parts)}, {part.workload.title}")
        alone = dataclasses.replace(tools, recorder=NullRecorder(), meter=None)  # spend all time on rounds and traces
        try:
            self.sweeps.append(private(run_sweep(alone, new_run(sweep, environment=self.environment))))
        except Cancelled:
            raise
        except StudyFailed as error:
            self.check()
            self.warnings.append(Warning(code=f"sweep_{number + 1}", text=f"{part.workload.title}: {error}"))

    def _tools(self, doing: str) -> StudyTools:
        """Return the tools of a part, whose progress is reported as that of the whole."""
        if self.tools.report is unheard:
            return self.tools

        def report(progress: Progress) -> None:
            activity = f"{doing}: {progress.activity}"
            self.tell("measuring", activity, len(self.sweeps), len(self.parts))

        return dataclasses.replace(self.tools, report=report)


def new_study(plan: ValidationPlan) -> ValidationStudy:
    """Return a study with the predictions alone, before any measurement."""
    return ValidationStudy(
        status="interrupted",
        created_at=plan.predictions.written_at,
        target=plan.target,
        card=plan.spec.name,
        device_name=plan.device_name,
        parts=parts(),
        predictions=plan.predictions,
    )
