"""Steps that Breakeven itself measured on a GPU: median step times of sweeps and of a self-check on an NVIDIA H200.

2026-11-27, TensorFlow 2.21, Keras 3.15, a virtual machine with 16 cores of an Intel Xeon (2.1 GHz). What was measured
most is shipped: core/data/example_gpu.json and example_gpu_training.json.
"""

from __future__ import annotations

from benchmarks.evidence.rows import NetworkRow
from core.hardware.host import Conditions
from core.workload.spec import Execution, Mode, Precision, Target, Workload

SMALL, LARGE = "784-512-512-10", "1024-4096-4096-4096-10"
Step = tuple[str, Mode, Execution, Precision, bool, int, float]
STEPS: tuple[Step, ...] = (
    (SMALL, "train", "xla", "float32", False, 1, 0.651),
    (SMALL, "train", "xla", "float32", False, 2, 0.572),
    (SMALL, "train", "xla", "float32", False, 4, 0.540),
    (SMALL, "train", "xla", "float32", False, 8, 0.365),
    (SMALL, "train", "xla", "float32", False, 16, 0.336),
    (SMALL, "train", "xla", "float32", False, 128, 0.518),
    (SMALL, "train", "xla", "float32", False, 8192, 0.665),
    (SMALL, "infer", "xla", "float32", True, 1, 0.747),
    (SMALL, "infer", "xla", "float32", True, 32, 0.901),
    (SMALL, "infer", "xla", "float32", True, 512, 1.552),
    (SMALL, "infer", "xla", "float32", True, 8192, 12.72),
    (LARGE, "train", "xla", "float32", False, 1, 0.450),
    (LARGE, "train", "xla", "float32", False, 64, 0.637),
    (LARGE, "train", "xla", "mixed_bfloat16", False, 1, 0.439),
    (LARGE, "train", "xla", "mixed_bfloat16", False, 64, 0.626),
    (LARGE, "train", "graph", "float32", False, 1, 2.558),
    (LARGE, "train", "graph", "float32", False, 64, 2.682),
    (LARGE, "train", "graph", "float32", False, 4096, 5.124),
)
"""Network, mode, execution, precision, whether NumPy batches were fed, batch, ms."""


def measured_rows() -> tuple[NetworkRow, ...]:
    """Return the steps as rows of evidence."""
    return tuple(
        NetworkRow(
            source="breakeven: H200",
            group="H200",
            kind="mlp",
            gpu="H200",
            workload=Workload(network=network, mode=mode),
            target=Target(device="gpu:0", execution=execution, precision=precision),
            conditions=Conditions(fed=fed, build="keras", under_fit=False),
            host="recent_server",
            batch=batch,
            step_ms=step_ms,
        )
        for network, mode, execution, precision, fed, batch, step_ms in STEPS
    )
