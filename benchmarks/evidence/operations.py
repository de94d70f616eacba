"""Readers of published measurements (``../shared/data/published``) into points with which the model can be compared.

Every point names its card as the catalogue does and carries the operations that its measurement ran. The cost of the
software is kept separate: the host's cost is taken from each machine's own smallest steps, as a host study does on a
user's machine, and those steps are left out of the errors.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.evidence.rows import FOLDER, read_csv
from core.hardware.catalogue import GpuSpec
from core.hardware.constants import Peak
from core.hardware.work import OpClass, blocks

Array = NDArray[np.float64]

CATALOGUE_NAMES = {
    "V100": "V100-16GB-SXM2", "P100": "P100-SXM2", "1080ti": "GTX-1080-Ti",
    "Tesla P100-PCIE-16GB": "P100-PCIe", "Tesla V100-PCIE-32GB": "V100-32GB-PCIe", "Tesla P4": "P4", "Tesla T4": "T4",
    "NVIDIA A100-PCIE-40GB": "A100-40GB-PCIe", "NVIDIA A100 80GB PCIe": "A100-80GB-PCIe", "NVIDIA L4": "L4",
    "NVIDIA H100 80GB HBM3": "H100-SXM",
    "NV_V100": "V100-16GB-PCIe", "NV_P100": "P100-PCIe", "NV_T4": "T4", "NV_1080Ti": "GTX-1080-Ti",
    "AMD_MI25": "MI25", "AMD_VegaFE": "Vega-FE",
    "a100": "A100-80GB-SXM", "h100": "H100-SXM", "a40": "A40",
    "GTX 1080 Ti": "GTX-1080-Ti", "K80": "K80-die",
    "H100_80GB_PCIe": "H100-PCIe", "H100_80GB_SXM5": "H100-SXM", "H200_140GB_SXM": "H200", "B200_192GB": "B200",
}  # fmt: skip
"""Catalogue names by the names in the data. P100 and V100 of the dense layers are in DGX-1 and P3 machines, as SXM2."""


def _older(
    name: str, vendor: str, architecture: str, tflops: float, bandwidth: float, memory: float, units: int, l2_mb: float
) -> GpuSpec:
    source = f"{vendor}'s announcement of the card and documentation of its chip; too old for the catalogue"
    facts: dict[str, Any] = {"fp32_tflops": tflops, "bandwidth_gb_s": bandwidth, "memory_gb": memory}
    facts |= {
        "multiprocessors": units,
        "l2_mb": l2_mb,
        "link": "PCIe 3.0 x16",
        "link_gb_s": 12.35,
        "launch_us": 2.7,
    }
    return GpuSpec(
        name=name, title=name, vendor=vendor, architecture=architecture, sources=dict.fromkeys(facts, source), **facts
    )


OLDER = {
    card.name: card
    for card in (
        _older("K80-die", "NVIDIA", "Kepler", 4.1, 240.0, 12.0, 13, 1.5),
        _older("MI25", "AMD", "Vega", 12.3, 484.0, 16.0, 64, 4.0),
        _older("Vega-FE", "AMD", "Vega", 13.1, 483.0, 16.0, 64, 4.0),
    )
}


@dataclass(frozen=True)
class Column:
    """Operations of one class, for every point of a set, as arrays of points × operations.

    ``depth`` is the length of the sums of a product of few rows.
    """

    kind: OpClass
    peak: Peak
    flops: Array
    moved: Array
    launches: Array
    depth: Array | None = None
    tiles: Array | None = None


def _column(
    kind: OpClass, peak: Peak, flops: Array, moved: Array, launches: Array, depth: Array | None = None,
    tiles: Array | None = None,
) -> Column:  # fmt: skip
    """Build a column of one operation per point."""
    return Column(
        kind,
        peak,
        flops[:, None],
        moved[:, None],
        launches[:, None],
        *(None if each is None else each[:, None] for each in (depth, tiles)),
    )


@dataclass(frozen=True)
class Points:
    """Measured times of one source and phase. ``host_ops`` is the number of operations that the host hands over,
    ``machine`` the host that does so.

    ``tiny`` marks the points from which a machine's host is measured; ``columns`` are the operations in order.
    """

    source: str
    family: str
    phase: str
    gpu: NDArray[np.str_]
    machine: NDArray[np.str_]
    batch: Array
    measured_ms: Array
    host_ops: Array
    tiny: NDArray[np.bool_]
    columns: tuple[Column, ...]

    def where(self, keep: NDArray[np.bool_]) -> Points:
        """Return the points that ``keep`` marks."""
        columns = tuple(
            replace(
                each,
                flops=each.flops[keep],
                moved=each.moved[keep],
                launches=each.launches[keep],
                depth=None if each.depth is None else each.depth[keep],
                tiles=None if each.tiles is None else each.tiles[keep],
            )
            for each in self.columns
        )
        rows = {
            name: getattr(self, name)[keep]
            for name in ("gpu", "machine", "batch", "measured_ms", "host_ops", "tiny")
        }  # fmt: skip
        return replace(self, columns=columns, **rows)


def available() -> bool:
    """Check that the published data are beside the checkout."""
    return FOLDER.is_dir()


def _numbers(rows: Iterable[Mapping[str, str]], name: str) -> Array:
    return np.array([float(row[name]) for row in rows])


def _cards(rows: Iterable[Mapping[str, str]], name: str) -> NDArray[np.str_]:
    return np.array([CATALOGUE_NAMES[row[name]] for row in rows])


# TensorFlow 1's fused updates (tensorflow/core/kernels/training_ops_gpu.cu.cc): one expression after the other, each
# reading and writing whole tensors. Tensors touched per parameter, kernels per variable.
TF1_UPDATES = {
    "SGD": (3, 1), "Momentum": (6, 2), "Adagrad": (7, 2), "RMSProp": (10, 3), "Adam": (10, 3), "Adadelta": (12, 3),
}  # fmt: skip
TF1_VARIABLES = 4  # weights, bias, and the inputs and targets, which this measurement trained as well
TF1_FORWARD, TF1_GRADIENTS = 3, 16  # kernels: product, bias, activation; loss and all gradients
TINY_PARAMETERS = 60_000


def dense_layers() -> list[Points]:
    """Read one Dense layer in TensorFlow 1, forward and in training: CDECatapult/ml-performance-prediction."""
    rows = [row for row in read_csv(FOLDER / "justus_dense_tf1_fp32.csv.gz") if row["device"] in CATALOGUE_NAMES]
    forward = [row for row in rows if row["optimizer"] == "None(fwd only)"]
    training = [row for row in rows if row["optimizer"] in TF1_UPDATES]
    return [_dense(forward, training=False), _dense(training, training=True)]


def _dense(rows: list[dict[str, str]], training: bool) -> Points:
    batch, inputs, units = (_numbers(rows, name) for name in ("batchsize", "dim_input", "dim_output"))
    weights, outputs = inputs * units, batch * units
    moved = 4 * (weights + batch * inputs + outputs)
    ones = np.ones_like(batch)
    columns = [
        _column("dense", "fp32", 2 * batch * weights, moved, ones, inputs, blocks(batch, units, inputs)),
        _column("elementwise", "fp32", outputs, 16 * outputs, 2 * ones),
    ]
    kernels = TF1_FORWARD * ones
    if training:
        touched = np.array([TF1_UPDATES[row["optimizer"]][0] for row in rows])
        launches = np.array([TF1_UPDATES[row["optimizer"]][1] for row in rows]) * TF1_VARIABLES
        launches = launches + np.array([TF1_VARIABLES * (row["optimizer"] == "Adam") for row in rows])
        trained = weights + units + batch * inputs + outputs
        columns += [
            _column("loss", "fp32", 5 * outputs, 40 * outputs, (TF1_GRADIENTS - 2) * ones),
            _column("dense", "fp32", 2 * batch * weights, moved, ones, None, blocks(inputs, units, batch)),
            _column("dense", "fp32", 2 * batch * weights, moved, ones, units, blocks(batch, inputs, units)),
            _column("optimizer", "fp32", touched * trained, 4 * touched * trained, launches.astype(float)),
        ]
        kernels = kernels + TF1_GRADIENTS + launches
    return Points(
        source="dense layers (TF 1)",
        family="dense layer",
        phase="train" if training else "infer",
        gpu=_cards(rows, "device"),
        machine=np.array([row["source_file"].split("__benchmark")[0] for row in rows]),
        batch=batch,
        measured_ms=_numbers(rows, "step_ms_median"),
        host_ops=kernels.astype(float),
        tiny=weights < TINY_PARAMETERS,
        columns=tuple(columns),
    )


def _products(
    rows: list[dict[str, str]], source: str, family: str, sizes: tuple[Array, Array, Array], times: Array,
    peak: Peak, width: int, old: bool = False, host: str | None = None,
) -> Points:  # fmt: skip
    """Build matrix products of m rows, n columns and sums of k; ``host`` names the machine's column if it adds a
    floor.
    """
    m, n, k = sizes
    ones = np.ones_like(m)
    moved = width * (m * k + k * n + m * n)
    flops = 2 * m * n * k
    few = np.minimum(m, n)
    return Points(
        source=source,
        family=family,
        phase="infer",
        gpu=_cards(rows, "Device" if "Device" in rows[0] else "device"),
        machine=np.array([row[host] if host else "none" for row in rows]),
        batch=few,
        measured_ms=times,
        host_ops=ones if host else 0 * ones,
        tiny=(flops < 2e7) & (moved < 2e6) & (host is not None),
        columns=(_column("dense", peak, flops, moved, ones, k if old else None, blocks(m, n, k)),),
    )


def linear_operations() -> list[Points]:
    """Read one Linear layer's forward product in PyTorch 2.1, float32 without TF32: sitar-lab/NeuSight."""
    rows = list({tuple(row.items()): row for row in read_csv(FOLDER / "neusight_op_linear.csv.gz")}.values())
    m, n, k = (_numbers(rows, name) for name in "MNK")
    times = _numbers(rows, "latency_ms")
    return [_products(rows, "linear (NeuSight)", "linear operation", (m, n, k), times, "fp32", 4, host="Device")]


