"""Published steps of known networks by vendors and benchmark suites, each rebuilt as a workload of ours.

All of them run batch normalisation, the loss and the optimizer as single kernels (``build="fused"``), on servers;
transformers in TensorFlow graphs are an exception (:func:`_build`; a rule made after the first errors had been seen).
NVIDIA's TensorFlow scripts prefetch on the host alone, so that each step copies its batch (``fed``); the others draw
samples on the card or copy ahead of the step. None has attention in one kernel (a rule made after errors had been
seen). What the files leave open is taken from the suites' own scripts, as the comments say. Every rule that leaves rows
out was stated before any error of a model was seen, and none uses a model, with one exception: :data:`HALF_AS_FAST`
came after the first errors. ``python -m benchmarks.evidence.vendor_networks`` counts them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from statistics import median
from typing import Literal

from benchmarks.evidence.build_vendor import TRANSFORMERS, network
from benchmarks.evidence.rows import FOLDER, LeftOut, NetworkRow, Outcome, Rule, left_out, read_csv, used
from benchmarks.evidence.vendor_limits import beyond_the_card
from core.hardware.host import Build, Conditions
from core.workload.spec import Execution, Mode, Optimizer, Precision, Target, Workload

Record = Mapping[str, str]

NVIDIA = "NVIDIA DeepLearningExamples {}"
TENSORFLOW, AVIK, LAMBDA = "tensorflow docs 2017", "avik-pal DeepLearningBenchmarks", "lambdal deeplearning-benchmark"

INFERENCE_FILE, TRAINING_FILE = "nvidia_dle_inference_part.csv.gz", "nvidia_dle_training_part.csv.gz"
TENSORFLOW_FILE, AVIK_FILE = "tf_official_benchmarks_2017.csv", "avikpal_cpu_gpu_bs8.csv"
LAMBDA_FILE = "lambda_pytorch_train_throughput_v2_median.csv"
FILES = (INFERENCE_FILE, TRAINING_FILE, TENSORFLOW_FILE, AVIK_FILE, LAMBDA_FILE)

MANY_GPUS: Rule = "more than one GPU"
DGX_2H: Rule = "DGX-2H: its V100 takes 450 W and clocks higher than any in the catalogue"
SUSPICIOUS: Rule = "flagged in the file: faster than a larger batch"
FALLING: Rule = "a quarter more samples per second than at a larger batch of the same table"
NOT_REBUILT: Rule = "not rebuilt: memory of earlier segments and a softmax over 267,735 words (Transformer-XL)"
NOT_REBUILT_HERE: Rule = "not rebuilt: speech, translation and detection (GNMT, SSD, Tacotron 2, WaveGlow)"
NO_BATCH: Rule = "its batch stands in none of the suite's scripts"
NO_CARD: Rule = "a card that is not in the catalogue"
REAL_DATA: Rule = "real images, read from a disk"
DISTRIBUTED: Rule = "a distributed run, whose weights are on a parameter server"
A_CPU: Rule = "on a CPU"
HALF_AS_FAST: Rule = "over twice another framework's time for the same network, card and precision: a kernel it lacks"
LARGE, TWICE = 16, 2.0
IMPOSSIBLE: Rule = "more arithmetic per second than the card can do"

CARDS = {
    "1x A100 80GB": "A100-80GB-SXM", "8x A100 80GB": "A100-80GB-SXM", "1x A100 40GB": "A100-40GB-SXM",
    "8x A100 40GB": "A100-40GB-SXM", "8x A100 40G": "A100-40GB-SXM",
    "1x V100 16GB": "V100-16GB-SXM2", "1x V100 16G": "V100-16GB-SXM2", "8x V100 16GB": "V100-16GB-SXM2",
    "1x V100 32GB": "V100-32GB-SXM2", "1x V100 32G": "V100-32GB-SXM2", "16x V100 32GB": "V100-32GB-SXM2",
    "T4": "T4", "1x T4 16G": "T4",
    "P100": "P100-SXM2", "K80": "K80-die", "GTX 1080 Ti": "GTX-1080-Ti",
    "B200_192GB": "B200", "H100_80GB_SXM5": "H100-SXM", "H100_80GB_PCIe": "H100-PCIe", "H200_140GB_SXM": "H200",
}  # fmt: skip
"""Catalogue names by the names in the files; DGX machines have SXM modules. DGX-2's V100 is an SXM3 at 350 W, some 4 %
faster.
"""
NETWORKS = {
    "Classification/RN50v1.5": "ResNet-50", "Classification/ConvNets/resnet50v1.5": "ResNet-50",
    "Classification/ConvNets/resnext101-32x4d": "ResNeXt-101-32x4d",
    "Classification/ConvNets/se-resnext101-32x4d": "SE-ResNeXt-101-32x4d",
    "EfficientNet v1-B0": "EfficientNet-B0", "EfficientNet v1-B4": "EfficientNet-B4",
    "Segmentation/UNet_Medical": "U-Net 572", "LanguageModeling/ELECTRA": "BERT-base",
    "LanguageModeling/BERT": "BERT-large",
    "InceptionV3": "Inception-v3", "ResNet-50": "ResNet-50 v1", "ResNet-152": "ResNet-152 v1", "VGG16": "VGG-16",
    "AlexNet": "AlexNet",
    "VGG16BN": "VGG-16 BN", "VGG19": "VGG-19", "VGG19BN": "VGG-19 BN",
    **{f"Resnet{depth}": f"ResNet-{depth}" for depth in (18, 34, 50, 101, 152)},
    "resnet50": "ResNet-50", "bert_base_squad": "BERT-base", "bert_large_squad": "BERT-large",
}  # fmt: skip
OPTIMIZERS: Mapping[str, Optimizer] = {"ResNet-50": "momentum"}
"""Optimizer by network, in training by NVIDIA's scripts; Adam for the others."""
SLOWER_AT_MORE = 0.8
PARTS_OF_42: Mapping[str, int] = {"amp": 4, "fp32": 2}
"""BERT's README prints “4,2”, the batch for mixed precision and for FP32, which the file holds as 42."""
LAMBDA_BATCHES: Mapping[tuple[str, str], Mapping[str, int]] = {
    ("resnet50", "fp32"): {"80GB": 640, "140GB": 1280, "192GB": 1664},
    ("resnet50", "fp16"): {"80GB": 1280, "140GB": 2560, "192GB": 3328},
    ("bert_base_squad", "fp32"): {"80GB": 172, "140GB": 296, "192GB": 384},
    ("bert_base_squad", "fp16"): {"80GB": 320, "140GB": 592, "192GB": 768},
    ("bert_large_squad", "fp32"): {"80GB": 64, "140GB": 96, "192GB": 128},
    ("bert_large_squad", "fp16"): {"80GB": 112, "140GB": 192, "192GB": 256},
}
"""Batch sizes by the card's memory: pytorch/scripts/config_v2 of the same repository."""


