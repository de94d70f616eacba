"""Duration of a made-up step, and its parts. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass

from core.workload.execution import expected
from core.workload.spec import Pipeline, Target, Workload
from simulated.made_up.activity import SLOW_CLOCK

CORES = 2  # of a CPU target without a number of threads
CPU_GFLOPS, GPU_GFLOPS = 10.0, 8_000.0  # of one core; of a card in float32
FILLS_GPU = 1_600_000  # parameters; a smaller network leaves a proportional share of the card idle
FASTER = {"float32": 1.0, "float32_strict": 1.0, "mixed_float16": 4.0, "mixed_bfloat16": 4.0}
TF32, TF32_FROM = 3.0, (8, 0)
CPU_FLOOR_MS = {"graph": 0.25, "xla": 0.18, "eager": 1.5}
GPU_FLOOR_MS = {"graph": 1.2, "xla": 0.7, "eager": 5.0}
CALL_MS = {"predict": 35.0, "model": 0.8, "predict_on_batch": 0.02}
LINK_GB_S, COPY_MS = 8.0, 0.05


@dataclass(frozen=True)
class Parts:
    """Parts of one step; the remainder is launch."""

    step_ms: float
    compute_ms: float
    copy_ms: float = 0.0
    input_ms: float = 0.0
    batch_bytes: int = 0

    @property
    def link_kb_s(self) -> int:
        return round(self.batch_bytes / self.step_ms) if self.copy_ms else 0  # bytes per ms are kB per s


def parts_ms(
    workload: Workload,
    target: Target,
    pipeline: Pipeline,
    batch: int,
    capability: tuple[int, int] = (7, 5),
    *,
    slow: bool = False,
    hot: bool = False,
    shared: bool = False,
) -> Parts:
    """Return the step's parts: floor and growth with the batch, √(floor² + (slope·batch)²), plus copies and input."""
    work = workload.flops_per_sample * batch / 1e6  # 1 GFLOP/s is 10⁶ FLOP per ms
    size = batch * (4 * math.prod(workload.network.input_shape) + 8)
    execution = expected(workload.network, target).execution
    if not target.is_gpu:
        threads = target.threads or CORES
        grows_ms, floor_ms = work / (CPU_GFLOPS * min(threads, 4)), CPU_FLOOR_MS[execution] * (0.8 + 0.1 * threads)
        copy_ms = 0.0
    else:
        faster = TF32 if target.precision == "float32" and capability >= TF32_FROM else FASTER[target.precision]
        faster *= (0.3 if slow else 1.0) * min(1.0, workload.network.parameters / FILLS_GPU)
        grows_ms, floor_ms = work / (GPU_GFLOPS * faster), GPU_FLOOR_MS[execution]
        grows_ms, floor_ms = (t * (1.3 if shared else 1.0) for t in (grows_ms, floor_ms))
        grows_ms /= SLOW_CLOCK if hot else 1.0
        copy_ms = 0.0 if pipeline.kind == "resident" else COPY_MS + size / (LINK_GB_S * 1e6)
    floor_ms = floor_ms / min(target.steps_per_execution, 4) + CALL_MS.get(target.call, 0.0)
    input_ms = 0.0 if pipeline.kind != "tfdata" else 0.05 + pipeline.preprocess_us * batch / 1000 / CORES
    core_ms = math.hypot(floor_ms, grows_ms)
    compute_ms = min(max(0.02 * core_ms, grows_ms), 0.97 * core_ms)
    return Parts(core_ms + copy_ms + input_ms, compute_ms, copy_ms, input_ms, size)
