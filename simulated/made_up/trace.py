"""A made-up profiler trace of a few steps, put through the real reader."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from core.traces.events import TraceError
from core.traces.report import report
from core.traces.xplane import read
from core.worker.profiling import reply_fields
from core.worker.protocol import CellFailed
from core.workload.spec import Target
from simulated.made_up.curves import Parts
from simulated.traces import MadeTrace

HOST_NODES = frozenset({"model/IteratorGetNext"})
PROFILED = 1.06  # over unprofiled
DELAY_US = 15.0  # of the device behind the host
SGEMM, RELU = "made_up_sgemm_128x64_tn", "void made_up::EigenMetaKernel<float, int>(float*, int)"
GRAPH = tuple(
    (f"model/{layer}", kind, kernel)
    for layer in ("dense", "dense_1", "gradients/dense_1", "gradients/dense")
    for kind, kernel in (("MatMul", SGEMM), ("Relu", RELU))
)
COMPILED = tuple((f"cluster_0/fusion_{i}", "XlaLaunch", f"made_up_loop_fusion_{i}") for i in range(3))


def traced(parts: Parts, target: Target, steps: int, gpu_seen: bool) -> dict[str, Any]:
    """Return fields of a traced cell; ``target`` has its resolved execution. Raises CellFailed on a refused trace."""
    device = target.device.upper()
    made = _gpu(parts, target, steps, gpu_seen) if target.is_gpu else _cpu(parts, steps)
    with tempfile.TemporaryDirectory(prefix="made-up-trace-") as folder:
        try:
            trace = report(read(made.write(Path(folder))), HOST_NODES if target.is_gpu else None, (device,))
        except TraceError as error:
            raise CellFailed("error", f"The profiler's trace cannot be used: {error}") from None
    each = {"profiled_step_ms": PROFILED * parts.step_ms, "unprofiled_step_ms": parts.step_ms}
    return reply_fields(trace, steps, 1) | each


def _gpu(parts: Parts, target: Target, steps: int, gpu_seen: bool) -> MadeTrace:
    """Return a trace in which the host launches through the whole step.

    The device computes in as many pieces as there are kernels, after the copy of the batch. Without CUPTI the device's
    plane and the driver's calls are missing.
    """
    step_us, copy_us, input_us = (1000 * PROFILED * ms for ms in (parts.step_ms, parts.copy_ms, parts.input_ms))
    made = MadeTrace()
    python = made.plane("/host:CPU").line("python", thread=7)
    calls = made.plane("/host:CUPTI").line("driver", thread=7) if gpu_seen else None
    device = made.plane(f"/device:{target.device.upper()}") if gpu_seen else None
    copies, kernels = (device.line(f"Stream #{name}") if device else None for name in ("14(MemcpyH2D)", "15(Kernel)"))
    launched = COMPILED if target.execution == "xla" else GRAPH
    each_us = 1000 * PROFILED * parts.compute_ms / len(launched)
    for step in range(steps):
        at, number = step * step_us, 100 * step
        python.event("train", at, 0.99 * step_us, step_num=step)
        if input_us:
            python.event("model/IteratorGetNext:IteratorGetNext", at + 1, input_us)
        begin = at + input_us + copy_us + 2
        pitch_us = (step_us - input_us - copy_us - 4) / len(launched)
        if calls and copies and copy_us:
            calls.event("cuMemcpyHtoDAsync", at + input_us + 0.1, 1, correlation_id=number + 99)
            copies.event("MemcpyH2D", at + input_us + 0.5, copy_us, correlation_id=number + 99,
                         memcpy_details=f"kind_src:host size:{parts.batch_bytes} dest:0 async:1")  # fmt: skip
        for index, (name, kind, kernel) in enumerate(launched):
            launch = begin + index * pitch_us
            python.event(f"{name}:{kind}", launch, 0.9 * pitch_us)
            if calls and kernels:
                calls.event("cuLaunchKernel", launch + 1, 2, correlation_id=number + index + 1)
                hlo = {"hlo_op": f"fusion_{index}"} if launched is COMPILED else {}
                begun = launch + min(DELAY_US, 0.05 * pitch_us)
                kernels.event(kernel, begun, each_us, correlation_id=number + index + 1, **hlo)
    return made


def _cpu(parts: Parts, steps: int) -> MadeTrace:
    step_us, input_us = 1000 * PROFILED * parts.step_ms, 1000 * PROFILED * parts.input_ms
    made = MadeTrace()
    host = made.plane("/host:CPU")
    python, pool = host.line("python", thread=7), host.line("tf_Compute/1", thread=8)
    each_us = 1000 * PROFILED * parts.compute_ms / len(GRAPH)
    for step in range(steps):
        at = step * step_us
        python.event("train", at, 0.99 * step_us, step_num=step)
        if input_us:
            python.event("model/IteratorGetNext:IteratorGetNext", at + 1, input_us)
        for index, (name, kind, _) in enumerate(GRAPH):
            pool.event(f"{name}:{kind}", at + input_us + 2 + index * (step_us - input_us - 4) / len(GRAPH), each_us)
    return made
