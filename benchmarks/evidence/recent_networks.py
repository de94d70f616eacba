"""Published steps of known networks on hardware after 2020, each rebuilt as a workload of ours.

The files of ``../shared/data/published_2020`` have one row per step. Almost all of it is PyTorch: eager rows count as a
fused build whose operations are handed over one by one, rows of torch.compile and of JAX as compiled ones. Inference
compilers with kernels of their own and CUDA graphs, which nothing here models, are left out, as are cards that the
catalogue cannot describe. Every rule was stated before any error of a model was seen, unless it says otherwise.
``python -m benchmarks.evidence.recent_networks`` counts them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple

from benchmarks.evidence.build_vendor import WORDS, application, encoder, network, resnet, vision_transformer
from benchmarks.evidence.rows import FOLDER, LeftOut, NetworkRow, Outcome, Rule, left_out, read_csv, used
from benchmarks.evidence.vendor_limits import beyond_the_card
from core.hardware.host import Build, Conditions, HostKind
from core.networks.families import Network
from core.workload.spec import Execution, Mode, Optimizer, Precision, Target, Workload

RECENT = FOLDER.parent / "published_2020"
Record = Mapping[str, str]

NOT_A_GPU: Rule = "not on a GPU"
MANY_GPUS: Rule = "more than one GPU"
NO_CARD: Rule = "a card that nothing here describes (Apple's, AMD's, a data centre's module of another kind)"
OWN_KERNELS: Rule = "an inference compiler with kernels of its own, or CUDA graphs"
INTEGERS: Rule = "in 8-bit integers"
NOT_REBUILT: Rule = "not rebuilt: the row does not say enough of the network"
INPUT_BOUND: Rule = "waits for its images: JPEGs are read with every step"
IMPOSSIBLE: Rule = "more arithmetic per second than the card can do"

CARDS = {
    "RTX 3090": "RTX-3090", "RTX 4090": "RTX-4090", "RTX 5090": "RTX-5090", "RTX 3060": "RTX-3060",
    "RTX PRO 6000 Blackwell Max-Q": "RTX-PRO-6000-Max-Q", "RTX 4060 Ti 16GB": "RTX-4060-Ti", "T4": "T4", "A10": "A10",
    "RTX 4070 Super": "RTX-4070-Super", "A100 40GB": "A100-40GB-SXM", "A100 40GB SXM": "A100-40GB-SXM",
    "A100 40GB PCIe": "A100-40GB-PCIe", "A100 80GB PCIe": "A100-80GB-PCIe", "A100 80GB SXM": "A100-80GB-SXM",
    "A100": "A100-40GB-SXM", "V100": "V100-16GB-SXM2", "V100 16GB": "V100-16GB-SXM2",
    "V100 32GB PCIe": "V100-32GB-PCIe",
    "P100": "P100-PCIe", "P100 16GB PCIe": "P100-PCIe", "P4": "P4", "L4": "L4", "L40S": "L40S",
    "RTX A6000": "RTX-A6000",
    "H100 PCIe 80GB": "H100-PCIe", "H100 SXM 80GB": "H100-SXM", "H200 SXM": "H200", "GH200 96GB": "GH200",
    "B200": "B200",
}  # fmt: skip
"""Catalogue names by the names in the files; for a module of unstated form, the one that clouds rent most."""
OPTIMIZERS: Mapping[str, Optimizer] = {"resnet50": "momentum", "inception3": "momentum"}
VIT = re.compile(r"(?:\(rebuild\) )?ViT-(tiny|small|base|large|huge)/(\d+)")
RESNET = re.compile(r"resnet[_-]?(\d+)", re.IGNORECASE)
ONE_KERNEL = frozenset({"timm_vision", "milabench_train_by_batch"})
"""Files whose networks call PyTorch's own attention where it is PyTorch 2; the others' write their scores. This rule,
and that images have the layout that the row states, came after errors had been seen.
"""
DECIMAL_PLACES_MS = {"rtx3060_by_batch": 0.05, "bert_3090_by_batch_seq": 0.05}


class Way(NamedTuple):
    """Execution of a row's step: build, execution, copy of its batch before the step, and the kind of its host."""

    build: Build
    execution: Execution
    fed: bool
    host: HostKind
    under_fit: bool = False


WAYS: Mapping[str, Way] = {
    "timm_vision": Way("fused", "eager", False, "recent_desktop"),
    "pytorch_gpu_benchmark_batch12": Way("fused", "eager", True, "recent_desktop"),
    "rtx3060_by_batch": Way("fused", "eager", False, "recent_desktop"),
    "aitemplate_a100_mi250_by_batch": Way("fused", "eager", False, "recent_server"),
    "bert_3090_by_batch_seq": Way("fused", "eager", False, "recent_server"),
    "hf_torch_compile_by_batch": Way("fused", "eager", False, "server"),
    "lambda_train_with_batch": Way("fused", "eager", False, "recent_server"),
    "milabench_train_by_batch": Way("fused", "eager", False, "recent_server"),
    "neusight_whole_transformers_fp32": Way("fused", "eager", False, "server"),
    "small_reports_3090": Way("fused", "eager", False, "recent_desktop"),
    "tf1_3090_4090_by_batch": Way("fused", "graph", False, "recent_server"),
    "keras_fit_tf_metal_3090_a100": Way("fused", "graph", True, "recent_desktop", True),
    "keras_io_backends_a100": Way("keras", "graph", False, "recent_server", True),
    "jax_xla_gpu_tpu": Way("fused", "xla", False, "server"),
    "vit_tpu_v3_a100_jax": Way("fused", "eager", False, "server"),
}
"""Execution by file. Keras of 2021 had fused normalisations; it ran under ``fit`` on tensors in memory."""


