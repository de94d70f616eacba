"""Timing pitfalls, live: one workload timed as articles do it, beside our own block figure. Runs in its own process."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import IO, Literal

from pydantic import ValidationError

from core.measure.process import OUT_OF_MEMORY_SIGNS, worker_environment
from core.measure.protocol import WorkerLost
from core.results import PositiveMs
from core.spec import Frozen, Target, Workload

COMMAND = (sys.executable, "-m", "core.measure.tensorflow_pitfalls")
Method = Literal["predict_first", "predict_loop", "single_call", "first_epoch"]

TITLES: dict[Method, str] = {
    "predict_first": "model.predict in a loop, first call included",
    "predict_loop": "model.predict in a loop, without the first call",
    "single_call": "one call of the compiled step, nothing warmed up, no synchronisation",
    "first_epoch": "time.time around the first epoch of model.fit",
}
EXPLANATIONS: dict[Method, str] = {
    "predict_first": "The first call traces and compiles the network, and its time is spread over all steps.",
    "predict_loop": "Each call of predict sets up a data pipeline and callbacks, and copies the result to the host.",
    "single_call": "A single first call is mostly tracing and compiling; a GPU also answers before it is done.",
    "first_epoch": "The first epoch holds the compilation and the set-up of fit beside its steps.",
}


class Figure(Frozen):
    """Measured time a step by one method, and how many times our figure it is."""

    method: Method
    step_ms: float
    ratio: float

    @property
    def title(self) -> str:
        return TITLES[self.method]

    @property
    def explanation(self) -> str:
        return EXPLANATIONS[self.method]


class PitfallReport(Frozen):
    """Measured now. Our figures: ``infer_step_ms`` beside the predict methods, ``train_step_ms`` beside fit."""

    workload: str
    batch: int
    infer_step_ms: float
    train_step_ms: float
    figures: tuple[Figure, ...]


class Measured(Frozen):
    """One line of the process: a method's (or our own: ``infer``, ``train``) time a step."""

    method: Method | Literal["infer", "train"]
    step_ms: PositiveMs


def run_pitfalls(
    workload: Workload, batch: int, deadline_s: float, on_progress: Callable[[str], None] | None = None
) -> PitfallReport:
    """Time ``workload`` at ``batch`` on the CPU by every method. Raises WorkerLost (crashed, hung, out of memory).

    ``on_progress`` hears the name of each method when it is done, in the calling thread.
    """
    process = subprocess.Popen(
        COMMAND,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=worker_environment(Target()),
        start_new_session=sys.platform != "win32",
    )
    late = threading.Event()
    log: list[str] = []
    timer = threading.Timer(deadline_s, _stop, (process, late))
    reader = threading.Thread(target=_drain, args=(process.stderr, log), daemon=True)
    timer.start()
    reader.start()
    request = json.dumps({"workload": workload.model_dump(mode="json"), "batch": batch})
    try:
        with contextlib.suppress(OSError):  # a process that is gone already is reported below
            _stdin(process).write(request.encode() + b"\n")
            _stdin(process).flush()  # and kept open: the process ends when it closes
        steps = _collect(process, on_progress)
    finally:
        timer.cancel()
        process.kill()
        process.wait()
        reader.join(2)
        for pipe in (process.stdin, process.stdout):
            with contextlib.suppress(OSError):
                pipe.close()  # type: ignore[union-attr]
    if late.is_set():
        raise WorkerLost("hung", f"Timing the pitfalls took longer than {deadline_s:.0f} s and was stopped.")
    if missing := {"infer", "train", *TITLES} - steps.keys():
        memory = any(sign in line for line in log for sign in OUT_OF_MEMORY_SIGNS)
        last = f" Its last words: “{log[-1][:80]}”." if log else ""
        reason = f"Timing the pitfalls ended without {', '.join(sorted(missing))}.{last}"
        raise WorkerLost("out_of_memory" if memory else "crashed", reason)
    return _report(workload, batch, steps)


def _stdin(process: subprocess.Popen[bytes]) -> IO[bytes]:
    assert process.stdin is not None
    return process.stdin


def _stop(process: subprocess.Popen[bytes], late: threading.Event) -> None:
    late.set()
    process.kill()


def _drain(stream: IO[bytes], log: list[str]) -> None:
    with stream:
        for line in stream:
            log.append(line.decode("utf-8", "replace").strip())
            del log[:-40]


def _collect(process: subprocess.Popen[bytes], on_progress: Callable[[str], None] | None) -> dict[str, float]:
    """Step time of each method in ms, until the last has come, the process ends or writes something else."""
    steps: dict[str, float] = {}
    assert process.stdout is not None
    while len(steps) < len(TITLES) + 2 and (line := process.stdout.readline()):
        try:
            measured = Measured.model_validate_json(line)
        except ValidationError:
            break
        steps[measured.method] = measured.step_ms
        if on_progress is not None:
            on_progress(measured.method)
    return steps


def _report(workload: Workload, batch: int, steps: dict[str, float]) -> PitfallReport:
    ours = {"predict_first": "infer", "predict_loop": "infer", "single_call": "infer", "first_epoch": "train"}
    return PitfallReport(
        workload=workload.network.name,
        batch=batch,
        infer_step_ms=steps["infer"],
        train_step_ms=steps["train"],
        figures=tuple(
            Figure(method=method, step_ms=steps[method], ratio=steps[method] / steps[ours[method]]) for method in TITLES
        ),
    )
