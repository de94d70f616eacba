"""A traced cell in sentences and tables. Pure: pages only draw them."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from statistics import fmean, stdev

import pandas as pd

from core.analysis.statistics import MIN_UNITS, t_quantile
from core.base.numbers import byte_size, counted, number, percent
from core.base.text import sentence_case
from core.rounds.answer.answer import Fit
from core.rounds.run import Run
from core.rounds.show.trace_figures import part_words
from core.traces.record import PARTS, TRUSTED_RATIO, AnyTrace, FileTrace, HostOp, TracedCell

AGREE_PP = 5.0  # a smaller difference of the two shares is within both methods' uncertainty
SLOWED = 1.05  # minimum ratio at which the profiler's own work is mentioned
WORTH_SHARE = 0.05
WHY = {
    "input": "input pipeline",
    "summary": "writes summaries",
    "string": "works on strings",
    "control": "controls the step",
}
DISTURBED = "Trace disturbed; trace again."
AGAIN = "Trace the batch again; the fixed-cost share needs no profiler."
NO_BYTES = "not reported by the trace"
ON_CPU = (
    "The target is the host itself, so there is no table of operations that ran on the host instead of the device: "
    "all of them belong there."
)


def on_cpu(cell: AnyTrace) -> bool:
    """Return whether the cell's device is the CPU."""
    return cell.device.device == "CPU"


def headline(cell: AnyTrace) -> str:
    """Return where the traced step's time went, in one sentence: compute, and the largest part of the rest."""
    mean = cell.device.mean()
    if distrust(cell) is not None:
        share = kernel_share(cell)
        if share is None:
            return DISTURBED
        return (
            f"{sentence_case(cell.place)} the device computes for {number(mean.compute_ms)} ms of a step, "
            f"{percent(share)} of its time without the profiler; the split of the rest is not to be trusted."
        )
    shares = {part: mean.part_ms(part) / mean.step_ms for part in PARTS if part != "compute"}
    largest = max(shares, key=lambda part: shares[part])
    what, rest = part_words(cell)[largest], mean.overhead_share
    works, bounds = "operations run" if on_cpu(cell) else "the device computes", compute_bounds(cell)
    if bounds is None and isinstance(cell, FileTrace):
        steps = counted(len(cell.device.steps), "traced step")
        return f"In this file {works} during {percent(1 - rest)} of {steps}, too few for an interval."
    if bounds is None:
        return f"{sentence_case(cell.place)} too few steps were traced to say where a step goes."
    low, high = (f"{100 * end:.0f}" for end in bounds)
    begin = f"{sentence_case(cell.place)} {works} during {percent(1 - rest)} ({low} to {high} %) of a traced step"
    if rest <= 0:
        return f"{begin}; nothing else takes time."
    if shares[largest] >= 0.99 * rest:
        return f"{begin}; the rest is {what}."
    return f"{begin}; the largest part of the rest is {what} ({percent(shares[largest])})."


def kernel_share(cell: AnyTrace) -> float | None:
    """Return the traced compute over the unprofiled step of a GPU; None if that cannot be told.

    A GPU times its kernels itself, so that a profiler which slows the host, or keeps XLA from using CUDA graphs, leaves
    them as they are (H200: steps took up to 2.2 times as long under it, docs/validation.md).
    """
    if on_cpu(cell) or cell.dropped_events or isinstance(cell, FileTrace):
        return None
    share = cell.device.mean().compute_ms / cell.unprofiled_step_ms
    return share if 0 < share <= 1 else None


def compute_bounds(cell: AnyTrace) -> tuple[float, float] | None:
    """Return the 95 % interval of the compute share over the traced steps; None with fewer than three."""
    shares = [1 - step.overhead_share for step in cell.device.steps]
    return _bounds(shares, 1 - cell.device.mean().overhead_share)


def all_reduced(cell: AnyTrace) -> str | None:
    """Return the all-reduce's share of a step on several devices; None if the trace lacks it, or has too few steps."""
    shares = cell.device.all_reduce_shares
    if not shares or (bounds := _bounds(shares, fmean(shares))) is None:
        return None
    low, high = (f"{100 * end:.0f}" for end in bounds)
    return (
        f"The all-reduce, which sums the gradients of all devices, runs during {percent(fmean(shares))} ({low} to "
        f"{high} %) of a traced step."
    )