def vendor_rows() -> tuple[NetworkRow, ...]:
    """Return every row that is used.

    Raises:
        FileNotFoundError: ``../shared/data`` is absent.
    """
    return used(_everything())


def vendor_left_out() -> tuple[LeftOut, ...]:
    """Count the rows that are left out, by source and rule."""
    return left_out(_everything())


@lru_cache(maxsize=1)
def _everything() -> tuple[Outcome, ...]:
    readers: tuple[Callable[[], Iterator[Outcome]], ...] = (_inference, _training, _tensorflow, _avik, _lambda)
    outcomes = [each for reader in readers for each in reader()]
    possible = [
        (source, IMPOSSIBLE if isinstance(row, NetworkRow) and beyond_the_card(row) else row)
        for source, row in outcomes
    ]
    slow = _half_as_fast([row for _, row in possible if isinstance(row, NetworkRow)])
    return tuple(
        (source, HALF_AS_FAST if isinstance(row, NetworkRow) and _sweep(row) in slow else row)
        for source, row in possible
    )


def _sweep(row: NetworkRow) -> tuple[str, ...]:
    target = row.target
    return (row.workload.network.name, row.workload.mode, row.gpu, target.precision, row.source, target.execution)


def _half_as_fast(rows: list[NetworkRow]) -> set[tuple[str, ...]]:
    """Return the sweeps in which most steps at batch 16 and above take over twice as long as another framework's."""
    times = {(*_sweep(row), row.batch): row.step_ms for row in rows if row.batch >= LARGE}
    ratios: dict[tuple[str, ...], list[float]] = defaultdict(list)
    for (*sweep, batch), step_ms in times.items():
        others = [
            ms for (*other, at), ms in times.items() if other[:4] == sweep[:4] and other[4] != sweep[4] and at == batch
        ]
        if others:
            ratios[tuple(map(str, sweep))].append(step_ms / min(others))
    return {sweep for sweep, sweep_ratios in ratios.items() if median(sweep_ratios) > TWICE}


