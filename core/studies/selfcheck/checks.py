"""Evaluation of a self-check's readings: each check holds, fails, or cannot be seen here, with its figure. Pure.

A check of times is decided by the 95 % interval of a median (order statistics over alternating repetitions): it holds
if the whole interval lies within the bounds and fails if none of it does. If the interval crosses a bound, the machine
is too noisy to tell, which is not a pass: it cannot be seen here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

import numpy as np

from core.analysis.statistics import bounded_median
from core.base.evidence import SLOWDOWNS, mean_of
from core.base.numbers import byte_size, counted, duration, number, percent
from core.networks.families import network_from_name
from core.rounds.answer.card_use import REASON_WORDS
from core.rounds.answer.reliability import BUSY_PCT, STEAL_PCT
from core.studies.compiled.shipped import compiled_steps
from core.studies.compiled.traced import expected_kernels
from core.studies.resolution.answer import EQUIVALENT
from core.studies.selfcheck.record import Part, SelfCheck, TraceReading
from core.traces.record import TRUSTED_RATIO
from core.worker.timing import MAX_CLOCK_SHARE
from core.workload.spec import Workload

Status = Literal["holds", "fails", "unseen"]
WORDS: dict[Status, str] = {"holds": "holds", "fails": "fails", "unseen": "cannot be seen here"}

LOOP_WITHIN = 1.10
"""Block over barest loop: the block's own cost is below 1 µs per step, so the rest is noise; the bound is twice the
lead of 5 % that a verdict requires by default."""
PIPELINED = 2.0
"""Host and device work in parallel between synchronisations, so waiting in each step at most doubles its time."""
FACTOR_WITHIN = 2.0
"""Allowed factor around the expected ratio, 4: half of it is midway between waiting and not waiting, a ratio of 1.
Partial waiting shows in the remaining work. Caches, clocks and device utilisation change the ratio by less than that.
"""
LEFT_SHARE = 0.1
"""Share of the longer computation allowed for a fetch after the synchronisation: one value over the link, ~0.05 ms."""
SUM_WITHIN = 1e-6
"""Relative to a step: the partition is exact in whole picoseconds; this allows for rounding to milliseconds."""
TRACED_LEAST, TRACED_MOST = 0.5, 1.05
"""Shares of the worker's own clock: a GPU's first step begins with its first kernel, and no step lasts longer."""
STRAY_BYTES = 65_536
"""A step on resident data may copy scalars (a counter, a learning rate), but not a batch."""
BATCH_LEAST, BATCH_MOST = 0.95, 1.5
"""Shares of a batch's bytes that a step fed from the host must copy; labels may be widened on the way."""
PEAK_LEAST, PEAK_MOST = 0.95, 1.10
"""Shares of a known allocation: both allocators round up, and the process itself grows by a few MB in the meantime."""
COARSEST = 0.5
"""Difference between equal targets: if only larger ones would show, the absence of a claim means nothing."""
ELSEWHERE = "Kernels of the step ran on"
"""Beginning of the error for a trace whose kernels ran on another device (core/traces/report.py)."""
NOISY = "The machine is too noisy to tell; close other programs and try again."


@dataclass(frozen=True)
class Check:
    """Result of one check; ``figure`` is the finding, ``sentence`` its meaning or why it cannot be seen."""

    code: str
    title: str
    status: Status
    figure: str
    sentence: str


@dataclass(frozen=True)
class Finding:
    status: Status
    figure: str
    sentence: str = ""


def run_checks(record: SelfCheck) -> tuple[Check, ...]:
    """Return every check, in the order in which they build on each other."""
    checks = []
    for code, (title, part, look) in CHECKS.items():
        finding = look(record)
        if finding is None:
            why = record.readings.missing.get(part, "It was not read.") if part else "It was not read."
            finding = Finding("unseen", "", why)
        checks.append(Check(code, title, finding.status, finding.figure, finding.sentence))
    return tuple(checks)