def _bounds(shares: Sequence[float], middle: float) -> tuple[float, float] | None:
    if len(shares) < MIN_UNITS:
        return None
    half = t_quantile(0.975, len(shares) - 1) * stdev(shares) / math.sqrt(len(shares))
    return max(0.0, middle - half), min(1.0, middle + half)


def distrust(cell: AnyTrace) -> str | None:
    """Return why the split is not to be trusted, or None if it is."""
    if cell.dropped_events:
        return (
            f"The split {cell.place} is not to be trusted: the profiler lost "
            f"{counted(cell.dropped_events, 'event')} of the device, so kernels or copies are missing. "
            + ("Trace fewer steps." if isinstance(cell, FileTrace) else AGAIN)
        )
    if cell.trusted or isinstance(cell, FileTrace):
        return None
    return (
        f"The split {cell.place} is not to be trusted: a step took {number(cell.profiled_step_ms)} ms under "
        f"the profiler and {number(cell.unprofiled_step_ms)} ms without it, {number(cell.profiler_ratio)} times as "
        f"long (at most {TRUSTED_RATIO} is trusted). So much of what the trace shows is the profiler's own work, most "
        "of it on the host. The fixed-cost share needs no profiler."
    )


def retraced(cell: AnyTrace) -> str | None:
    """Return the remedy for functions that were retraced inside the steps, or None."""
    if not cell.retraces:
        return None
    times = "once" if cell.retraces == 1 else f"{cell.retraces:,} times"
    return (
        f"A tf.function was traced again {times} within the steps; that takes far longer than a step. Keep the shapes "
        "and types of its inputs fixed."
    )


def fitted_against_traced(cell: TracedCell, fit: Fit | None) -> tuple[str, ...]:
    """Return why a cell's fixed-cost share (fitted) and overhead share (traced) differ, the difference first."""
    if fit is None:
        return ("There is no fixed-cost share to compare with: its fit takes step times at three batch sizes or more.",)
    traced, fitted = cell.device.mean().overhead_share, fit.overhead_share(cell.batch)
    points = 100 * (fitted - traced)
    by_fit = f"{percent(fitted)} of a step does not grow with the batch (fixed-cost share, fitted)"
    idle = "no operation runs" if on_cpu(cell) else "nothing is computed"
    by_trace = f"during {percent(traced)} of a step {idle} (overhead share, traced)"
    begin = f"These are two things. At batch {cell.batch:,}, {by_fit}; {by_trace}"
    if abs(points) < AGREE_PP:
        sentences = [f"{begin}: they agree within {AGREE_PP:.0f} percentage points."]
    elif points > 0:
        sentences = [f"{begin}: the fixed-cost share is {points:.0f} percentage points higher.", *_fit_is_higher(cell)]
    else:
        sentences = [f"{begin}: the overhead share is {-points:.0f} percentage points higher.", *_trace_is_higher(cell)]
    if not fit.trusted:
        sentences.append(f"The fit itself is to be read with care. {fit.note}".strip())
    if not cell.trusted:
        sentences.append("The trace is not to be trusted at this batch; go by the fixed-cost share.")
    return tuple(sentences)


def _fit_is_higher(cell: TracedCell) -> list[str]:
    if on_cpu(cell):
        why = (
            "The fit counts as fixed cost all that does not grow with the batch, also fixed work inside operations, "
            "such as the optimizer's on every weight. The trace counts an operation as compute while any thread runs "
            "it, even where the others wait."
        )
    else:
        why = (
            "The fit counts as fixed cost all that does not grow with the batch, also the fixed part of every kernel. "
            "The trace counts a kernel as busy even while it leaves most of the device idle, as small ones do."
        )
    slowed = _slowed(cell)
    return [why, f"{slowed}, so without it the two would lie farther apart."] if slowed else [why]


