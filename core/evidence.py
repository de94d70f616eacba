"""What every record of a measurement says: label, status, machine, interference, blocks, outcomes, warnings."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from core.schema import Frozen

Status = Literal["running", "finished", "cancelled", "interrupted", "failed"]
Ended = Literal["finished", "cancelled", "failed"]
Label = Literal["measured", "recorded", "modelled"]
Outcome = Literal[
    "measured", "skipped", "out_of_memory", "crashed", "hung", "nan_loss", "misplaced", "error", "pending"
]
PositiveMs = Annotated[float, Field(gt=0)]
TargetIndex = Annotated[int, Field(ge=0, le=1)]


class Gpu(Frozen):
    name: str
    memory_bytes: int | None = None
    driver: str | None = None
    compute_capability: str | None = None
    power_limit_w: float | None = None


class Environment(Frozen):
    """The machine as it was when the sweep began. Versions come from package metadata, never from an import."""

    captured_at: str
    hostname_hash: str = ""
    os: str = ""
    python: str = ""
    cpu: str = ""
    physical_cores: int | None = None
    logical_cores: int | None = None
    usable_cores: int | None = None
    memory_bytes: int | None = None
    memory_available_bytes: int | None = None
    virtualisation: str | None = None
    governor: str | None = None
    cpu_mhz: float | None = None
    load_1min: float | None = None
    gpus: tuple[Gpu, ...] = ()
    versions: dict[str, str] = Field(default_factory=dict)


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
    latency_ms: tuple[PositiveMs, ...] = ()
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