@dataclass(frozen=True)
class Ratio:
    """Median of paired ratios with its 95 % interval; bounds are None for too few pairs."""

    value: float
    low: float | None
    high: float | None

    @classmethod
    def of(cls, above: Sequence[float], below: Sequence[float]) -> Ratio | None:
        pairs = [a / b for a, b in zip(above, below, strict=False) if b > 0]
        return cls(*bounded_median(np.array(pairs))) if pairs else None

    @property
    def words(self) -> str:
        if self.low is None or self.high is None:
            return f"{number(self.value)}×, too few repetitions for an interval"
        return f"{number(self.value)}× ({number(self.low)} to {number(self.high)})"

    def judged(self, least: float, most: float, good: str, bad: str) -> Finding:
        """Compare the interval with bounds; ``good`` and ``bad`` are the sentences of the outcomes."""
        if self.low is None or self.high is None:
            return Finding("unseen", self.words, NOISY)
        if least <= self.low and self.high <= most:
            return Finding("holds", self.words, good)
        if self.high < least or self.low > most:
            return Finding("fails", self.words, bad)
        return Finding("unseen", self.words, NOISY)


def _yes(ok: bool, figure: str, good: str, bad: str) -> Finding:
    return Finding("holds", figure, good) if ok else Finding("fails", figure, bad)


def _worker(record: SelfCheck) -> Finding | None:
    read = record.readings
    if read.lost is not None:
        return Finding("fails", "", read.lost)
    if read.startup_s is None:
        return None
    return Finding("holds", duration(read.startup_s), "TensorFlow starts on the target, and did not end by itself.")


def _placement(record: SelfCheck) -> Finding | None:
    read = record.readings
    if read.misplaced is not None:
        return Finding("fails", "", read.misplaced)
    if read.cell is None:
        return None
    fell = f" On the host beside it: {', '.join(read.cell.host_ops)}." if read.cell.host_ops else ""
    where = "; ".join(read.cell.placement)
    return Finding("holds", where, f"Variables, results and arithmetic of the step lie where they should.{fell}")


def _loop(record: SelfCheck) -> Finding | None:
    loops = record.readings.loops
    if loops is None or (ratio := Ratio.of(loops.block_ms, loops.bare_ms)) is None:
        return None
    return ratio.judged(
        1 / LOOP_WITHIN, LOOP_WITHIN,
        "A step in a block takes as long as in the barest loop.",
        "A step in a block takes another time than in the barest loop: what is measured is not the step alone.",
    )  # fmt: skip


def _one_sync(record: SelfCheck) -> Finding | None:
    loops = record.readings.loops
    if loops is None or (ratio := Ratio.of(loops.synced_ms, loops.block_ms)) is None:
        return None
    allowed = PIPELINED * LOOP_WITHIN + loops.sync_ms / median(loops.block_ms)
    return ratio.judged(
        1 / LOOP_WITHIN, allowed,
        "With a synchronisation in each step it takes no less, and no longer than host and device one after the other.",
        "With a synchronisation in each step it takes a time that waiting does not explain: blocks may leave work out.",
    )  # fmt: skip


def _sync_waits(record: SelfCheck) -> Finding | None:
    factor = record.readings.factor
    if factor is None or (ratio := Ratio.of(factor.long_ms, factor.short_ms)) is None:
        return None
    due, left_ms, long_ms = factor.factor, median(factor.left_ms), median(factor.long_ms)
    judged = ratio.judged(
        due / FACTOR_WITHIN, due * FACTOR_WITHIN,
        f"A computation made {due} times as long takes {due} times as long, and is over after the synchronisation.",
        f"A computation made {due} times as long does not take that much longer: synchronising does not wait.",
    )  # fmt: skip
    figure = f"{judged.figure} where {due} is due; {duration(left_ms / 1000)} left after it"
    if judged.status == "fails" and ratio.value > due:  # the longer one was disturbed more, but it was waited for
        return Finding("unseen", figure, NOISY)
    if judged.status == "holds" and left_ms > LEFT_SHARE * long_ms:
        return Finding("fails", figure, "Work was left after the synchronisation: it does not wait for all of it.")
    return Finding(judged.status, figure, judged.sentence)


