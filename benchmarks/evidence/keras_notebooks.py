"""GPU rows of keras_notebook_steps.csv: whole Keras and TensorFlow networks in public notebooks, under ``fit``.

Rows are converted by these rules, stated before any row was compared with the model:

- Optimizer: RMSprop is momentum (one slot, the same traffic), Adadelta is adam (two slots); none given is sgd.
- Precision: fp32 is float32, which is TF32 where the card has it, as in the programs.
- Keras 3 (``jit_compile='auto'``) is execution “keras” of the build “keras”. tf.keras 2 and raw TF 1 are “graph” of the
  build “fused”: their normalisation and optimizers are kernels of their own. Keras 2 as a package of its own, on TF 1,
  is “graph” too, but is between the builds: its keras/optimizers.py writes updates as small operations, its
  normalisation is fused. So its networks are “fused” where they normalise and “keras” elsewhere. Transformers are
  “keras” in every graph: gelu, softmax and dropout are operations of their own there (a rule made after the first
  errors had been seen).
- Only raw TF 1 and ``train_on_batch`` are not under ``fit``; ``predict`` is, since its loop is the same.
- Data that are “synthetic” live on the card; everything else is fed.
- Host: Colab is weak. So is a GCE n1-standard, whatever its size: it is the machine that Colab gives out, and what a
  step costs there is one thread's speed. EC2 (p2, p3, g2), other GCP and DGX machines are servers. The rest, and a
  GeForce that a row places at EC2, which never had any, are desktops.
- Validation in the time: a step of it counts a third of a training step, and the time is divided accordingly where the
  steps of training follow from the data set (:data:`SAMPLES`, :data:`STEPS`); elsewhere the time is an upper bound. So
  is a total with its start, and a time of a pipeline that vectorises text beside the steps.
- Resolution: half a millisecond where ``fit`` printed whole milliseconds.
- Left out, the first rule that fits counting: :data:`RULES`, then networks that do not follow from their row or have
  other parameters than it prints (more than 1 % away; position embeddings and poolers are less).
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from benchmarks.evidence.build_keras import NotRebuilt, network_of
from benchmarks.evidence.rows import FOLDER, Kind, LeftOut, NetworkRow, left_out, read_csv
from core.hardware.host import Build, Conditions, HostKind
from core.networks.families import Network
from core.networks.families.graph_network import GraphNetwork
from core.workload.spec import Optimizer, Target, Workload

FILE = FOLDER / "keras_notebook_steps.csv"
Row = Mapping[str, str]

CARDS = {
    "A100-SXM4-40GB": "A100-40GB-SXM", "GTX 1080 Ti": "GTX-1080-Ti", "GTX 1080": "GTX-1080", "GTX 1650": "GTX-1650",
    "GRID K520": "GRID-K520-die", "K80": "K80-die", "P100": "P100-PCIe", "P100-PCIE-16GB": "P100-PCIe",
    "Quadro RTX 5000 Mobile": "Quadro-RTX-5000-Mobile", "RTX 2060": "RTX-2060", "RTX 2080": "RTX-2080",
    "RTX 2080 Ti": "RTX-2080-Ti", "RTX 3500 Ada Mobile": "RTX-3500-Ada-Mobile", "RTX 4090": "RTX-4090",
    "RTX A4000": "RTX-A4000", "RTX A4500": "RTX-A4500", "RTX A6000": "RTX-A6000", "T4": "T4", "TITAN V": "TITAN-V",
    "V100": "V100-16GB-SXM2", "V100-SXM2-16GB": "V100-16GB-SXM2",
}  # fmt: skip
"""Names in the catalogue, in more_cards.py or in OLDER. Colab's and EC2's V100 are SXM2; K80 and K520 are one die."""
OPTIMIZERS: Mapping[str, Optimizer] = {
    "SGD": "sgd", "": "sgd", "SGD momentum .9": "momentum", "RMSprop": "momentum", "RMSprop (default)": "momentum",
    "Adam": "adam", "Adadelta": "adam", "Adam-type": "adam",
}  # fmt: skip
KINDS: Mapping[str, Kind] = {
    "mlp": "mlp", "cnn": "cnn", "application": "cnn", "transformer": "transformer", "recurrent": "recurrent",
}  # fmt: skip
RULES: Mapping[str, tuple[str, str]] = {
    "several GPUs": ("device", r"2x "),
    "images are changed on the CPU in each step: the pipeline is measured": (
        "all", r"ImageDataGenerator|Random(Flip|Rotation)|map\(resize\) no prefetch",
    ),
    "text is vectorised inside the step": ("architecture", r".*TextVectorization"),
    "recurrent layers that cuDNN does not run, or that are masked": (
        "all", r"symbolic loop|not CuDNN|recurrent_dropout|SimpleRNN|mask_zero|masking on",
    ),
    "its step is a program of its own (custom train_step)": ("architecture", r".*custom train_step"),
    "the row itself says that its time is not to be trusted": ("trust", r"low"),
}  # fmt: skip
"""Rules that leave a row out: a column, or all of them, and its content."""
NOT_REBUILT = "its network does not follow from the row, or not with the parameters that it prints"
TOLERANCE = 0.01
VALIDATION = 1 / 3
"""Cost of a validation step as a share of a training step: forward, without gradients and optimizer."""

SAMPLES = {"28x28": 60_000, "28x28x1": 60_000, "32x32x1": 60_000, "784": 60_000, "1568": 60_000, "32x32x3": 50_000}
"""Samples by input: MNIST or Fashion-MNIST, and CIFAR. 10,000 more are for tests; a tenth or a fifth may be split
off.
"""
TEST_SAMPLES = 10_000
SPLITS = (0.1, 0.2)
STEPS = {
    ("100 int tokens", 782): 782, ("400 int tokens", 782): 782,  # IMDB, 25,000 reviews each
    ("600 int tokens", 157): 625,  # IMDB, 20,000 and 5,000
    ("10000 float", 20): 30,  # IMDB, 15,000 and 10,000
    ("10000 float", 8): 63,  # Reuters, 7,982 and 1,000
    ("20+20 int tokens", 279): 1302,  # English and Spanish, 83,276 and 17,844 pairs
    ("200x200x3", 16): 100,  # Oxford pets, 6,390 and 1,000
    ("224x224x3", 118): 2368,  # Food101, 75,750 and 15 % of 25,250
    ("7", 5): 18,  # stated by the row
}  # fmt: skip
"""Training steps by input and validation steps, for those that no rule determines."""


@cache
def rows() -> tuple[Row, ...]:
    """Return the file's rows of GPUs.

    Raises:
        FileNotFoundError: The published data are not beside the checkout.
    """
    gpu_rows: list[dict[str, str]] = []
    for row in read_csv(FILE):
        if row["architecture"] == "same net as the row above":
            row |= {name: gpu_rows[-1][name] for name in ("architecture", "params")}
        if row["device_type"] == "gpu":
            gpu_rows.append(row)
    return tuple(gpu_rows)


def keras_rows() -> tuple[NetworkRow, ...]:
    """Return the rows that are used."""
    return tuple(_network_row(row, network) for row, network, rule in _judged() if network is not None and not rule)


def keras_left_out() -> tuple[LeftOut, ...]:
    """Return the rows that are left out, by source and rule."""
    return left_out((_repository(row), rule) for row, _, rule in _judged() if rule)


@cache
def _judged() -> tuple[tuple[Row, Network | None, str], ...]:
    """Return each row with its network and the rule that leaves it out, if any."""
    return tuple((row, *_judge(row)) for row in rows())


def _judge(row: Row) -> tuple[Network | None, str]:
    for rule, (column, pattern) in RULES.items():
        if re.match(pattern, row[column]) if column != "all" else re.search(pattern, " ".join(row.values())):
            return None, rule
    try:
        network = network_of(row["architecture"], row["input"])
    except NotRebuilt:
        return None, NOT_REBUILT
    return (network, "") if agrees(network, row["params"]) else (None, NOT_REBUILT)


def agrees(network: Network, printed: str) -> bool:
    """Check that the network has the printed number of parameters: 8157010, “about 60M”, or none at all."""
    match = re.fullmatch(r"(?:about )?([\d.]+)(M?)", printed)
    if match is None:
        return not printed
    parameters = float(match[1]) * (1e6 if match[2] else 1)
    return abs(network.parameters / parameters - 1) <= TOLERANCE


def _network_row(row: Row, network: Network) -> NetworkRow:
    step_ms = float(row["ms_per_step_best"])
    raw = "NOT Keras" in row["framework_version"] or "train_on_batch" in row["input_pipeline"]
    factor = _validated(row)
    whole = not raw and "printed" in row["best_basis"] and step_ms == round(step_ms)
    return NetworkRow(
        source=_repository(row),
        group=_machine(row),
        kind=KINDS[row["model_family"]],
        gpu=CARDS[_card(row)],
        workload=Workload(
            network=network,
            mode="infer" if row["mode"].startswith("infer") else "train",
            optimizer=OPTIMIZERS[row["optimizer"]],
        ),
        target=Target(
            device="gpu:0",
            precision="mixed_float16" if row["precision"] == "mixed_float16" else "float32",
            execution="keras" if _keras3(row) else "graph",
        ),
        conditions=Conditions(
            fed=not row["input_pipeline"].startswith("synthetic"),
            build=_build(row, network),
            under_fit=not raw,
        ),
        host=_host(row),
        batch=int(row["batch"]),
        step_ms=step_ms * (factor or 1.0),
        resolution_ms=0.5 if whole else 0.0,
        upper="upper bound" in row["best_basis"] or "TextVectorization" in row["input_pipeline"] or factor is None,
    )


def _keras3(row: Row) -> bool:
    return "jit_compile" in row["jit_xla_eager"]


def _build(row: Row, network: Network) -> Build:
    if KINDS[row["model_family"]] == "transformer":
        return "keras"
    if not row["framework_version"].startswith("Keras 2."):  # “Keras 2 (tf.keras)” is TensorFlow's own
        return "keras" if _keras3(row) else "fused"
    kinds = {layer.kind for layer in network.graph.layers} if isinstance(network, GraphNetwork) else set()
    return "fused" if "BatchNormalization" in kinds else "keras"


def _repository(row: Row) -> str:
    return row["source"].split("@")[0]


def _machine(row: Row) -> str:
    """Return the identity of the machine: one per notebook; logs and tables name theirs."""
    notebook = re.search(r"(?<=:).+\.ipynb", row["source"])
    return f"{_repository(row)} {notebook[0] if notebook else row['host_cpu']} {_card(row)}"


def _card(row: Row) -> str:
    return row["device"].split(" (")[0]


def _host(row: Row) -> HostKind:
    host, device = row["host_cpu"], row["device"]
    if host.startswith(("Colab", "GCE n1")):
        return "weak"
    rented = host.startswith(("AWS", "EC2", "GCP", "DGX")) or "(p3" in device
    return "server" if rented and not device.startswith("GTX") else "desktop"


def _validated(row: Row) -> float | None:
    """Return the share of training in the row's time per step; None if it cannot be determined."""
    validation = float(row["val_steps_in_time"])
    if not validation:
        return 1.0
    steps = _training_steps(row["input"], int(row["batch"]), int(validation))
    return None if steps is None else steps / (steps + VALIDATION * validation)


