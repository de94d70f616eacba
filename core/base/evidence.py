"""Types shared by every record of a measurement: label, status, machine, interference, blocks, outcomes, warnings."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal, get_args

from pydantic import Field

from core.base.frameworks import Compiled
from core.base.numbers import byte_size, counted, moment
from core.base.schema import Frozen

Status = Literal["running", "finished", "cancelled", "interrupted", "failed"]
Ended = Literal["finished", "cancelled", "interrupted", "failed"]
Label = Literal["measured", "recorded", "published", "compiled", "modelled", "simulated"]
Outcome = Literal[
    "measured", "skipped", "out_of_memory", "crashed", "hung", "nan_loss", "misplaced", "error", "pending"
]
PositiveMs = Annotated[float, Field(gt=0)]
WakeMs = Annotated[float, Field(ge=0)] | None
CpuMs = Annotated[float, Field(ge=0)] | None
MAX_LATENCIES = 1_000
MAX_WHY = 300
LoopMs = Annotated[float, Field(gt=0, le=1e12)]
MAX_LOOP_PAIRS, MAX_LOOP_STEPS = 100, 10**9
MAX_TARGETS = 6
TargetIndex = Annotated[int, Field(ge=0, lt=MAX_TARGETS)]


TF32_CAPABILITY = (8, 0)  # of the first GPUs with it (NVIDIA Ampere architecture white paper)


class Gpu(Frozen):
    """A GPU as a framework sees it; None means not recorded. With ``mig`` it is a slice of a card: the memory is the
    slice's, the power limit the card's. ``uuid_hash`` tells cards of the same model apart.
    """

    name: str
    memory_bytes: int | None = None
    driver: str | None = None
    compute_capability: str | None = None
    power_limit_w: float | None = None
    uuid_hash: str | None = None
    mig: bool | None = None


class Resources(Frozen):
    """Cores and memory of a machine, and the share of them this process may use.

    ``usable_cores`` counts the cores in its CPU affinity, capped at the whole cores of a container's CPU quota (in
    cores). ``container_memory_bytes`` is the memory limit of its control groups; ``process_memory_bytes`` that of the
    process alone (``ulimit -v`` or ``-d``). The available memory respects both.
    """

    physical_cores: int | None = None
    logical_cores: int | None = None
    usable_cores: int | None = None
    cpu_quota: Annotated[float, Field(gt=0)] | None = None
    memory_bytes: int | None = None
    memory_available_bytes: int | None = None
    container_memory_bytes: Annotated[int, Field(ge=0)] | None = None
    process_memory_bytes: Annotated[int, Field(ge=0)] | None = None

    @property
    def cores_words(self) -> str:
        """Usable cores, as in ``1 of 64 cores, limited by the container's CPU quota of 1.5``; empty if unknown."""
        usable, total = self.usable_cores, self.logical_cores
        if usable is None:
            return "" if total is None else counted(total, "core")
        if total is None or usable >= total:
            return counted(usable, "core")
        by_quota = self.cpu_quota is not None and usable == whole_cores(self.cpu_quota)
        why = f"the container's CPU quota of {self.cpu_quota:.3g}" if by_quota else "the CPU affinity of this process"
        return f"{usable} of {counted(total, 'core')}, limited by {why}"

    @property
    def memory_limit_words(self) -> str:
        """Memory limits other than the machine's own, as in ``the container's memory limit of 1.6 GB``, or ""."""
        limits = []
        if self.container_memory_bytes is not None:
            limits.append(f"the container's memory limit of {byte_size(self.container_memory_bytes)}")
        if self.process_memory_bytes is not None:
            limits.append(f"this process's own limit of {byte_size(self.process_memory_bytes)} (ulimit)")
        return " and ".join(limits)

    @property
    def limited_words(self) -> str:
        """The memory limits in parentheses after a space, or an empty string."""
        return f" ({self.memory_limit_words})" if self.memory_limit_words else ""

    @property
    def free_words(self) -> str:
        """Free memory, as in ``24 GB free, limited by …``; empty if unknown."""
        if self.memory_available_bytes is None:
            return ""
        why = f", limited by {self.memory_limit_words}" if self.memory_limit_words else ""
        return f"{byte_size(self.memory_available_bytes)} free{why}"