def _parts_sum(record: SelfCheck) -> Finding | None:
    traces = record.readings.traces
    if not traces:
        return None
    worst = max(abs(trace.parts_ms / trace.step_ms - 1) for trace in traces)
    against = [trace.step_ms / trace.wall_ms for trace in traces]
    figure = f"parts ÷ step differ from 1 by {worst:.0e} at most; traced ÷ clock {number(median(against))}"
    ok = worst <= SUM_WITHIN and TRACED_LEAST <= median(against) <= TRACED_MOST
    return _yes(
        ok, figure, "A step’s parts sum to the step, and the steps to what the worker’s clock says.",
        "A step’s parts do not sum to the step, or the traced steps not to what the worker’s clock says.",
    )  # fmt: skip


def _kernels(record: SelfCheck) -> Finding | None:
    traces = record.readings.traces
    if not traces:
        why = record.readings.missing.get("trace", "")
        return Finding("fails", "", why) if ELSEWHERE in why else None
    device = record.target.device.upper() if record.target.is_gpu else "CPU"
    devices = sorted({trace.device for trace in traces})
    each = median(trace.kernels / trace.steps for trace in traces)
    figure = f"{', '.join(devices)}, {number(each)} per step"
    return _yes(
        devices == [device] and each >= 1, figure, f"The kernels or operations of the traced steps ran on {device}.",
        f"The trace does not show the step’s kernels on {device}: it is the trace of something else.",
    )  # fmt: skip


def _union(record: SelfCheck) -> Finding | None:
    traces = record.readings.traces
    if not traces:
        return None

    def inside(trace: TraceReading) -> bool:
        same = abs(trace.busy_ms - trace.compute_ms) <= SUM_WITHIN * max(1.0, trace.compute_ms)
        return 0 < trace.busy_ms <= trace.step_ms * (1 + SUM_WITHIN) and same

    share = median(trace.busy_ms / trace.step_ms for trace in traces)
    return _yes(
        all(map(inside, traces)), f"{100 * share:.0f} % of the step",
        "The time with a kernel running, counted once, lies within the step and is its compute part.",
        "The time with a kernel running is none, more than the step, or not its compute part.",
    )  # fmt: skip


def _profiler(record: SelfCheck) -> Finding | None:
    traces = record.readings.traces
    ratio = Ratio.of([t.profiled_step_ms for t in traces], [t.unprofiled_step_ms for t in traces])
    if ratio is None:
        return None
    return ratio.judged(
        1 / TRUSTED_RATIO, TRUSTED_RATIO, "A traced step takes about as long as an untraced one.",
        "A traced step takes another time than an untraced one: its parts are not those of the step.",
    )  # fmt: skip


def _resident_copies(record: SelfCheck) -> Finding | None:
    traces = record.readings.traces
    if not traces:
        return None
    if (each := _copied(record, traces)) is None:
        return _no_bytes(record)
    return _yes(
        each <= STRAY_BYTES, f"{byte_size(each)} per step to the device", "Resident data are not copied again.",
        "Data that should lie on the device are copied to it in every step.",
    )  # fmt: skip


def _host_copies(record: SelfCheck) -> Finding | None:
    read = record.readings
    if read.host_trace is None or read.cell is None:
        return None
    if (each := _copied(record, (read.host_trace,))) is None:
        return _no_bytes(record)
    batch = read.cell.batch_bytes
    return _yes(
        BATCH_LEAST * batch <= each <= BATCH_MOST * batch + STRAY_BYTES,
        f"{byte_size(each)} per step to the device, a batch being {byte_size(batch)}",
        "Data fed from the host are copied to the device, once a step.",
        "What is copied to the device is not the batch that the host feeds: copies are missed, or made more than once.",
    )  # fmt: skip


def _copied(record: SelfCheck, traces: Sequence[TraceReading]) -> float | None:
    """Return the bytes copied to the device per step; None for a CPU or without sizes."""
    sizes = [t.h2d_bytes / t.steps for t in traces if t.h2d_bytes is not None]
    return median(sizes) if sizes and record.target.is_gpu else None