def recent_rows() -> tuple[NetworkRow, ...]:
    """Return every row that is used.

    Raises:
        FileNotFoundError: ``../shared/data`` is absent.
    """
    return used(_everything())


def recent_left_out() -> tuple[LeftOut, ...]:
    """Count the rows that are left out, by source and rule."""
    return left_out(_everything())


@lru_cache(maxsize=1)
def _everything() -> tuple[Outcome, ...]:
    return tuple(each for name, way in WAYS.items() for each in _file(name, way))


def _file(name: str, way: Way) -> Iterator[Outcome]:
    for record in read_csv(RECENT / f"{name}.csv"):
        source = re.split(r"[@:(]", record["source"])[0].strip()
        yield source, _row(name, source, record, way)


def _row(name: str, source: str, record: Record, way: Way) -> NetworkRow | Rule:
    compiled = record["compiled"]
    training = record["mode"] == "train"
    if record["device_type"] != "gpu":
        return NOT_A_GPU
    if record["n_devices"] != "1":
        return MANY_GPUS
    if record["device"] not in CARDS:
        return NO_CARD
    if record["precision"].startswith("int8"):
        return INTEGERS
    if not compiled.startswith(("eager", "graph", "XLA", "torch.compile")) or "CUDA graphs" in compiled:
        return OWN_KERNELS
    if compiled.startswith("torch.compile (reduce-overhead)"):
        return OWN_KERNELS
    if "convnext" in record["network"]:
        return INPUT_BOUND
    rebuilt = _network(record, training)
    if rebuilt is None:
        return NOT_REBUILT
    execution: Execution = way.execution
    if "XLA" in compiled or compiled.startswith("torch.compile"):
        execution = "xla"
    keras_on_tensorflow = "TensorFlow" in record["framework"] or "TF" in record["framework"]
    if name == "keras_io_backends_a100" and not (keras_on_tensorflow or "JAX" in record["framework"]):
        return NOT_REBUILT
    step_ms = float(record["step_ms"])
    row = NetworkRow(
        source=source,
        group=f"{source}, {record['device']}, {record['host']}",
        kind="transformer" if "BERT" in rebuilt.name or "ViT" in rebuilt.name else "cnn",
        gpu=CARDS[record["device"]],
        workload=Workload(network=rebuilt, mode=_mode(training), optimizer=_optimizer(record)),
        target=Target(device="gpu:0", precision=_precision(record), execution=execution),
        conditions=Conditions(
            build=way.build,
            fed=way.fed,
            under_fit=way.under_fit,
            channels_first=record["layout"].startswith("NCHW"),
            separate_attention=not (name in ONE_KERNEL and record["framework"].startswith("PyTorch 2")),
        ),
        host="recent_server" if "server" in record["host"] or "DGX" in record["host"] else way.host,
        batch=int(record["batch"]),
        step_ms=step_ms,
        resolution_ms=DECIMAL_PLACES_MS.get(name, 0.0),
    )
    return IMPOSSIBLE if beyond_the_card(row) else row


def _mode(training: bool) -> Mode:
    return "train" if training else "infer"


def _optimizer(record: Record) -> Optimizer:
    return OPTIMIZERS.get(record["network"].split()[0], "adam" if "bert" in record["network"].lower() else "sgd")


def _precision(record: Record) -> Precision:
    """Return the precision; float32 is strict if TF32 is off, or on in convolutions alone for a transformer."""
    printed = record["precision"]
    if "16" in printed:
        return "mixed_bfloat16" if "bf16" in printed else "mixed_float16"
    if "TF32 off" in printed or printed == "fp32":
        return "float32_strict"
    transformer = any(word in record["network"].lower() for word in ("vit", "beit", "bert"))
    if "in convolutions" in printed and transformer:
        return "float32_strict"
    return "float32"


def _network(record: Record, training: bool) -> Network | None:
    """Rebuild the row's network, or return None where no builder has it."""
    name, alike = record["network"], record["keras_equivalent"]
    if match := VIT.match(alike):
        return vision_transformer(match[1], int(match[2]), int(record["input"].split("x")[0]))
    if "BERT" in alike:
        return _bert(record, training)
    if not re.match(r"\d+x", record["input"]) or not alike:
        return None
    image = int(record["input"].split("x")[0])
    if match := RESNET.search(name):
        return resnet(int(match[1]), image)
    if alike.lower().removeprefix("(rebuild) ").startswith("vgg") and image == 224:
        digits = re.findall(r"\d+", alike)[0]
        return network(f"VGG-{digits} BN" if "bn" in alike.lower() else f"VGG-{digits}", training)
    if alike.startswith(("(rebuild)", "InceptionResNet")):
        return None
    plain = alike.removesuffix(" alpha=1.0")
    return None if "alpha" in plain else application(plain, image, training)


def _bert(record: Record, training: bool) -> Network | None:
    tokens = re.search(r"seq\D*(\d+)", record["input"])
    if tokens is None:
        return None
    size = "large" if "large" in record["keras_equivalent"].lower() else "base"
    size = "distilled" if "Distil" in record["keras_equivalent"] else size
    outputs = WORDS if "MLM" in record["keras_equivalent"] else 2
    return encoder(size, training, int(tokens[1]), outputs)


def main() -> None:
    """Print how many rows there are by source and card, and how many are left out by which rule."""
    rows = recent_rows()
    print(f"{len(rows)} rows")
    for key, count in sorted(Counter((r.source, r.gpu, r.workload.mode, r.target.execution) for r in rows).items()):
        print(f"{count:5}  {' · '.join(key)}")
    for left in recent_left_out():
        print(f"{left.rows:5} left out  {left.source}: {left.rule}")


if __name__ == "__main__":
    main()
