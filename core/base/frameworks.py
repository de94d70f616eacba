"""Table of frameworks: their devices, executions and precisions, and the module that serves each.

A framework is one entry here and one folder under ``core/worker`` (docs/frameworks.md). The dashboard and the commands
never import one; its worker process does, with the interpreter that the target names.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Literal

FrameworkName = Literal["tensorflow", "jax", "torch", "pytorch", "litert"]
Precision = Literal["float32", "float32_strict", "mixed_float16", "mixed_bfloat16", "int8"]
Execution = Literal["keras", "graph", "xla", "eager", "compile", "reduce-overhead", "interpreter"]
Compiled = Literal["graph", "xla", "eager", "compile", "reduce-overhead", "interpreter"]
"""Execution modes after the default is resolved."""
Call = Literal["step", "predict", "predict_on_batch", "model", "function", "relaxed"]
"""Way of calling the model in inference; ``step`` is the compiled function alone, as Keras's own loop runs it."""
Padding = Literal["none", "longest", "buckets"]
"""Lengths to which inputs of several lengths are padded."""

MAX_GPU_INDEX, MAX_REPLICAS = 63, 8


@dataclass(frozen=True)
class Several:
    """A framework's way of running one step on several devices: the mechanism (``by``) and the executions that allow
    it.
    """

    by: str
    executions: tuple[Execution, ...]


@dataclass(frozen=True)
class Framework:
    """A framework and its capabilities.

    ``packages`` are the distributions whose presence shows that it is installed. ``executions`` are the accepted
    values, with the default, ``keras``, first; ``devices`` are those of ``cpu``, ``gpu``, ``mps`` and ``tpu`` it can
    reach. ``by_itself`` is what ``keras`` resolves to if the framework leaves no choice; None if Keras makes one.
    ``several`` is None if it is measured on one device at a time. ``start_scatter`` is the standard deviation of the
    log step time between processes on a CPU, the largest of batch 8, 64 and 512 (measured for Keras with each
    framework, assumed for PyTorch's own modules and LiteRT: benchmarks/preparations.py).
    """

    name: FrameworkName
    title: str
    module: str
    packages: tuple[str, ...]
    requirements: str
    devices: tuple[str, ...]
    executions: tuple[Execution, ...]
    precisions: tuple[Precision, ...]
    by_itself: Compiled | None = None
    through_keras: bool = True
    trains: bool = True
    several: Several | None = None
    start_scatter: float = 0.02


_KERAS_PRECISIONS: tuple[Precision, ...] = ("float32", "mixed_float16", "mixed_bfloat16")
FRAMEWORKS: Mapping[str, Framework] = MappingProxyType(
    {
        known.name: known
        for known in (
            Framework(
                name="tensorflow",
                title="TensorFlow",
                module="core.worker.tensorflow.engine",
                packages=("tensorflow", "keras"),
                requirements="requirements.txt",
                devices=("cpu", "gpu"),
                executions=("keras", "graph", "xla", "eager"),
                precisions=("float32", "float32_strict", "mixed_float16", "mixed_bfloat16", "int8"),
                several=Several("TensorFlow's MirroredStrategy", ("keras", "graph")),
            ),
            Framework(
                name="jax",
                title="JAX",
                module="core.worker.jax.engine",
                packages=("jax", "jaxlib", "keras"),
                requirements="requirements-jax.txt",
                devices=("cpu", "gpu", "tpu"),
                executions=("keras", "xla", "eager"),
                precisions=(*_KERAS_PRECISIONS, "int8"),
                by_itself="xla",
                several=Several("Keras's DataParallel", ("keras", "xla", "eager")),
            ),
            Framework(
                name="torch",
                title="Keras on PyTorch",
                module="core.worker.torch.engine",
                packages=("torch", "keras"),
                requirements="requirements-torch.txt",
                devices=("cpu", "gpu", "mps"),
                executions=("keras", "eager", "compile"),
                precisions=(*_KERAS_PRECISIONS, "int8"),
                by_itself="eager",
                start_scatter=0.14,
            ),
            Framework(
                name="pytorch",
                title="PyTorch",
                module="core.worker.pytorch.engine",
                packages=("torch",),
                requirements="requirements-torch.txt",
                devices=("cpu", "gpu", "mps"),
                executions=("keras", "eager", "compile", "reduce-overhead"),
                precisions=_KERAS_PRECISIONS,
                by_itself="eager",
                through_keras=False,
                start_scatter=0.14,
            ),
            Framework(
                name="litert",
                title="LiteRT",
                module="core.worker.litert.engine",
                packages=("tensorflow",),
                requirements="requirements.txt",
                devices=("cpu",),
                executions=("keras", "interpreter"),
                precisions=("float32", "int8"),
                by_itself="interpreter",
                through_keras=False,
                trains=False,
            ),
        )
    }
)
_NUMBER = r"(?:0|[1-9]\d?)"
_DEVICE = re.compile(rf"cpu(?::[2-{MAX_REPLICAS}])?|mps|tpu:{_NUMBER}|gpu:{_NUMBER}(?:\+{_NUMBER})*")
EXAMPLES = {"cpu": "cpu", "gpu": "gpu:0, gpu:1, …", "mps": "mps", "tpu": "tpu:0"}