def whole_cores(quota: float) -> int:
    """Return the number of threads a CPU quota (in cores) can keep busy all the time, at least one.

    It rounds down: with one thread more than the quota, the kernel stops all of them for the rest of every period
    (usually 100 ms). The threads of an operation wait for the slowest, so those stalls would be measured.
    """
    return max(1, int(quota))


class Environment(Resources):
    """State of the machine when the sweep began. Versions come from package metadata, never from an import."""

    captured_at: str
    hostname_hash: str = ""
    os: str = ""
    python: str = ""
    cpu: str = ""
    virtualisation: str | None = None
    governor: str | None = None
    cpu_mhz: float | None = None
    load_1min: float | None = None
    gpus: tuple[Gpu, ...] = ()
    versions: dict[str, str] = Field(default_factory=dict)

    @property
    def facts(self) -> list[tuple[str, str]]:
        """Facts about the machine as pairs of name and text; those that could not be read are “not seen”."""
        cores = f"{self.physical_cores or '?'} physical, {self.logical_cores or '?'} logical"
        if self.usable_cores is not None:
            cores += f"; this process may use {self.cores_words}"
        memory = byte_size(self.memory_bytes) if self.memory_bytes else ""
        if memory and self.free_words:
            memory += f", {self.free_words}"
        facts = {
            "Captured": moment(self.captured_at),
            "System": self.os,
            "Processor": self.cpu,
            "Cores": cores,
            "Memory": memory,
            "Virtual machine": self.virtualisation or "",
            "CPU governor": self.governor or "",
            "CPU clock": f"{self.cpu_mhz:,.0f} MHz" if self.cpu_mhz else "",
            "Load (1 minute)": f"{self.load_1min:.2f}" if self.load_1min is not None else "",
            "Python": self.python,
        }
        rows = [(name, value or "not seen") for name, value in facts.items()]
        for index, gpu in enumerate(self.gpus):
            details = [gpu.name, byte_size(gpu.memory_bytes) if gpu.memory_bytes else "", gpu.driver or ""]
            rows.append((f"GPU {index}", ", ".join(part for part in details if part)))
        if not self.gpus:
            rows.append(("GPU", "none found"))
        return rows + [(f"Version of {name}", version) for name, version in sorted(self.versions.items())]


def same_machine(first: Environment | None, second: Environment | None) -> bool | None:
    """Return True if both environments name the same machine; None if either is unknown."""
    if first is None or second is None:
        return None
    return (first.hostname_hash, first.cpu) == (second.hostname_hash, second.cpu)


def _unknown(value: object) -> bool:
    """Return True for values left out of the JSON of records that occur by the hundred thousand."""
    return value is None or value == {}


Known = Field(default=None, exclude_if=_unknown)


class ProcessUse(Frozen):
    """Another process's use of the CPU, in percent of one core."""

    name: str
    cpu_pct: float


DISTURBING_WAIT_PCT = 70.0
"""Threads of a worker on a single core wait for each other 30 to 55 % of the time (measured:
docs/tables/processes.md)."""
DISTURBING_STEAL_PCT, DISTURBING_OTHERS_PCT, PRESENT_PCT = 5.0, 25.0, 10.0


class Interference(Frozen):
    """Other activity on the machine during a round. ``None``: could not be read on this system.

    ``other_cpu_pct`` is in percent of one core, all other processes together; ``steal_pct`` is time the hypervisor
    took, in percent of the machine; ``wait_pct`` is time during which threads of our workers were runnable but waited
    for a core, in percent of one core. ``throttled``: heat or the hardware slowed a measured GPU while it computed.
    """

    other_cpu_pct: float | None = None
    busiest: tuple[ProcessUse, ...] = ()
    steal_pct: float | None = None
    wait_pct: Annotated[float, Field(ge=0)] | None = Known
    cpu_mhz: float | None = None
    throttled: bool | None = None
    gpu_shared_by: tuple[str, ...] = ()

    @property
    def disturbed(self) -> bool | None:
        """True if others took CPU time that our workers needed, judged by this cause alone, never by a block's length.

        None if that cannot be told. Our threads also wait for each other, so waiting counts only if others computed.
        """
        if self.steal_pct is not None and self.steal_pct > DISTURBING_STEAL_PCT:
            return True
        if self.wait_pct is None:
            return None if self.other_cpu_pct is None else self.other_cpu_pct > DISTURBING_OTHERS_PCT
        alone = self.other_cpu_pct is not None and self.other_cpu_pct <= PRESENT_PCT
        return self.wait_pct > DISTURBING_WAIT_PCT and not alone


