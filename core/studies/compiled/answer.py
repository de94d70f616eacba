"""Facts of a compiled step: kernels by class, the memory that it needs, a floor of its time. Pure functions.

The floor is a time that no run of these kernels can fall below: each takes at least its shortest possible duration, its
products at the card's peak, or its bytes through the caches, whichever is longest. It holds no launches, no waiting and
no tuning; a tuned program may have fewer bytes, so it is a floor of this program.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from core.base.schema import UserError
from core.hardware.catalogue import GpuSpec
from core.hardware.curve import card_curve
from core.hardware.host import USUAL_KIND, Conditions, Modelling, costs_of_kind
from core.hardware.interval import Withheld
from core.studies.compiled.record import CompiledStep, CompileStudy
from core.traces.program import CLASSES, CompiledKernel, KernelClass, Program
from core.workload.spec import MAX_BATCH, Target

SHORTEST_US = 1.0
"""Shortest duration of any kernel; on an H200 the mean of small networks' is 1.7 µs (core/data/example_gpu.json)."""
BOOST = 1.1
"""Clocks above the data sheet's: an RTX 4090 (2.52 GHz) reaches 2.75 GHz."""
L2_GAIN = 6.0
"""Bandwidth of the L2 cache over the memory's, at most: 4 on a T4 (1.27 over 0.32 TB/s, Jia et al. 2019), 5 on an RTX
4090, less on cards with HBM.
"""
WINOGRAD = 2.25
"""Factor of multiplications saved by Winograd's algorithm for 3 × 3 filters (Lavin and Gray 2016, F(2 × 2, 3 × 3))."""
HALF_GAIN = 4.0
"""Factor over float32 of a card without a stated 16-bit rate, at most."""
L2_BYTES_PER_MB = 1 << 20
SHOWN_KERNELS = 10
TENSORFLOW = (0.7, 1.17)
"""Kernels of TensorFlow's XLA over those of this compiler: 0.70 to 1.00 in traced training steps of an H200
(core/data/example_gpu_training.json), within 3 to 17 % of each other's programs for four networks on eight cards.
"""
Limit = Literal["products", "memory", "shortest kernels"]


@dataclass(frozen=True)
class KernelTime:
    """A kernel with its floor in µs per launch, and what limits it."""

    kernel: CompiledKernel
    floor_us: float
    limit: Limit

    @property
    def total_us(self) -> float:
        return self.kernel.times * self.floor_us


@dataclass(frozen=True)
class CardStep:
    """Facts of one card at one batch size.

    ``modelled_ms`` are the modelled step time and its 95 % bounds, from counted layers, or None where it is withheld.
    """

    spec: GpuSpec
    batch: int
    program: Program
    kernels: tuple[KernelTime, ...]
    compile_ms: float
    modelled_ms: tuple[float, float, float] | None

    @property
    def floor_ms(self) -> float:
        return sum(kernel.total_us for kernel in self.kernels) / 1000

    @property
    def flops(self) -> int:
        return sum(kernel.times * kernel.flops for kernel in self.program.kernels)

    @property
    def moved_bytes(self) -> int:
        return sum(kernel.times * kernel.bytes for kernel in self.program.kernels)

    @property
    def in_loops(self) -> int:
        """Kernels per step that belong to loops."""
        return sum(kernel.times for kernel in self.program.kernels if kernel.loop)

    @property
    def costliest(self) -> tuple[KernelTime, ...]:
        """The kernels that cost most by their floor."""
        return tuple(sorted(self.kernels, key=lambda kernel: -kernel.total_us)[:SHOWN_KERNELS])


@dataclass(frozen=True)
class CardFacts:
    """A card's steps by batch size. No batch above ``largest`` fits; None if fewer than two sizes were compiled."""

    spec: GpuSpec
    steps: tuple[CardStep, ...]
    failed: tuple[CompiledStep, ...]
    largest: int | None


@dataclass(frozen=True)
class Between:
    """A batch size between two compiled ones, whose memory and least time are interpolated linearly."""

    batch: int
    below: CardStep
    above: CardStep

    @property
    def memory_bytes(self) -> float:
        return self._at(self.below.program.memory_bytes, self.above.program.memory_bytes)

    @property
    def floor_ms(self) -> float:
        """About the least time; the least time of the smaller size is the bound that holds."""
        return self._at(self.below.floor_ms, self.above.floor_ms)

    def _at(self, below: float, above: float) -> float:
        low, high = self.below.batch, self.above.batch
        return below + (above - below) * (self.batch - low) / (high - low)