def elementwise_operations() -> list[Points]:
    """Read element-wise operations in PyTorch: sitar-lab/NeuSight.

    Softmax and layer normalisation are left out, since PyTorch runs each as one kernel and TensorFlow as several.
    """
    reads = dict.fromkeys(("add", "mul", "pow", "div"), 3) | dict.fromkeys(
        ("addu", "mulu", "powu", "divu", "relu", "gelu", "tanh"), 2
    )
    rows = [row for row in read_csv(FOLDER / "neusight_op_elementwise.csv.gz") if row["OPName"] in reads]
    values = _numbers(rows, "B") * _numbers(rows, "H")
    touched = np.array([reads[row["OPName"]] for row in rows])
    ones = np.ones_like(values)
    return [
        Points(
            source="element-wise (NeuSight)",
            family="element-wise",
            phase="infer",
            gpu=_cards(rows, "Device"),
            machine=np.full(len(rows), "none"),
            batch=_numbers(rows, "B"),
            measured_ms=_numbers(rows, "latency_ms"),
            host_ops=0 * ones,
            tiny=np.zeros(len(rows), dtype=bool),
            columns=(_column("elementwise", "fp32", values, 4 * touched * values, ones),),
        )
    ]


LONGEST_SUM = 100_000  # no layer trained in batches has DeepBench's products with sums of 500,000 values