def _row(
    source: str, machine: str, name: str, card: str, mode: Mode, optimizer: Optimizer, precision: Precision,
    execution: Execution, batch: int, step_ms: float, relative: float, fed: bool = False,
) -> NetworkRow:  # fmt: skip
    """Build a row; ``relative`` is half the last printed digit as a share of the printed number."""
    return NetworkRow(
        source=source,
        group=f"{source}, {machine}",
        kind="transformer" if name in TRANSFORMERS else "cnn",
        gpu=CARDS[card],
        workload=Workload(network=network(name, mode == "train"), mode=mode, optimizer=optimizer),
        target=Target(device="gpu:0", precision=precision, execution=execution),
        conditions=Conditions(build=_build(name, execution), fed=fed, separate_attention=True),
        host="server",
        batch=batch,
        step_ms=step_ms,
        resolution_ms=step_ms * relative,
    )


def _build(name: str, execution: Execution) -> Build:
    """Return the build: a transformer in a TensorFlow graph runs gelu, softmax, dropout and masks as separate
    operations.
    """
    return "keras" if name in TRANSFORMERS and execution == "graph" else "fused"


def _relative(printed: str) -> float:
    """Return half the place of the last digit over the number; a file's trailing “.0” was not printed."""
    digits = len(printed.removesuffix(".0").partition(".")[2])
    return 0.5 * 10**-digits / float(printed)


def _precision(printed: str) -> Precision:
    """Return the precision; float32 is TF32 on Ampere and later, while “tf32” of a V100 is plain float32."""
    return "mixed_float16" if printed in ("amp", "fp16") else "float32"


def _execution(row: Record) -> Execution:
    """Return the execution: eager in PyTorch, which hands operations over one by one.

    XLA is as the file states for the image classifiers. The others' benchmark scripts switch it on, ELECTRA's with
    mixed precision alone, which the tables do not state (TensorFlow2/LanguageModeling/ELECTRA/scripts/run_squad.sh,
    TensorFlow/LanguageModeling/BERT/scripts/run_squad.sh, TensorFlow/Segmentation/UNet_Medical/examples,
    TensorFlow2/Classification/ConvNets/efficientnet_v1/B0/inference).
    """
    if row["model"].endswith("ELECTRA"):
        return "xla" if row["precision"] in ("amp", "fp16") else "graph"
    if row["framework"] == "PyTorch":
        return "eager"
    always = row["model"].endswith(("BERT", "UNet_Medical", "efficientnet_v1"))
    return "xla" if always or row["xla"] == "True" else "graph"


def _nvidia(row: Record, name: str, mode: Mode, batch: int) -> NetworkRow:
    return _row(
        source=NVIDIA.format(row["framework"]),
        machine=row["gpu_detail"],
        name=name,
        card=row["gpu_detail"],
        mode=mode,
        optimizer=OPTIMIZERS.get(name, "adam"),
        precision=_precision(row["precision"]),
        execution=_execution(row),
        batch=batch,
        step_ms=1e3 * batch / float(row["throughput"]),
        relative=_relative(row["throughput"]),
        fed=row["framework"].startswith("TensorFlow"),
    )


def _inference() -> Iterator[Outcome]:
    rows = read_csv(FOLDER / INFERENCE_FILE)
    for row in rows:
        source = NVIDIA.format(row["framework"])
        if row["flag"].startswith("suspicious"):
            yield source, SUSPICIOUS
        elif _falls_after(row, rows):
            yield source, FALLING
        else:
            name = NETWORKS.get(row["model_name"]) or NETWORKS[row["model"]]
            yield source, _nvidia(row, name, "infer", int(float(row["batch"])))


def _falls_after(row: Record, rows: list[dict[str, str]]) -> bool:
    """Check that a larger batch of the same table runs at fewer than 0.8 times its samples per second."""
    table = ("source", "model_name", "precision", "xla")
    return any(
        float(other["batch"]) > float(row["batch"])
        and float(other["throughput"]) < SLOWER_AT_MORE * float(row["throughput"])
        for other in rows
        if all(other[key] == row[key] for key in table)
    )


