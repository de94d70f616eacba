"""Prediction of a target's execution mode before a worker reports it: Keras's own choice, without importing Keras.

The rule is that of Keras 3.15 on TensorFlow (``Trainer._resolve_auto_jit_compile`` and ``model_supports_jit``,
keras/src/trainers/trainer.py): XLA on a machine with a GPU if every layer supports it. Of the layers used in networks
here, only LSTM and GRU may not (:mod:`core.workload.cudnn`). The layers of user code are unknown, so its result is not
``sure``. A worker asks Keras itself, and the record holds the mode it used.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations

from core.base.evidence import TF32_CAPABILITY, Gpu
from core.base.frameworks import FRAMEWORKS, Compiled
from core.base.numbers import counted
from core.networks.families import Network
from core.networks.families.code import Code
from core.networks.families.graph_network import GraphNetwork
from core.workload.cudnn import turns_xla_off
from core.workload.names import CALLS, PADDINGS, device_words
from core.workload.spec import (
    AS_ASKED,
    CALLED_EAGERLY,
    KERAS_ON_CPU,
    KERAS_ON_SEVERAL,
    KERAS_WITHOUT_XLA,
    KERAS_XLA,
    ONLY_WAY,
    Target,
    Workload,
)


@dataclass(frozen=True)
class Expected:
    """Expected execution mode; ``why`` is worded to follow “graph, …”, as in :class:`core.base.evidence.CellSetup`."""

    execution: Compiled
    why: str
    sure: bool = True


@lru_cache(maxsize=512)
def expected(network: Network, target: Target) -> Expected:
    """Return the mode in which Keras runs the network's steps on the target."""
    if target.execution != "keras":
        return Expected(target.execution, AS_ASKED)
    if target.call == "model":
        return Expected("eager", CALLED_EAGERLY)
    framework = FRAMEWORKS[target.framework]
    if framework.by_itself is not None:
        return Expected(framework.by_itself, ONLY_WAY.format(framework=framework.title))
    if not target.is_gpu:
        return Expected("graph", KERAS_ON_CPU)
    if target.replicas > 1:
        return Expected("graph", KERAS_ON_SEVERAL)
    if isinstance(network, Code):
        return Expected("xla", f"{KERAS_XLA} unless a layer does not support it", sure=False)
    if keeps_from_xla(network):
        return Expected("graph", KERAS_WITHOUT_XLA.format(layers="recurrent layers"))
    return Expected("xla", KERAS_XLA)


def keeps_from_xla(network: Network) -> bool:
    """Return True if a layer of the network does not support XLA on a GPU, as far as its layers are known."""
    return isinstance(network, GraphNetwork) and turns_xla_off(network.graph)


def resolved(workload: Workload, target: Target) -> Target:
    """Return the target with its default execution replaced by the expected mode, for all later calculations."""
    if target.execution != "keras":
        return target
    return target.model_copy(update={"execution": expected(workload.network, target).execution})


def place_words(target: Target) -> str:
    """Return the device in words: ``GPU 0``, or ``CPU, 2 threads``."""
    words = device_words(target.device)
    return words if target.threads is None else f"{words}, {counted(target.threads, 'thread')}"


def precision_words(target: Target, tf32: bool | None) -> str:
    """Return the precision in words, saying if float32 means TF32 (``tf32``: whether the worker reported it)."""
    if target.precision == "float32_strict":
        return "float32 without TF32"
    return "float32 (TF32)" if target.precision == "float32" and tf32 else target.precision


def has_tf32(device: str, gpus: Sequence[Gpu]) -> bool | None:
    """Return True if the device, such as ``gpu:0``, computes float32 products as TF32 unless that is switched off.

    Decided by its compute capability (the first card's, for several); ``gpus`` in the framework's order. None for the
    CPU, and if the capability is unknown.
    """
    cards = Target(device=device).gpus
    capability = gpus[cards[0]].compute_capability if cards and cards[0] < len(gpus) else None
    try:
        return None if capability is None else tuple(int(part) for part in capability.split(".")) >= TF32_CAPABILITY
    except ValueError:
        return None


def setting_words(target: Target, execution: Compiled, why: str | None, tf32: bool | None) -> str:
    """Return the setting, as in ``GPU 0: XLA, as Keras chooses by default; float32 (TF32)``; omits plain float32."""
    return f"{place_words(target)}: {running_words(target, execution, why, tf32)}"


def running_words(target: Target, execution: Compiled, why: str | None, tf32: bool | None) -> str:
    """Return the setting without the device."""
    compiled, precision = "XLA" if execution == "xla" else execution, precision_words(target, tf32)
    parts = [f"{compiled}, {why}" if why else compiled]
    parts += [precision] if precision != "float32" else []
    parts += [f"{target.steps_per_execution} steps per execution"] if target.steps_per_execution > 1 else []
    parts += [CALLS[target.call]] if target.call != "step" else []
    parts += [PADDINGS[target.pad]] if target.pad != "none" else []
    return "; ".join(parts)


def expected_words(workload: Workload, target: Target, tf32: bool | None = None) -> str:
    """Return the expected setting of the target, without the device."""
    execution = expected(workload.network, target)
    return running_words(target, execution.execution, execution.why, tf32)


def chosen_line(workload: Workload, *targets: Target) -> tuple[str, ...]:
    """Return a line with Keras's expected choice for each target that leaves it the choice; none without any.

    For studies whose records hold no cell's setup.
    """
    left = dict.fromkeys(target for target in targets if target.execution == "keras")
    words = [f"{place_words(target)}: {expected_words(workload, target)}." for target in left]
    return (" ".join(words),) if words else ()


def refuse_same(workload: Workload, *targets: Target) -> None:
    """Raise ValueError if two targets are equal or certainly run in the same way."""
    for first, second in combinations(targets, 2):
        if first == second:
            raise ValueError(f"two targets are “{first}”; choose targets that differ")
        if same(workload, first, second):
            resolution = resolved(workload, first)
            raise ValueError(
                f"two targets are “{resolution}”, which Keras itself chooses there; choose targets that differ"
            )


def same(workload: Workload, first: Target, second: Target) -> bool:
    """Return True if two targets certainly run in the same way."""
    sure = all(expected(workload.network, target).sure for target in (first, second))
    return first == second or (sure and resolved(workload, first) == resolved(workload, second))