def _no_bytes(record: SelfCheck) -> Finding:
    why = "The trace does not tell the bytes of copies." if record.target.is_gpu else "A CPU target has no link."
    return Finding("unseen", "", why)


def _interference(record: SelfCheck) -> Finding | None:
    seen = record.readings.disturbances
    used = [item.other_cpu_pct for item in seen if item.other_cpu_pct is not None]
    if not used:
        return Finding("unseen", "", "This system does not tell what other programs use.") if seen else None
    steal = median(item.steal_pct or 0.0 for item in seen)
    shared = any(item.gpu_shared for item in seen)
    figure = f"others used {median(used):.0f} % of a core (at most {max(used):.0f} %), "
    figure += f"the virtual machine's host {steal:.0f} %"
    return _yes(
        median(used) <= BUSY_PCT and steal <= STEAL_PCT and not shared,
        figure + (", and another process the GPU" if shared else ""), "Nothing else took much of the machine.",
        "Other programs take a part of this machine; close them before anything is measured.",
    )  # fmt: skip


def _clock(record: SelfCheck) -> Finding | None:
    read = record.readings
    if read.loops is None:
        return None
    block_ms = read.loops.steps * median(read.loops.block_ms)
    share = read.loops.clock_ms / block_ms
    figure = f"{number(1000 * read.loops.clock_ms)} µs of a block of {duration(block_ms / 1000)}"
    return _yes(
        share <= MAX_CLOCK_SHARE, figure, "The clock is finer than a thousandth of a block.",
        "The clock is too coarse for a block: more than a thousandth of it.",
    )  # fmt: skip


def _card_clock(record: SelfCheck) -> Finding | None:
    read = record.readings
    if not record.target.is_gpu:
        return Finding("unseen", "", "Only a GPU says what slows its clock.")
    if read.card is None or not read.card.busy:
        why = read.missing.get("factor", "NVML does not say what this GPU did while it worked.")
        return Finding("unseen", "", why)
    named = [REASON_WORDS[name] for name in read.card.reasons if name in SLOWDOWNS]
    clock = "" if read.card.sm_mhz is None else f"SM clock {number(mean_of(read.card.sm_mhz))} MHz, "
    return _yes(
        not read.card.slowed, f"{clock}{', '.join(named) or 'no slowdown'} in {counted(read.card.busy, 'busy sample')}",
        "While the GPU worked, neither heat nor a fault held its clock down.",
        "Heat or a fault held the GPU’s clock down while it worked: cool it, or look at its power supply.",
    )  # fmt: skip


def _memory(record: SelfCheck) -> Finding | None:
    memory = record.readings.memory
    if memory is None:
        return None
    share = memory.rise_bytes / memory.known_bytes
    figure = f"{byte_size(max(0, memory.rise_bytes))} for {byte_size(memory.known_bytes)}"
    return _yes(
        PEAK_LEAST <= share <= PEAK_MOST, figure, "A known allocation raises the memory peak by its size.",
        "A known allocation does not raise the memory peak by its size.",
    )  # fmt: skip


def _xla(record: SelfCheck) -> Finding | None:
    clusters = record.readings.clusters
    if clusters is None:
        return None
    figure = (
        f"{counted(clusters.clusters, 'compiled program')} and {counted(clusters.operations, 'single operation')} in "
    )
    figure += counted(clusters.steps, "step")
    if not clusters.clusters and not clusters.operations:
        return Finding("unseen", figure, "The trace names neither; another version may name them otherwise.")
    return _yes(
        clusters.clusters == clusters.steps, figure, "With execution=xla each step is one compiled program.",
        "With execution=xla a step is not one compiled program.",
    )  # fmt: skip