def deepbench_products() -> list[Points]:
    """Read matrix products of 2017 and 2018: baidu-research/DeepBench."""
    points = []
    for precision, peak, width in (("Float", "fp32", 4), ("16 bit inputs, 16 bit multiplication", "half", 2)):
        rows = [
            row
            for row in read_csv(FOLDER / "deepbench_gemm.csv.gz")
            if row["suite"] == "train"
            and row["precision"].startswith(precision)
            and row["device"] in CATALOGUE_NAMES
            and float(row["K"]) < LONGEST_SUM
        ]
        m, n, k = (_numbers(rows, name) for name in "MNK")
        times = _numbers(rows, "time_ms")
        points.append(
            _products(rows, "GEMM (DeepBench)", "GEMM", (m, n, k), times, peak, width, old=True)  # type: ignore[arg-type]
        )
    return points


def token_products() -> list[Points]:
    """Read matrix products of language models in float16 over 1 to 4096 rows: microsoft/vidur."""
    rows = read_csv(FOLDER / "vidur_gemm_fp16_token_sweep.csv.gz")
    points = []
    for name in ("attn_post_proj_ms", "mlp_up_proj_ms", "mlp_down_proj_ms"):
        rows_, width, wide = _numbers(rows, "num_tokens"), _numbers(rows, "n_embd"), _numbers(rows, "n_expanded_embd")
        gates = np.array([2.0 if row["use_gated_mlp"] == "True" else 1.0 for row in rows])
        inner, outer = {"attn": (width, width), "mlp_up": (width, wide * gates), "mlp_down": (wide, width)}[
            name.rsplit("_", 2)[0].replace("attn_post", "attn")
        ]
        points.append(
            _products(rows, "GEMM (vidur)", "GEMM", (rows_, outer, inner), _numbers(rows, name), "half", 2)
        )  # fmt: skip
    return points


def everything() -> list[Points]:
    """Return all points, source by source."""
    readers = (
        dense_layers, linear_operations, elementwise_operations, deepbench_products, token_products,
    )  # fmt: skip
    return [points for reader in readers for points in reader()]
