"""What each framework can be asked for: devices, executions, precisions, and the module that serves it.

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
"""What a target's execution comes to."""

MAX_GPU_INDEX, MAX_REPLICAS = 63, 8


@dataclass(frozen=True)
class Several:
    """How a framework runs a step on several devices at once: ``by`` what, and in which executions."""

    by: str
    executions: tuple[Execution, ...]


@dataclass(frozen=True)
class Framework:
    """``packages`` are the distributions whose presence says that it is installed. ``executions`` begin with what
    ``keras``, the default, may be asked for; ``devices`` are those of ``cpu``, ``gpu``, ``mps``, ``tpu`` it can reach.
    ``by_itself`` is what ``keras`` comes to where the framework has no choice to make; None where Keras makes one.
    ``several``: None where it is measured on one device at a time.
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
    """``gpu`` of ``gpu:1`` and of ``gpu:0+1``. Raises ValueError for what is no device."""
    return single_devices(device)[0].partition(":")[0]


@lru_cache(maxsize=256)
def single_devices(device: str) -> tuple[str, ...]:
    """``gpu:0`` and ``gpu:1`` of ``gpu:0+1``; ``cpu`` twice of ``cpu:2``, two logical devices of the CPU.

    Raises ValueError for what is no device.
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
    """Raises ValueError where the framework cannot be asked for one of them."""
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
    """Raises ValueError where a step does not run on several devices in step with each other."""
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