def _training_steps(input_text: str, batch: int, validation: int) -> int | None:
    if (input_text, validation) in STEPS:
        return STEPS[input_text, validation]
    if input_text not in SAMPLES:
        return None
    samples = SAMPLES[input_text]
    if validation == math.ceil(TEST_SAMPLES / batch):
        return math.ceil(samples / batch)
    for split in SPLITS:
        if validation == math.ceil(samples * split / batch):
            return math.ceil(samples * (1 - split) / batch)
    return None


def _counts(names: Iterator[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in Counter(names).most_common())


def main() -> None:
    """Print what is used by kind, card and host, and the rules that leave rows out with their counts."""
    if not FILE.exists():
        raise SystemExit(f"The published rows are not there: {FILE}.")
    used = keras_rows()
    print(f"{Path(FILE).name}: {len(rows())} rows of GPUs, {len(used)} used")
    for name in ("kind", "gpu", "host"):
        print(f"  {name}: " + _counts(str(getattr(row, name)) for row in used))
    print("  execution: " + _counts(row.target.execution for row in used))
    print(f"  upper bounds {sum(row.upper for row in used)}, groups {len({row.group for row in used})}")
    left: Counter[str] = Counter()
    for each in keras_left_out():
        left[each.rule] += each.rows
    for rule, count in left.most_common():
        print(f"  left out {count}: {rule}")


if __name__ == "__main__":
    main()
