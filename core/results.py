"""What was measured: a versioned, immutable record of one sweep, strict JSON in and out.

Raw rounds are kept; every statistic is derived from them by :mod:`core.analysis`, each time. Times of day are UTC
in ISO 8601; ``at_s`` counts seconds from the start of the sweep.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, ValidationError

from core.spec import Frozen, SweepPlan, explain
from core.traced import TracedCell

SCHEMA_VERSION: Literal[1] = 1
MAX_ROUNDS = 500_000

Label = Literal["measured", "recorded", "modelled"]
Status = Literal["running", "finished", "cancelled", "interrupted", "failed"]
Outcome = Literal[
    "measured", "skipped", "out_of_memory", "crashed", "hung", "nan_loss", "misplaced", "error", "pending"
]
StopReason = Literal["precise", "plateau", "budget", "cancelled", "answered", "failed"]
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


class Noise(Frozen):
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


class Block(Frozen):
    """``steps`` consecutive steps closed by one device synchronisation, on one target."""

    target: TargetIndex
    process: Annotated[int, Field(ge=0)]
    steps: Annotated[int, Field(ge=1)]
    step_ms: PositiveMs
    at_s: float = 0.0


class Round(Frozen):
    """One block of each target at one batch, in the order they ran; a single block where the other target failed."""

    index: Annotated[int, Field(ge=0)]
    pass_index: Annotated[int, Field(ge=0)] = 0
    batch: Annotated[int, Field(ge=1)]
    blocks: Annotated[tuple[Block, ...], Field(min_length=1, max_length=2)]
    noise: Noise = Noise()

    def step_ms(self, target: int) -> float | None:
        """Step time of that target in this round, or None if it has no block."""
        return next((block.step_ms for block in self.blocks if block.target == target), None)


class Process(Frozen):
    """One worker process: ``index`` counts the starts of this sweep, both targets starting together share one.

    ``startup_ms`` runs from the process's start until it is ready (interpreter, framework import, device set-up).
    """

    index: Annotated[int, Field(ge=0)]
    target: TargetIndex
    pid: int
    startup_ms: float
    device: str
    device_name: str = ""
    threads: int | None = None
    versions: dict[str, str] = Field(default_factory=dict)


class Setup(Frozen):
    """What preparing a cell in one process took and found; none of it is inside the step time."""

    target: TargetIndex
    batch: Annotated[int, Field(ge=1)]
    process: Annotated[int, Field(ge=0)]
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


class Cell(Frozen):
    """The outcome for one target at one batch, with why sampling stopped or what went wrong, as a sentence."""

    target: TargetIndex
    batch: Annotated[int, Field(ge=1)]
    outcome: Outcome
    reason: str = ""
    stop_reason: StopReason | None = None


class Warning(Frozen):
    """Something a reader must know; ``code`` is stable, ``text`` is a sentence."""

    code: str
    text: str


class Run(Frozen):
    """One sweep. ``plan`` and ``environment`` are None for bare points imported from CSV."""

    schema_version: Literal[1] = SCHEMA_VERSION
    id: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{3,63}$")]
    name: Annotated[str, Field(min_length=1, max_length=200)]
    created_at: str
    label: Label
    status: Status
    target_names: tuple[str, str]
    plan: SweepPlan | None = None
    environment: Environment | None = None
    elapsed_s: float = 0.0
    processes: tuple[Process, ...] = ()
    setups: tuple[Setup, ...] = ()
    cells: tuple[Cell, ...] = ()
    rounds: Annotated[tuple[Round, ...], Field(max_length=MAX_ROUNDS)] = ()
    warnings: tuple[Warning, ...] = ()
    traces: tuple[TracedCell, ...] = ()

    @property
    def batches(self) -> tuple[int, ...]:
        """Batch sizes that have at least one round, rising."""
        return tuple(sorted({r.batch for r in self.rounds}))

    def to_json(self, indent: int | None = None) -> str:
        return self.model_dump_json(indent=indent)

    @classmethod
    def from_json(cls, text: str | bytes) -> Run:
        """Run from JSON. Raises ValueError with one sentence that says what is wrong and what is accepted."""
        try:
            return cls.model_validate_json(text)
        except ValidationError as error:
            raise ValueError(f"This is no Breakeven run of schema version {SCHEMA_VERSION}: {explain(error)}") from None
