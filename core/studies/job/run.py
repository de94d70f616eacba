"""Run of a job: the script in a process of its own, then a sweep of its network at its batch size and around it."""

from __future__ import annotations

import dataclasses
import json
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from core.base.evidence import Ended, Warning
from core.base.schema import UserError, as_user_error
from core.machine.environment import list_devices
from core.networks.families import Network
from core.rounds.plan import SweepPlan
from core.rounds.run import Run
from core.studies.job import rerun
from core.studies.job.breakdown import captured_batch, captured_target, captured_workload, main_phase, mean_step_s
from core.studies.job.capture import Capture, OwnCode
from core.studies.job.record import JobPlan, JobStudy, Script
from core.studies.progress import Progress
from core.studies.runner import Cancelled, NullRecorder, StudyFailed, StudyRunner, StudyTools
from core.studies.sweep.kind import new_run
from core.studies.sweep.supervisor import run_sweep
from core.worker import watch
from core.workload.execution import refuse_same
from core.workload.spec import MAX_BATCH, MIN_BUDGET_S, Pipeline, Target, Workload, refuse_mode

LOOK_EVERY_S, PATIENCE_S = 0.1, 10.0
"""Seconds between looks at the script, and those that it has to end after it was asked to."""
AROUND_STEPS = 400
"""Steps of the script that the budget must hold for half and twice its batch size to be measured, too (judgement)."""
STEP_WIDTH = 0.03
"""Relative width of an interval at which a step needs no more rounds: far below the spread between days."""
FEED = Pipeline(kind="host")
WATCHER = Path(watch.__file__).with_name("script.py")


def run_job(tools: StudyTools, plan: JobPlan) -> JobStudy:
    """Run the script, unless a capture is at hand, then measure its network within about the budget.

    Raises:
        StudyFailed: The script could not be started, or ended before anything was seen.
        Cancelled: The study was stopped before anything was seen.
    """
    return _Runner(tools, plan).run()


