"""Frequently compared sets of targets, made from a machine's hardware, and the next target worth adding. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from core.analysis.execution import has_tf32, same
from core.evidence import Gpu
from core.schema import UserError
from core.spec import Mode, Target, Workload
from core.studies.sweep.best_cpu import cpu_settings

COMPARED_FRAMEWORKS = ("tensorflow", "jax", "torch")
"""Frameworks that train the same Keras model."""
MORE_STEPS = (2, 4, 8, 16, 32)
"""Steps per execution worth trying."""


@dataclass(frozen=True)
class Here:
    """Hardware of this machine as presets use it. ``gpu`` is the first usable one, such as ``gpu:0``.

    ``has_tf32``: it has compute capability 8.0 or higher, which introduced TF32 and bfloat16 (NVIDIA Ampere
    architecture white paper); None if unknown.
    """

    cores: int
    gpu: str | None = None
    has_tf32: bool | None = None

    @classmethod
    def of(cls, cores: int | None, usable: Sequence[str], gpus: Sequence[Gpu]) -> Here:
        """Build it from the usable GPUs, in the notation of targets, and the properties of all GPUs present."""
        first = next(iter(usable), None)
        return cls(cores or 1, first, None if first is None else has_tf32(first, gpus))


@dataclass(frozen=True)
class Preset:
    """Named set of targets. ``make`` returns none if the machine lacks what they need, which ``needs`` names."""

    title: str
    make: Callable[[Here], tuple[Target, ...]]
    mode: Mode | None = None
    needs: str = ""


def _machine(here: Here) -> tuple[Target, ...]:
    return cpu_settings(here.cores)


def _precisions(here: Here) -> tuple[Target, ...]:
    if here.gpu is None:
        return ()
    first = Target(device=here.gpu)
    strict = [Target(device=here.gpu, precision="float32_strict")] if here.has_tf32 is not False else []
    bfloat16 = [Target(device=here.gpu, precision="mixed_bfloat16")] if here.has_tf32 else []
    return (first, *strict, Target(device=here.gpu, precision="mixed_float16"), *bfloat16)


def _frameworks(here: Here) -> tuple[Target, ...]:
    return tuple(Target(device=here.gpu or "cpu", framework=name) for name in COMPARED_FRAMEWORKS)


def _formats(_: Here) -> tuple[Target, ...]:
    return tuple(
        Target(framework=framework, precision=precision)
        for framework in ("tensorflow", "litert")
        for precision in ("float32", "int8")
    )


PRESETS: Mapping[str, Preset] = MappingProxyType(
    {
        "machine": Preset("This machine's choices", _machine),
        "precisions": Preset("GPU precisions", _precisions, needs="a GPU"),
        "frameworks": Preset("Frameworks", _frameworks),
        "formats": Preset("Inference formats", _formats, mode="infer"),
    }
)


def preset_targets(name: str, here: Here) -> tuple[Target, ...]:
    """Return the targets of a preset. Raises UserError if this machine lacks what they need."""
    preset = PRESETS[name]
    targets = preset.make(here)
    if not targets:
        raise UserError(f"“{preset.title}” needs {preset.needs}, and none was found that can be used on this machine.")
    return targets


def another(taken: Sequence[Target], here: Here, workload: Workload | None = None) -> Target:
    """Return a target to add to those present: a GPU precision, a choice of this machine, or more steps per call."""
    more = [*_precisions(here), *_machine(here), *(Target(steps_per_execution=count) for count in MORE_STEPS)]
    return next(new for new in more if not any(_alike(new, target, workload) for target in taken))


def _alike(first: Target, second: Target, workload: Workload | None) -> bool:
    return first == second if workload is None else same(workload, first, second)
