"""What a target's execution comes to, where no worker has said so yet: Keras's own choice, without Keras.

The rule is that of Keras 3.15 on TensorFlow (``Trainer._resolve_auto_jit_compile`` and ``model_supports_jit``,
keras/src/trainers/trainer.py): XLA on a machine with a GPU where every layer supports it. Of the layers that networks
here are made of, only LSTM and GRU may not (:mod:`core.analysis.cudnn`). What user code is made of is not known, so
that its answer is not ``sure``. A worker asks Keras itself, and what it did stands in the record.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations

from core.analysis.cudnn import turns_xla_off
from core.evidence import TF32_CAPABILITY, Gpu
from core.families import Network
from core.families.code import Code
from core.families.graph_network import GraphNetwork
from core.frameworks import FRAMEWORKS, Compiled
from core.names import device_words
from core.numbers import counted
from core.spec import AS_ASKED, KERAS_ON_CPU, KERAS_ON_SEVERAL, KERAS_WITHOUT_XLA, KERAS_XLA, ONLY_WAY, Target, Workload


@dataclass(frozen=True)
class Expected:
    """``why`` in the words that follow “graph, …”, as :class:`core.evidence.CellSetup` has it."""

    execution: Compiled
    why: str
    sure: bool = True


@lru_cache(maxsize=512)
def expected(network: Network, target: Target) -> Expected:
    """How Keras runs the network's steps on the target."""
    if target.execution != "keras":
        return Expected(target.execution, AS_ASKED)
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
    """Whether a layer of the network does not support XLA on a GPU, as far as its layers are known."""
    return isinstance(network, GraphNetwork) and turns_xla_off(network.graph)


def resolved(workload: Workload, target: Target) -> Target:
    """The target with what its execution comes to for the workload, for all that reckons with it."""
    if target.execution != "keras":
        return target
    return target.model_copy(update={"execution": expected(workload.network, target).execution})


def place_words(target: Target) -> str:
    """``GPU 0``, or ``CPU, 2 threads``."""
    words = device_words(target.device)
    return words if target.threads is None else f"{words}, {counted(target.threads, 'thread')}"


def precision_words(target: Target, tf32: bool | None) -> str:
    """The precision with what float32 means there; ``tf32`` as :class:`core.evidence.Started` has it."""
    if target.precision == "float32_strict":
        return "float32 without TF32"
    return "float32 (TF32)" if target.precision == "float32" and tf32 else target.precision


def has_tf32(device: str, gpus: Sequence[Gpu]) -> bool | None:
    """Whether that device, such as ``gpu:0``, computes products of float32 as TF32 unless that is switched off.

    By its compute capability, of several the first one's; ``gpus`` in the framework's order. None for the CPU, and
    where that is not known.
    """
    cards = Target(device=device).gpus
    capability = gpus[cards[0]].compute_capability if cards and cards[0] < len(gpus) else None
    try:
        return None if capability is None else tuple(int(part) for part in capability.split(".")) >= TF32_CAPABILITY
    except ValueError:
        return None


def setting_words(target: Target, execution: Compiled, why: str | None, tf32: bool | None) -> str:
    """Such as ``GPU 0: XLA, as Keras chooses by default; float32 (TF32)``. Plain float32 goes without saying."""
    return f"{place_words(target)}: {running_words(target, execution, why, tf32)}"


def running_words(target: Target, execution: Compiled, why: str | None, tf32: bool | None) -> str:
    """The same without the device."""
    compiled, precision = "XLA" if execution == "xla" else execution, precision_words(target, tf32)
    parts = [f"{compiled}, {why}" if why else compiled]
    parts += [precision] if precision != "float32" else []
    parts += [f"{target.steps_per_execution} steps per execution"] if target.steps_per_execution > 1 else []
    return "; ".join(parts)


def expected_words(workload: Workload, target: Target, tf32: bool | None = None) -> str:
    """How the target is expected to run, without the device."""
    found = expected(workload.network, target)
    return running_words(target, found.execution, found.why, tf32)


def chosen_line(workload: Workload, *targets: Target) -> tuple[str, ...]:
    """What Keras is expected to choose on those of the targets that leave it the choice, in a line; none without any.

    For studies whose records hold no cell's setup.
    """
    left = dict.fromkeys(target for target in targets if target.execution == "keras")
    words = [f"{place_words(target)}: {expected_words(workload, target)}." for target in left]
    return (" ".join(words),) if words else ()


def refuse_same(workload: Workload, *targets: Target) -> None:
    """Raises ValueError where two targets are the same, or certainly come to the same."""
    for first, second in combinations(targets, 2):
        if first == second:
            raise ValueError(f"two targets are “{first}”; choose targets that differ")
        if same(workload, first, second):
            asked = resolved(workload, first)
            raise ValueError(f"two targets are “{asked}”, which Keras itself chooses there; choose targets that differ")


def same(workload: Workload, first: Target, second: Target) -> bool:
    """Whether two targets certainly come to the same."""
    sure = all(expected(workload.network, target).sure for target in (first, second))
    return first == second or (sure and resolved(workload, first) == resolved(workload, second))