def _compiled(record: SelfCheck) -> Finding | None:
    """Compare kernels and computing time of the step compiled by XLA with those of the program compiled elsewhere."""
    read, target = record.readings, record.target
    if not target.is_gpu:
        return Finding("unseen", "", "Kernels are compiled for GPUs.")
    if read.xla_trace is None or read.cell is None:
        return None
    names = [gpu.name for gpu in record.machine.gpus][target.gpus[0] :]
    target = target.model_copy(update={"execution": "xla"})
    try:
        workload = Workload(network=network_from_name(read.cell.network))
    except ValueError:  # a file of any origin
        names = []
    known = compiled_steps(workload, target, names[0]) if names else ()
    if (step := next((step for step in known if step.batch == read.cell.batch), None)) is None:
        return Finding("unseen", "", "No compiled step of this GPU ships with Breakeven.")
    trace, (low, high) = read.xla_trace, expected_kernels(step, target)
    kernels, compute_ms = trace.kernels / trace.steps, trace.compute_ms / trace.steps
    figure = (
        f"{number(kernels)} kernels per step where {low} to {high} are due; {duration(compute_ms / 1000)}, at least "
        f"{duration(step.floor_ms / 1000)}"
    )
    return _yes(
        low <= kernels <= high and compute_ms >= step.floor_ms, figure,
        "XLA runs as many kernels as it compiles for this card elsewhere, and none faster than the card's rates allow.",
        "XLA runs other kernels than it compiles for this card elsewhere: what is compiled without a card is not this.",
    )  # fmt: skip


def _cudnn(record: SelfCheck) -> Finding | None:
    lines = record.readings.recurrent
    if lines is None:
        return None
    figure = next((line for line in lines if "recurrent" in line), "; ".join(lines))
    return _yes(
        any("CudnnRNN" in line for line in lines), figure, "A recurrent layer runs by cuDNN’s kernel.",
        "A recurrent layer does not run by cuDNN’s kernel, which makes it many times slower.",
    )  # fmt: skip


def _equal(record: SelfCheck) -> Finding | None:
    equal = record.readings.equal
    if equal is None:
        return None
    seen = (
        "no difference shows" if equal.difference is None else f"differences from {percent(equal.difference)} on show"
    )
    figure = f"{seen} in {duration(equal.elapsed_s)}"
    if not set(equal.claims) - {EQUIVALENT} and (equal.difference is None or equal.difference > COARSEST):
        return Finding("unseen", figure, NOISY)
    return _yes(
        not set(equal.claims) - {EQUIVALENT}, figure, "Of two workers of the same target no difference was claimed.",
        "Two workers of the same target were said to differ: sweeps on this machine, as it is now, claim too much.",
    )  # fmt: skip


CHECKS: dict[str, tuple[str, Part | None, Callable[[SelfCheck], Finding | None]]] = {
    "worker": ("A worker starts on the target and stays", None, _worker),
    "placement": ("The step runs where it was asked to", "cell", _placement),
    "loop": ("A block against the barest loop", "loops", _loop),
    "one_sync": ("A block against one synchronisation a step", "loops", _one_sync),
    "sync_waits": ("Synchronising waits", "factor", _sync_waits),
    "parts_sum": ("A traced step’s parts sum to the step", "trace", _parts_sum),
    "kernels": ("Kernels lie on the device that was asked", "trace", _kernels),
    "union": ("The kernels’ union lies within the step", "trace", _union),
    "profiler": ("A traced step against an untraced one", "trace", _profiler),
    "resident_copies": ("Resident data cause no copies", "trace", _resident_copies),
    "host_copies": ("Host data are copied once a step", "host", _host_copies),
    "interference": ("Nothing else disturbs", None, _interference),
    "clock": ("The clock is fine enough", "loops", _clock),
    "card_clock": ("Nothing slows the GPU", None, _card_clock),
    "memory": ("The memory peak is the framework’s", "memory", _memory),
    "xla": ("XLA really compiles", "clusters", _xla),
    "compiled": ("Kernels as they were compiled without the card", "clusters", _compiled),
    "cudnn": ("cuDNN is really used", "recurrent", _cudnn),
    "equal": ("Equal targets come out equal", "equal", _equal),
}
"""By code: title, the part it is read from, and its evaluation (None: that part is missing)."""
