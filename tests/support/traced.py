"""Plausible traced cells with known parts. Like their runs, nothing about them was measured."""

from typing import Any

from core.rounds.run import Run
from core.traces.record import PARTS, DeviceTrace, HostOp, Kernel, Part, Span, StepParts, TracedCell

GEMM = (
    "void cutlass::Kernel2<cutlass_80_wmma_tensorop_f16_s161616gemm_f16_16x16_128x2_tn_align8>"
    "(cutlass_80_wmma_tensorop_f16_s161616gemm_f16_16x16_128x2_tn_align8::Params)"
)
RELU = "void Eigen::internal::EigenMetaKernel<Eigen::TensorEvaluator<float, Eigen::GpuDevice>, int>(float*, int)"
GPU_SHARES: dict[Part, float] = {
    "compute": 0.61, "h2d": 0.05, "d2h": 0.02, "d2d": 0.01, "input": 0.04, "launch": 0.25, "other": 0.02,
}  # fmt: skip
CPU_SHARES: dict[Part, float] = {"compute": 0.7, "launch": 0.3}
HOST_OPS = (
    HostOp(name="while/IteratorGetNext", op_type="IteratorGetNext", count=4, total_ms=0.8, expected=True, why="input",
           moved_bytes=401_408),
    HostOp(name="model/Unique", op_type="Unique", count=4, total_ms=0.2, expected=False, moved_bytes=512),
    HostOp(name="model/Where", op_type="Where", count=8, total_ms=0.3, expected=False),
)  # fmt: skip


def step_parts(step_ms: float, shares: dict[Part, float]) -> StepParts:
    """Return a step whose parts are the given shares of it (they sum to 1)."""
    values = {f"{part}_ms": step_ms * shares.get(part, 0.0) for part in PARTS}
    return StepParts(step_ms=sum(values.values()), **values)


def spans(step_ms: float, shares: dict[Part, float], lanes: dict[Part, str]) -> tuple[Span, ...]:
    """Return the parts in sequence, each on the lane of its part; compute as two events."""
    found, at_ms = [], 0.0
    for part, share in shares.items():
        pieces = (GEMM, RELU) if part == "compute" else (f"{part} event",)
        for name in pieces:
            length_ms = step_ms * share / len(pieces)
            found.append(Span(lane=lanes[part], name=name, part=part, start_ms=at_ms, length_ms=length_ms))
            at_ms += length_ms
    return tuple(found)


def gpu_cell(batch: int = 32, target: int = 1, step_ms: float = 2.0, ratio: float = 1.1, **changes: Any) -> TracedCell:
    """Return a cell on a GPU: four steps of ``step_ms`` under the profiler, ``ratio`` times as long as without it."""
    shares: dict[Part, float] = changes.pop("shares", GPU_SHARES)
    lanes: dict[Part, str] = dict.fromkeys(PARTS, "Stream #14(MemcpyH2D,MemcpyD2H,MemcpyD2D)")
    lanes |= {"compute": "Stream #13(Kernel)", "input": "python", "launch": "python"}
    return TracedCell(
        target=target, batch=batch, profiled_step_ms=step_ms, unprofiled_step_ms=step_ms / ratio,
        device=DeviceTrace(
            device="GPU:0", steps=(step_parts(step_ms, shares),) * 4, kernels=96, busy_ms=4 * step_ms * 0.61,
            span_ms=4 * step_ms, steps_from="host steps", timeline=spans(step_ms, shares, lanes),
            top=(Kernel(name=GEMM, count=24, total_ms=step_ms), Kernel(name=RELU, count=72, total_ms=step_ms / 2)),
        ),
        **{"host_ops": HOST_OPS} | changes,
    )  # fmt: skip


def cpu_cell(batch: int = 32, target: int = 0, step_ms: float = 1.0, ratio: float = 1.1, **changes: Any) -> TracedCell:
    """Return a cell on the CPU: four steps of ``step_ms`` under the profiler, ``ratio`` times as long as without it."""
    shares: dict[Part, float] = changes.pop("shares", CPU_SHARES)
    lanes: dict[Part, str] = {"compute": "tf_Compute 1", "launch": "python"}
    matmul = Kernel(name="sequential/dense/MatMul:_MklMatMul", count=8, total_ms=step_ms)
    return TracedCell(
        target=target, batch=batch, profiled_step_ms=step_ms, unprofiled_step_ms=step_ms / ratio,
        device=DeviceTrace(
            device="CPU", steps=(step_parts(step_ms, shares),) * 4, kernels=8, busy_ms=4 * step_ms * 0.7,
            span_ms=4 * step_ms, steps_from="host steps", top=(matmul,), timeline=spans(step_ms, shares, lanes),
        ),
        **changes,
    )  # fmt: skip


def with_traces(run: Run, *cells: TracedCell) -> Run:
    """Return the run with these traces."""
    return run.model_copy(update={"traces": cells})