@dataclass(frozen=True)
class CompileAnswer:
    """Every card's facts, in the order of the plan."""

    cards: tuple[CardFacts, ...]

    def at(self, batch: int) -> tuple[CardStep, ...]:
        return tuple(step for card in self.cards for step in card.steps if step.batch == batch)


def compile_answer(study: CompileStudy) -> CompileAnswer:
    """Return the facts of a study. Raises UserError if nothing was compiled."""
    cards = tuple(card_facts(study, index) for index in range(len(study.plan.cards)))
    if not any(card.steps for card in cards):
        raise UserError(next((step.reason for step in study.steps if step.reason), "Nothing was compiled."))
    return CompileAnswer(cards)


def card_facts(study: CompileStudy, index: int) -> CardFacts:
    """Return the facts of one of the study's cards."""
    spec = study.plan.cards[index]
    mine = [step for step in study.steps if step.card == index]
    modelled = _modelled(study, spec, [step.batch for step in mine if step.program is not None])
    steps = tuple(
        CardStep(
            spec, step.batch, step.program, tuple(floor_of(kernel, spec) for kernel in step.program.kernels),
            step.compile_ms, modelled.get(step.batch),
        )
        for step in mine
        if step.program is not None
    )  # fmt: skip
    return CardFacts(spec, steps, tuple(step for step in mine if step.program is None), largest_batch(spec, steps))


def _modelled(study: CompileStudy, spec: GpuSpec, batches: list[int]) -> dict[int, tuple[float, float, float]]:
    """Return the modelled step times of Keras with XLA, data resident, on an unnamed host."""
    if not batches:
        return {}
    target = Target(device="gpu:0", precision=study.plan.precision, execution="xla")
    how = Modelling(study.plan.workload, target, costs_of_kind(USUAL_KIND, "xla"), Conditions(fed=False))
    try:
        points = card_curve(spec, how, batches).points
    except UserError:
        return {}  # a network that the model does not know still has its compiled facts
    known = [(p.batch, p.step_ms, p.low_ms, p.high_ms) for p in points if not isinstance(p, Withheld)]
    return {b: (ms, low, high) for b, ms, low, high in known if low is not None and high is not None}


def floor_of(kernel: CompiledKernel, spec: GpuSpec) -> KernelTime:
    """Return the floor of one launch, in µs."""
    single = max(spec.fp32_tflops, spec.tf32_tflops or 0.0)
    peak = max(single, spec.half_tflops or HALF_GAIN * spec.fp32_tflops) if kernel.half else single
    products_us = kernel.flops / (WINOGRAD if kernel.winograd else 1.0) / (BOOST * peak * 1e6)
    cached = min(kernel.bytes, L2_BYTES_PER_MB * spec.l2_mb) if spec.l2_mb is not None else kernel.bytes
    memory_us = (cached / L2_GAIN + kernel.bytes - cached) / (spec.bandwidth_gb_s * 1e3)
    limits: dict[Limit, float] = {"products": products_us, "memory": memory_us, "shortest kernels": SHORTEST_US}
    limit = max(limits, key=lambda name: limits[name])
    return KernelTime(kernel, limits[limit], limit)


def largest_batch(spec: GpuSpec, steps: tuple[CardStep, ...]) -> int | None:
    """Return the largest batch whose memory, at least, is below the card's: none above it fits.

    Between compiled sizes and beyond the largest, memory is a line through two neighbours; it grows no slower later.
    """
    points = [(step.batch, step.program.memory_bytes) for step in steps]
    limit = 1e9 * spec.memory_gb
    if len(points) < 2:
        return None
    if points[0][1] > limit:
        return points[0][0] - 1
    (low, low_bytes), (high, high_bytes) = next(
        (pair for pair in pairwise(points) if pair[1][1] > limit), (points[-2], points[-1])
    )
    if high_bytes <= low_bytes:
        return None
    return min(MAX_BATCH, int(low + (limit - low_bytes) * (high - low) / (high_bytes - low_bytes)))


def between(card: CardFacts, batch: int) -> Between | None:
    """Return the neighbours of a batch size; None if it is compiled itself, or beyond those that are."""
    pairs = (pair for pair in pairwise(card.steps) if pair[0].batch < batch < pair[1].batch)
    return next((Between(batch, *pair) for pair in pairs), None)


def counts(program: Program) -> dict[KernelClass, int]:
    """Return the kernels per step by class, without classes that have none."""
    return {kind: number for kind in CLASSES if (number := program.count(kind))}


def tensorflow_range(step: CardStep) -> tuple[int, int]:
    """Return the range of kernels per step on TensorFlow, whose XLA is another one."""
    low, high = TENSORFLOW
    return math.floor(low * step.program.launches), math.ceil(high * step.program.launches)