def device_kind(device: str) -> str:
    """Return the kind of a device: ``gpu`` for ``gpu:1`` and ``gpu:0+1``. Raises ValueError for an unknown device."""
    return single_devices(device)[0].partition(":")[0]


@lru_cache(maxsize=256)
def single_devices(device: str) -> tuple[str, ...]:
    """Return the single devices of ``device``: ``gpu:0`` and ``gpu:1`` for ``gpu:0+1``; ``cpu`` twice for ``cpu:2``.

    ``cpu:2`` are two logical devices of one CPU. Raises ValueError for an unknown device.
    """
    kind, _, numbers = device.partition(":")
    known = _DEVICE.fullmatch(device) is not None
    if known and kind == "cpu":
        return (kind,) * int(numbers or 1)
    indices = [int(number) for number in numbers.split("+") if number] if known else []
    if not known or max(indices, default=0) > MAX_GPU_INDEX:
        raise ValueError(
            f"device “{device}” is unknown; accepted are cpu, gpu:0, gpu:1, …, mps and tpu:0, and several at once as "
            f"gpu:0+1 or, logical devices of one CPU, as cpu:2 to cpu:{MAX_REPLICAS}"
        )
    if indices != sorted(set(indices)) or len(indices) > MAX_REPLICAS:
        raise ValueError(
            f"device “{device}” is not understood; several GPUs, at most {MAX_REPLICAS}, are each named once, in "
            "ascending order, such as gpu:0+1"
        )
    return tuple(f"{kind}:{index}" for index in indices) or (kind,)


def check_combination(framework: str, device: str, execution: str, precision: str) -> None:
    """Raise ValueError if the framework does not support the device, the execution or the precision."""
    known = FRAMEWORKS[framework]
    if device_kind(device) not in known.devices:
        accepted = ", ".join(EXAMPLES[kind] for kind in known.devices)
        others = [other.name for other in FRAMEWORKS.values() if device_kind(device) in other.devices]
        raise ValueError(
            f"framework {framework} cannot reach {device}; it can reach {accepted}, and {device} is reached by "
            f"framework={' or '.join(others)}"
        )
    for word, value, accepted_values in (
        ("execution", execution, known.executions),
        ("precision", precision, known.precisions),
    ):
        if value not in accepted_values:
            raise ValueError(f"framework {framework} has no {word} “{value}”; it has {', '.join(accepted_values)}")
    if len(single_devices(device)) > 1:
        _check_several(framework, device, execution, precision)


def _check_several(framework: str, device: str, execution: str, precision: str) -> None:
    """Raise ValueError if a step cannot run synchronously on several devices."""
    several = FRAMEWORKS[framework].several
    if several is None:
        able = " or ".join(known.name for known in FRAMEWORKS.values() if known.several is not None)
        raise ValueError(
            f"framework {framework} is measured on one device at a time; several, such as {device}, need "
            f"framework={able}"
        )
    if execution not in several.executions:
        raise ValueError(
            f"execution {execution} is for one device; on several, such as {device}, which {several.by} runs, choose "
            f"{' or '.join(several.executions)}"
        )
    if precision == "int8":
        raise ValueError(f"int8 is for one device; for {device} choose float32 or mixed precision")