StoredInterference = Annotated[Interference, Field(alias="noise")]
"""Type of a round's field ``interference``; JSON has called it ``noise`` since the first version."""


class ServedPart(Frozen):
    """A stretch of a visit to a server: requests that came in it, and how many missed the limit.

    ``latency_ms`` is their promised percentile; None without requests, or if it fell to one that was never served.
    """

    requests: Annotated[int, Field(ge=0)]
    missed: Annotated[int, Field(ge=0)]
    latency_ms: Annotated[float, Field(ge=0)] | None = None


Slowdown = Literal["hw_slowdown", "sw_thermal", "hw_thermal", "power_brake"]
"""Reasons for a lower GPU clock that mean heat or a fault: NVML's HwSlowdown, SwThermalSlowdown, …"""
ClockReason = Literal["power_cap", "applications_clocks", "sync_boost", "display_clocks"] | Slowdown
"""Reasons NVML names for a GPU's clock. ``power_cap`` (SwPowerCap) is the power limit, normal under load."""
Spread = float | tuple[float, float, float]
"""Mean, minimum and maximum of several samples; a single number if all are equal."""


def mean_of(spread: Spread) -> float:
    return spread[0] if isinstance(spread, tuple) else spread


class CardUse(Frozen):
    """A GPU's activity during a block or a window, read through NVML. None: no answer, or too short a time to ask.

    ``busy`` counts the samples in which the GPU did not report itself idle; clocks and temperature come from those
    alone, and ``reasons`` counts the samples that named each reason. ``tx_mb_s`` is PCIe traffic from the GPU,
    ``rx_mb_s`` to it. ``energy_from``: the GPU's energy counter, or mean sampled power times the length. ``cpu_ms`` is
    the CPU time spent on sampling, ``ask_ms`` the mean time per sample.
    """

    length_s: Annotated[float, Field(ge=0)]
    samples: Annotated[int, Field(ge=1)]
    busy: Annotated[int, Field(ge=0)] = 0
    util_pct: Spread | None = Known
    sm_mhz: Spread | None = Known
    memory_mhz: Spread | None = Known
    power_w: Spread | None = Known
    celsius: Spread | None = Known
    used_mb: Spread | None = Known
    tx_mb_s: Spread | None = Known
    rx_mb_s: Spread | None = Known
    energy_j: float | None = Known
    energy_from: Literal["counter", "power"] | None = Known
    reasons: dict[ClockReason, int] = Field(default_factory=dict, exclude_if=_unknown)
    cpu_ms: float = 0.0
    ask_ms: float = 0.0

    @property
    def slowed(self) -> bool:
        """True if heat or a fault lowered the clock in any sample of the busy GPU."""
        return any(name in self.reasons for name in SLOWDOWNS)


WHILE_BUSY = ("sm_mhz", "memory_mhz", "celsius")
"""Fields of CardUse that idle samples would distort: between blocks a GPU's clocks fall to their lowest, it cools."""
SLOWDOWNS: tuple[str, ...] = get_args(Slowdown)


class Block(Frozen):
    """A timed block: ``steps`` consecutive steps closed by one device synchronisation, on one target.

    ``wake_ms``: untimed steps just before, to let an idle GPU's clocks rise or idle cores wake; None if none are needed
    on a CPU, or if not recorded.
    ``cpu_ms`` is the CPU time of the worker's whole process during the block, if recorded.
    """

    target: TargetIndex
    process: Annotated[int, Field(ge=0)]
    steps: Annotated[int, Field(ge=1)]
    step_ms: PositiveMs
    at_s: float = 0.0
    card: CardUse | None = Known
    wake_ms: WakeMs = Known
    cpu_ms: CpuMs = Known

    @property
    def cores(self) -> float | None:
        """Cores the worker kept busy on average; None if its CPU time was not recorded."""
        return None if self.cpu_ms is None else self.cpu_ms / (self.steps * self.step_ms)


Start = Literal["fresh", "forked"]
"""Start of a worker: a new interpreter, or a fork of a template that had already imported the framework."""


