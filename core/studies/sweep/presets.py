"""Frequently compared sets of targets, made from a machine's hardware, and the next target worth adding. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from core.base.evidence import Gpu
from core.base.schema import UserError
from core.rounds.answer.best_cpu import LOOK_BATCHES
from core.rounds.plan import SweepPlan
from core.studies.sweep.proposal import with_proposed_budget
from core.workload.execution import has_tf32, same
from core.workload.spec import MAX_THREADS, Mode, Target, Workload

LOOK_S = 30.0
"""Shortest budget of a look."""
HALF_FROM = 4
"""Number of cores from which half of the threads are tried beside a GPU, often one per physical core."""


def cpu_settings(cores: int | None) -> tuple[Target, ...]:
    """Return the settings of a CPU to compare: one thread, half and all of them, and XLA with all."""
    usable = min(cores or 1, MAX_THREADS)
    counts = sorted({1, usable // 2, usable} - {0})
    cpus = [Target(threads=count) for count in counts] if usable > 1 else [Target()]
    return (*cpus, Target(threads=cpus[-1].threads, execution="xla"))


def compared_targets(usual: tuple[Target, ...], cores: int | None) -> tuple[Target, ...]:
    """Return the targets of a sweep in which none is named.

    They are the machine's ``usual`` ones; if one is a GPU, also the CPU as an expert may set it: all threads, half of
    them, XLA.
    """
    gpus = [target for target in usual if target.is_gpu]
    if not gpus:
        return usual
    half = [Target(threads=cores // 2)] if cores is not None and cores >= HALF_FROM else []
    return (Target(), *gpus, *half, Target(execution="xla"))


def look_plan(workload: Workload, cores: int | None) -> SweepPlan:
    """Return the plan of the short look: every setting of the CPU at three batches, about half a minute."""
    plan = SweepPlan(workload=workload, targets=cpu_settings(cores), batches=LOOK_BATCHES, refine=False, trace=False)
    return with_proposed_budget(plan, LOOK_S)


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