def _training() -> Iterator[Outcome]:
    for row in read_csv(FOLDER / TRAINING_FILE):
        source = NVIDIA.format(row["framework"])
        if row["n_gpus"] != "1.0":
            yield source, MANY_GPUS
        elif "DGX-2H" in row["section"]:
            yield source, DGX_2H
        elif row["model"] not in NETWORKS:
            yield source, NOT_REBUILT
        else:
            printed = int(float(row["batch"]))
            batch = PARTS_OF_42[row["precision"]] if printed == 42 else printed
            yield source, _nvidia(row, NETWORKS[row["model"]], "train", batch)


TENTHS = 0.05
"""Half the last digit of the two suites that print one decimal place: images per second, and milliseconds."""


def _tensorflow() -> Iterator[Outcome]:
    """Yield tf_cnn_benchmarks of May 2017: training by gradient descent in single precision, in graphs."""
    for row in read_csv(FOLDER / TENSORFLOW_FILE):
        if row["n_gpus"] != "1":
            yield TENSORFLOW, MANY_GPUS
        elif row["data"] != "synthetic":
            yield TENSORFLOW, REAL_DATA
        elif "distributed" in row["platform"]:
            yield TENSORFLOW, DISTRIBUTED
        else:
            name, batch = NETWORKS[row["model"]], int(row["batch_per_gpu"])
            images_per_s = float(row["images_per_s"])
            yield TENSORFLOW, _row(
                TENSORFLOW, f"{row['platform']} {row['device']}", name, row["device"], "train", "sgd", "float32",
                "graph", batch, 1e3 * batch / images_per_s, TENTHS / images_per_s,
            )  # fmt: skip


def _avik() -> Iterator[Outcome]:
    """Yield PyTorch 0.4.1: forward alone, and forward and backward in training.

    The source leaves out the update of the weights, which a Breakeven workload cannot do: a few per cent at most, with
    a fused descent.
    """
    phases: tuple[tuple[Literal["infer_ms", "total_ms"], Mode], ...] = (("infer_ms", "infer"), ("total_ms", "train"))
    for row in read_csv(FOLDER / AVIK_FILE):
        for column, mode in phases:
            if row["device_type"] != "gpu":
                yield AVIK, A_CPU
                continue
            step_ms = float(row[column])
            yield AVIK, _row(
                AVIK, row["device"], NETWORKS[row["model"]], row["device"], mode, "sgd", "float32", "eager",
                int(row["batch"]), step_ms, TENTHS / step_ms,
            )  # fmt: skip


def _lambda() -> Iterator[Outcome]:
    """Yield NVIDIA's PyTorch examples in NVIDIA's containers, which let float32 products run as TF32.

    Strict float32 is impossible: 433 sequences per second of BERT-base on an H100 are 92 TFLOP/s of its 67.
    """
    for row in read_csv(FOLDER / LAMBDA_FILE):
        batches = LAMBDA_BATCHES.get((row["model"], row["precision"]), {})
        batch = batches.get(next((part for part in row["gpu"].split("_") if part.endswith("GB")), ""))
        if row["n_gpus"] != "1":
            yield LAMBDA, MANY_GPUS
        elif row["model"] not in NETWORKS:
            yield LAMBDA, NOT_REBUILT_HERE
        elif row["gpu"] not in CARDS:
            yield LAMBDA, NO_CARD
        elif batch is None:
            yield LAMBDA, NO_BATCH
        else:
            name, step_ms = NETWORKS[row["model"]], 1e3 * batch / float(row["median"])
            optimizer = OPTIMIZERS.get(name, "adam")
            yield LAMBDA, _row(
                LAMBDA, row["gpu"], name, row["gpu"], "train", optimizer, _precision(row["precision"]), "eager", batch,
                step_ms, _relative(row["median"]),
            )  # fmt: skip


def main() -> None:
    """Print how many rows there are by network, card and precision, and how many are left out by which rule."""
    rows = vendor_rows()
    print(f"{len(rows)} rows")
    counts = Counter(
        (row.workload.network.name, row.workload.mode, row.gpu, row.target.precision, row.target.execution)
        for row in rows
    )
    for key, number in sorted(counts.items()):
        print(f"{number:5}  {' · '.join(key)}")
    for source, number in sorted(Counter(row.source for row in rows).items()):
        print(f"{number:5}  {source}")
    print(f"{sum(each.rows for each in vendor_left_out())} rows left out")
    for each in vendor_left_out():
        print(f"{each.rows:5}  {each.source}: {each.rule}")


if __name__ == "__main__":
    main()