def _trace_is_higher(cell: TracedCell) -> list[str]:
    mean, sentences = cell.device.mean(), []
    fed = (mean.h2d_ms + mean.d2h_ms + mean.d2d_ms + mean.input_ms) / mean.step_ms
    if fed >= WORTH_SHARE:
        sentences.append(
            f"Copies and waiting for input are {percent(fed)} of the traced step. They mostly grow with the batch, "
            "which the fit takes for cost per sample and the trace for overhead."
        )
    if slowed := _slowed(cell):
        sentences.append(f"{slowed}, so the overhead share comes out too high.")
    if not sentences:
        sentences.append(
            "The fit takes for cost per sample all that grows with the batch, also gaps between operations and work of "
            "the host; in the trace these are overhead."
        )
    return sentences


def _slowed(cell: TracedCell) -> str | None:
    if cell.profiler_ratio < SLOWED:
        return None
    return f"The profiler made a step {number(cell.profiler_ratio)} times as long, mostly by work on the host"


def placement(cell: AnyTrace) -> str:
    """Return what ran on the host beside a GPU, in one sentence; for a CPU, why nothing is listed."""
    if on_cpu(cell):
        return ON_CPU
    if not cell.host_ops:
        return "In the traced steps no operation is known to have run on the host."
    fell = [op for op in cell.host_ops if not op.expected]
    steps = len(cell.device.steps)
    belong = counted(len(cell.host_ops) - len(fell), "operation")
    if not fell:
        return f"{belong} ran on the host, and all belong there; nothing fell back."
    took = number(sum(op.total_ms for op in fell) / steps)
    rest = "" if len(fell) == len(cell.host_ops) else f" {belong} more ran there as expected."
    return f"{counted(len(fell), 'operation')} fell back to the host and took {took} ms of a traced step.{rest}"


def kernels_table(cell: AnyTrace) -> pd.DataFrame:
    """Return the kernels (operations on a CPU) that cost most, with their count, ms and % of busy time.

    ``kernel`` is the readable name, ``name`` the whole one.
    """
    busy_ms = cell.device.busy_ms
    return pd.DataFrame(
        {
            "kernel": [readable(kernel.name) for kernel in cell.device.top],
            "count": [kernel.count for kernel in cell.device.top],
            "total_ms": [kernel.total_ms for kernel in cell.device.top],
            "busy_pct": [100 * kernel.total_ms / busy_ms if busy_ms else None for kernel in cell.device.top],
            "name": [kernel.name for kernel in cell.device.top],
        }
    )


def parts_table(cell: AnyTrace) -> pd.DataFrame:
    """Return the parts of the mean step, with their milliseconds and share of it in %."""
    mean, words = cell.device.mean(), part_words(cell)
    parts = [part for part in PARTS if mean.part_ms(part) > 0]
    return pd.DataFrame(
        {
            "part": [sentence_case(words[part]) for part in parts],
            "ms": [mean.part_ms(part) for part in parts],
            "share_pct": [100 * mean.part_ms(part) / mean.step_ms for part in parts],
        }
    )


def readable(name: str) -> str:
    """Return a kernel's name without its template arguments and parameters; other names unchanged.

    ``void cutlass::Kernel2<cutlass_80_wmma…>(Params)`` becomes ``cutlass::Kernel2``.
    """
    if not re.search(r"[<(]", name):
        return name
    before = None
    bare = name.replace("(anonymous namespace)::", "")
    while before != bare:
        before, bare = bare, re.sub(r"<[^<>]*>|\([^()]*\)", "", bare)
    return bare.strip().removeprefix("void ").split(" [")[0].strip() or name


def host_table(run: Run, cell: AnyTrace) -> pd.DataFrame:
    """Return operations that ran on the host beside a GPU, fallbacks first, then by time."""
    ops = sorted(cell.host_ops, key=lambda op: (op.expected, -op.total_ms))
    return pd.DataFrame(
        {
            "operation": [op.name for op in ops],
            "type": [op.op_type for op in ops],
            "why": [_why(op) for op in ops],
            "count": [op.count for op in ops],
            "total_ms": [op.total_ms for op in ops],
            "moved": [NO_BYTES if op.moved_bytes is None else byte_size(op.moved_bytes) for op in ops],
            "label": [run.label] * len(ops),
        }
    )


def _why(op: HostOp) -> str:
    if not op.expected:
        return "fell back to the host"
    return f"expected: {WHY.get(op.why, op.why)}" if op.why else "expected"