class Started(Frozen):
    """A worker process that is ready.

    ``startup_ms`` covers the interpreter, the import of the framework and device set-up; for a fork only the last.
    ``tf32``: True if float32 products run as TF32 there; None if unknown or not recorded. ``niceness`` is its own,
    above 0 if everything else has priority; ``inherited_threads`` are the environment variables that limit threads and
    that its target did not ask for. None in ``start`` and in these two: not recorded.
    """

    pid: int
    startup_ms: float
    device: str
    device_name: str = ""
    threads: int | None = None
    tf32: bool | None = None
    versions: dict[str, str] = Field(default_factory=dict)
    start: Start | None = None
    niceness: int | None = Known
    inherited_threads: dict[str, str] | None = Field(default=None, exclude_if=lambda value: value is None)


class Process(Started):
    """One worker process. ``index`` counts the starts of this sweep; targets that start together share an index."""

    index: Annotated[int, Field(ge=0)]
    target: TargetIndex


class OutputDifference(Frozen):
    """Deviation of a quantised network's outputs from its float32 outputs for the same samples and weights.

    ``largest`` and ``mean`` are absolute differences as shares of the range of the float32 outputs; ``agreeing`` is the
    share of samples for which both predict the same class. ``quantised`` names the parts in int8.
    """

    samples: Annotated[int, Field(ge=1)]
    largest: Annotated[float, Field(ge=0)]
    mean: Annotated[float, Field(ge=0)]
    agreeing: Annotated[float, Field(ge=0, le=1)]
    quantised: Annotated[str, Field(max_length=MAX_WHY)]


class CellSetup(Frozen):
    """Cost and outcome of preparing a cell; none of it is part of the step time.

    ``memory_peak_bytes`` includes the first call, which tries algorithms and compiles; ``memory_steady_bytes`` is the
    peak after it, on a GPU only.

    ``execution`` is the way the step was compiled, and ``execution_why`` the reason, worded to follow “graph, …”; None:
    not recorded. ``output_difference`` is set for int8 only, ``traces`` for inputs of several lengths: how often the
    step had been traced by the end of the warm-up. ``paused_ms``: single steps, each after a pause.
    """

    batch: Annotated[int, Field(ge=1)]
    build_ms: float
    first_call_ms: float
    warmup_steps: int
    warmup_ms: float
    warmup_steady: bool
    steps_per_block: Annotated[int, Field(ge=1)]
    latency_ms: Annotated[tuple[PositiveMs, ...], Field(max_length=MAX_LATENCIES)] = ()
    memory_peak_bytes: int | None = None
    memory_steady_bytes: int | None = None
    placement: tuple[str, ...] = ()
    host_ops: tuple[str, ...] = ()
    execution: Compiled | None = None
    execution_why: Annotated[str, Field(max_length=MAX_WHY)] | None = None
    output_difference: OutputDifference | None = Known
    traces: Annotated[int, Field(ge=0)] | None = Known
    paused_ms: Annotated[tuple[PositiveMs, ...], Field(max_length=MAX_LATENCIES)] | None = Known


class Setup(CellSetup):
    """A cell's setup in one worker process."""

    target: TargetIndex
    process: Annotated[int, Field(ge=0)]


class LoopPair(Frozen):
    """Keras's own loop (``fit`` or ``predict``) beside our blocks: calls of n and 3 n steps, and a block of 2 n.

    The difference of the two calls cancels the fixed cost of a call and covers as many steps as the block.
    """

    short_ms: LoopMs
    long_ms: LoopMs
    own_ms: LoopMs


class LoopTimes(Frozen):
    """Loop pairs of one batch. ``steps`` is the length of a short call; the order within pairs alternates."""

    batch: Annotated[int, Field(ge=1)]
    steps: Annotated[int, Field(ge=1, le=MAX_LOOP_STEPS)]
    pairs: Annotated[tuple[LoopPair, ...], Field(min_length=1, max_length=MAX_LOOP_PAIRS)]


class Warning(Frozen):
    """A message the reader must see; ``code`` is stable, ``text`` is a sentence."""

    code: str
    text: str


def note_lines(warnings: Iterable[Warning]) -> list[str]:
    """Return warnings as lines of text, without their codes, which are for programs."""
    return [f"Note: {warning.text}" for warning in warnings]
