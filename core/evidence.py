"""What every record of a measurement says: label, status, machine, interference, blocks, outcomes, warnings."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from core.numbers import byte_size, counted
from core.schema import Frozen

Status = Literal["running", "finished", "cancelled", "interrupted", "failed"]
Ended = Literal["finished", "cancelled", "interrupted", "failed"]
Label = Literal["measured", "recorded", "modelled"]
Outcome = Literal[
    "measured", "skipped", "out_of_memory", "crashed", "hung", "nan_loss", "misplaced", "error", "pending"
]
PositiveMs = Annotated[float, Field(gt=0)]
MAX_LATENCIES = 1_000
TargetIndex = Annotated[int, Field(ge=0, le=1)]


class Gpu(Frozen):
    name: str
    memory_bytes: int | None = None
    driver: str | None = None
    compute_capability: str | None = None
    power_limit_w: float | None = None


class Resources(Frozen):
    """Cores and memory of a machine, and what of them this process may use.

    ``usable_cores``: those of its affinity, and of a container's CPU quota (in cores) the whole ones.
    ``container_memory_bytes``: the memory limit of its control groups; ``process_memory_bytes``: of the process alone
    (``ulimit -v`` or ``-d``). What is available heeds both.
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
        """Such as ``1 of 64 cores, limited by the container's CPU quota of 1.5``; empty where nothing is known."""
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
        """What limits the memory beside the machine's own, such as ``the container's memory limit of 1.6 GB``; empty
        where nothing does.
        """
        limits = []
        if self.container_memory_bytes is not None:
            limits.append(f"the container's memory limit of {byte_size(self.container_memory_bytes)}")
        if self.process_memory_bytes is not None:
            limits.append(f"this process's own limit of {byte_size(self.process_memory_bytes)} (ulimit)")
        return " and ".join(limits)

    @property
    def limited_words(self) -> str:
        """The same in brackets after a blank, or nothing."""
        return f" ({self.memory_limit_words})" if self.memory_limit_words else ""

    @property
    def free_words(self) -> str:
        """Memory that is free, as in ``24 GB free, limited by …``; empty where that is not known."""
        if self.memory_available_bytes is None:
            return ""
        why = f", limited by {self.memory_limit_words}" if self.memory_limit_words else ""
        return f"{byte_size(self.memory_available_bytes)} free{why}"


def whole_cores(quota: float) -> int:
    """The threads that a CPU quota in cores keeps busy all the time, at least one.

    Down, not up: with one thread more than the quota the kernel stops all of them for the rest of every period (of
    mostly 100 ms), and the threads of an operation wait for the slowest, so that such stalls would be measured.
    """
    return max(1, int(quota))


class Environment(Resources):
    """The machine as it was when the sweep began. Versions come from package metadata, never from an import."""

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


class Killed(Frozen):
    """What ended a worker with SIGKILL, which no limit of ours does: the kernel, at the memory limit of a container
    (``limit_bytes``) or for want of memory on the machine, or something unknown.
    """

    by: Literal["container", "machine", "unknown"]
    limit_bytes: Annotated[int, Field(gt=0)] | None = None

    @property
    def outcome(self) -> Outcome:
        return "crashed" if self.by == "unknown" else "out_of_memory"

    @property
    def words(self) -> str:
        """A clause that says so."""
        if self.by == "unknown":
            return "something outside killed it, as the system does when memory runs out"
        if self.limit_bytes is None:
            return "the machine ran out of memory"
        return f"the container's memory limit of {byte_size(self.limit_bytes)} was reached"


class ProcessUse(Frozen):
    """Another process's use of the CPU, in percent of one core."""

    name: str
    cpu_pct: float


class Interference(Frozen):
    """What else the machine did during a round. ``None``: could not be seen on this system.

    ``other_cpu_pct`` is in percent of one core, all other processes together; ``steal_pct`` is time the hypervisor
    took, in percent of the machine.
    """

    other_cpu_pct: float | None = None
    busiest: tuple[ProcessUse, ...] = ()
    steal_pct: float | None = None
    cpu_mhz: float | None = None
    throttled: bool | None = None
    gpu_shared_by: tuple[str, ...] = ()


StoredInterference = Annotated[Interference, Field(alias="noise")]
"""A round's field for it, ``interference``; JSON has called it ``noise`` since the first version."""


class Block(Frozen):
    """``steps`` consecutive steps closed by one device synchronisation, on one target."""

    target: TargetIndex
    process: Annotated[int, Field(ge=0)]
    steps: Annotated[int, Field(ge=1)]
    step_ms: PositiveMs
    at_s: float = 0.0


class Started(Frozen):
    """A worker process that is ready. ``startup_ms``: interpreter, import of the framework, device set-up."""

    pid: int
    startup_ms: float
    device: str
    device_name: str = ""
    threads: int | None = None
    versions: dict[str, str] = Field(default_factory=dict)


class Process(Started):
    """One worker process: ``index`` counts the starts of this sweep, both targets starting together share one."""

    index: Annotated[int, Field(ge=0)]
    target: TargetIndex


class CellSetup(Frozen):
    """What preparing a cell took and found; none of it is inside the step time."""

    batch: Annotated[int, Field(ge=1)]
    build_ms: float
    first_call_ms: float
    warmup_steps: int
    warmup_ms: float
    warmup_steady: bool
    steps_per_block: Annotated[int, Field(ge=1)]
    latency_ms: Annotated[tuple[PositiveMs, ...], Field(max_length=MAX_LATENCIES)] = ()
    memory_peak_bytes: int | None = None
    placement: tuple[str, ...] = ()
    host_ops: tuple[str, ...] = ()


class Setup(CellSetup):
    """A cell's setup in one process."""

    target: TargetIndex
    process: Annotated[int, Field(ge=0)]


class Warning(Frozen):
    """Something a reader must know; ``code`` is stable, ``text`` is a sentence."""

    code: str
    text: str