class _Runner(StudyRunner):
    def __init__(self, tools: StudyTools, plan: JobPlan) -> None:
        super().__init__(tools, plan.budget_s)
        self.plan = plan
        self.warnings: list[Warning] = []

    def run(self) -> JobStudy:
        status: Ended = "finished"
        sweep, reason = None, ""
        with tempfile.TemporaryDirectory(prefix="breakeven-job-") as folder:
            capture = self.plan.capture or self._run_script(Path(folder))
            self.begin_s = self.clock.now_s()  # the budget is the sweep's
            try:
                self.check()
                sweep = self._sweep(capture, Path(folder))
            except Cancelled:
                if self.plan.script is None:
                    raise  # what was seen is kept already
                status = self.tools.stopped_as
                reason = "It was stopped before its network was measured."
            except UserError as error:
                if self.plan.script is None:
                    raise
                reason = str(error)
        self.tell("done", status.capitalize(), 1, 1)
        return JobStudy(
            **self.envelope(status), capture=capture, sweep=sweep, reason="" if sweep is not None else reason[:600],
            gpus=self.plan.gpus, rerun=self.plan.rerun and sweep is not None, warnings=tuple(self.warnings),
        )  # fmt: skip

    def _run_script(self, folder: Path) -> Capture:
        """Run the script to its end and return what was seen; asked to stop, end it and keep that."""
        script, out = self.plan.script, folder / "capture.json"
        assert script is not None
        self.tell("starting", f"Running {script.name}", 0, 0)
        begin_s = time.time()
        process = start_script(script, out, self.plan.stop_after or 0)
        try:
            while process.poll() is None:
                self.check()
                time.sleep(LOOK_EVERY_S)
        except Cancelled:
            end_script(process)
        wall_s = time.time() - begin_s
        if not out.exists():
            raise StudyFailed(
                f"{script.name} ended with status {process.returncode} before anything could be seen of it; its own "
                "message is above."
            )
        capture = read_capture(out, script.name, wall_s, process.returncode)
        if process.returncode:
            text = f"{script.name} ended with status {process.returncode}; what was seen until then is kept."
            self.warnings.append(Warning(code="script_failed", text=text))
        return capture

    def _sweep(self, capture: Capture, folder: Path) -> Run:
        """Measure the script's network. Raises UserError with why it cannot be."""
        batch = captured_batch(capture)
        network: Network | None = None
        try:
            workload = captured_workload(capture)
        except OwnCode as error:
            if self.plan.rerun and self.plan.script is not None:
                self.tell("starting", f"Running {self.plan.script.name} again, up to its model", 0, 1)
                network = rerun.network_of(self.plan.script, capture, folder, self.tools)
                workload = rerun.workload_of(capture, network)
            elif self.plan.rerun:
                raise OwnCode(f"{error} A rerun needs the script: “run --rerun -- {capture.script}”.") from None
            else:
                raise OwnCode(
                    f"{error} With --rerun its workers run the script again, up to its model, and measure that."
                ) from None
        dear = AROUND_STEPS * (mean_step_s(main_phase(capture)) or 0.0) > self.plan.budget_s
        sizes = (batch,) if dear else (batch // 2, batch, 2 * batch)
        batches = tuple(size for size in sizes if 1 <= size <= MAX_BATCH)
        with as_user_error("The script's network cannot be measured so: "):
            plan = SweepPlan(
                workload=workload, targets=job_targets(capture, self.plan.targets, workload), batches=batches,
                refine=False, pipeline=FEED, budget_s=max(MIN_BUDGET_S, self.plan.budget_s), step_width=STEP_WIDTH,
                trace=False,
            )  # fmt: skip
        tools = dataclasses.replace(self.tools, recorder=NullRecorder(), report=self._report, meter=None)
        if network is not None:
            tools = dataclasses.replace(tools, launcher=rerun.launcher())
        return run_sweep(tools, new_run(plan, name=f"{capture.script}, its network", environment=self.environment))

    def _report(self, progress: Progress) -> None:
        self.tell("measuring", f"Network: {progress.activity}", progress.cells_done, progress.cells_total)


def start_script(script: Script, out: Path, stop_after: int) -> subprocess.Popen[bytes]:
    """Start the script under the watch, with this program's terminal. Raises StudyFailed if it cannot be started."""
    options = {"out": str(out), "stop_after": stop_after, "started_s": time.time(), "module": script.is_module}
    asked = out.with_name("options.json")
    asked.write_text(json.dumps(options), encoding="utf-8")
    command = [script.python, str(WATCHER), str(asked), script.path, *script.arguments]
    try:
        return subprocess.Popen(command, cwd=script.folder, stdin=subprocess.DEVNULL)
    except OSError as error:
        raise StudyFailed(f"{script.python} could not be started: {error.strerror or error}") from None


def end_script(process: subprocess.Popen[bytes]) -> None:
    """Ask the script to end as Ctrl-C does, so that it writes what was seen, then end it."""
    process.send_signal(signal.SIGINT)
    try:
        process.wait(PATIENCE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def read_capture(path: Path, script: str, wall_s: float, exit_status: int | None) -> Capture:
    """Read what the watch wrote, with the time that it could not see: the end of the process."""
    data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    data["seconds"]["end"] = max(0.0, wall_s - data["wall_s"])
    data |= {"script": script[:120], "wall_s": max(wall_s, data["wall_s"]), "exit_status": exit_status}
    if data["ended"] == "running":
        data["ended"] = "interrupted"  # it could not write its end
    with as_user_error(f"What was seen of {script} cannot be used: "):
        return Capture.model_validate(data)


def job_targets(capture: Capture, chosen: tuple[Target, ...], workload: Workload) -> tuple[Target, ...]:
    """Return the targets to measure: the script's own first, then the chosen ones, or the usual ones beside it."""
    own = captured_target(capture)
    if workload.lengths:
        own = own.model_copy(update={"steps_per_execution": 1})  # a pass through lengths has no fused steps
    others = chosen
    if not chosen:
        here = list_devices()
        gpus = [Target(device=gpu, framework=own.framework) for gpu in here.usable_gpus[:1] if own.on_cpu]
        others = tuple(gpus) or (Target(framework=own.framework) if own.is_gpu else Target(execution="xla"),)
        if own.framework != "tensorflow" and not gpus and own.on_cpu:
            others = (Target(),)
        others += tuple(own.model_copy(update=change) for change in _remedies(own, workload))
    kept = [own]
    for target in others:
        try:
            refuse_same(workload, *kept, target)
            if target not in chosen:
                refuse_mode(workload, target, FEED)
        except ValueError:
            continue  # the same as one that is there, or a proposal that this network cannot take
        kept.append(target)
    return tuple(kept)


def _remedies(own: Target, workload: Workload) -> list[dict[str, str]]:
    """Return changes of the script's own target that it could make itself: another call, other lengths."""
    better = {"predict": ("function", "predict_on_batch"), "model": ("function",), "predict_on_batch": ("function",)}
    changes = [{"call": call} for call in better.get(own.call, ())]
    if workload.lengths:
        changes += [{"pad": "longest"}, {"pad": "buckets"}]
        changes += [{"call": "relaxed"}] if own.call == "function" else []
    return changes


def describe(plan: JobPlan) -> str:
    return f"Job {plan.name}"
