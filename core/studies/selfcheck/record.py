"""Record of a self-check's readings of the machine, immutable and anonymous.

Every field is listed here individually, so that nothing gets into the file because another class gained a field.
"""

from __future__ import annotations

import getpass
import platform
import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from core.base.evidence import CardUse, Ended, Environment, Interference
from core.base.schema import Frozen
from core.hardware.host_record import HostStudy
from core.rounds.study import Record
from core.traces.record import PARTS, CellTrace
from core.workload.spec import Target

Part = Literal["cell", "loops", "trace", "factor", "memory", "host", "recurrent", "clusters", "floor", "equal"]
"""Parts in the order of reading; each may fail alone. ``floor`` is the host's own cost, ``equal`` the result of a sweep
of the target against itself."""

MAX_REPEATS, MAX_SAMPLES, MAX_LINES, MAX_GPUS, MAX_WORDS = 100, 1_000, 100, 64, 1_000
Some = Annotated[float, Field(ge=0, le=1e12)]
Ms = Annotated[float, Field(ge=1e-9, le=1e12)]
"""A positive duration: a file of any origin must not cause a division by zero."""
Repeats = Annotated[tuple[Ms, ...], Field(min_length=1, max_length=MAX_REPEATS)]
Words = Annotated[str, Field(max_length=MAX_WORDS)]
Lines = Annotated[tuple[Words, ...], Field(max_length=MAX_LINES)]
Bytes = Annotated[int, Field(ge=0)]

HOLDS = (
    "the target, the time (UTC), how long it took, and the version of Breakeven",
    "the operating system, Python, and the versions of packages that matter",
    "processor, cores, memory, clock and kind of virtual machine",
    "of each GPU its name, memory, driver, compute capability and power limit, and what is known to be wrong with it",
    "clocks, power, heat and memory of the GPU while it worked, where its driver tells them",
    "every check with its figure, and the times, bytes and counts that it rests on",
    "how much of the machine other programs used, without their names",
    "step times of tiny networks: what a step and an operation cost on this host",
    "from which difference on a short sweep shows one here, and what it claimed of two equal workers",
)
"""Contents of the file, for its owner to read before sending it."""
LACKS = (
    "It holds no host name nor its hash, no user name, no paths, no names of other programs, and no serial number or "
    "UUID of a GPU."
)


class CardFacts(Frozen):
    name: Words
    memory_bytes: Bytes | None = None
    driver: Words | None = None
    compute_capability: Words | None = None
    power_limit_w: Some | None = None
    mig: bool | None = None


class MachineFacts(Frozen):
    """The fields of :class:`core.base.evidence.Environment` that may leave the machine."""

    os: Words = ""
    python: Words = ""
    cpu: Words = ""
    physical_cores: int | None = None
    logical_cores: int | None = None
    usable_cores: int | None = None
    cpu_quota: Some | None = None
    memory_bytes: Bytes | None = None
    virtualisation: Words | None = None
    governor: Words | None = None
    cpu_mhz: Some | None = None
    gpus: Annotated[tuple[CardFacts, ...], Field(max_length=MAX_GPUS)] = ()
    versions: dict[Words, Words] = Field(default_factory=dict)

    @classmethod
    def of(cls, environment: Environment) -> MachineFacts:
        own = {name: getattr(environment, name) for name in cls.model_fields if name != "gpus"}
        cards = [{name: getattr(gpu, name) for name in CardFacts.model_fields} for gpu in environment.gpus]
        return cls(**own, gpus=tuple(CardFacts(**card) for card in cards))


class Disturbance(Frozen):
    """Other activity of the machine while a part was read; :class:`core.base.evidence.Interference` without names."""

    other_cpu_pct: Some | None = None
    steal_pct: Some | None = None
    cpu_mhz: Some | None = None
    gpu_shared: bool = False

    @classmethod
    def of(cls, seen: Interference) -> Disturbance:
        same = {name: getattr(seen, name) for name in cls.model_fields if name != "gpu_shared"}
        return cls(**same, gpu_shared=bool(seen.gpu_shared_by))


class CellReading(Frozen):
    """The prepared step. ``batch_bytes`` is the size of one batch, samples and labels."""

    network: Words
    batch: int
    batch_bytes: Bytes
    placement: Lines = ()
    host_ops: Lines = ()


class Loops(Frozen):
    """Milliseconds per step by repetition: as a block of ``steps``, in the barest loop, and synchronised in each step.

    ``sync_ms`` is one synchronisation on an idle device, ``clock_ms`` the clock's resolution.
    """

    steps: Annotated[int, Field(ge=1)]
    block_ms: Repeats
    bare_ms: Repeats
    synced_ms: Repeats
    sync_ms: Some
    clock_ms: Some


class Factor(Frozen):
    """Milliseconds of a computation and of one ``factor`` times as long, each closed by a synchronisation.

    ``left_ms``: time to fetch a result of the longer one afterwards.
    """

    factor: Annotated[int, Field(ge=2)]
    size: int
    short_ms: Repeats
    long_ms: Repeats
    left_ms: Repeats


class TraceReading(Frozen):
    """One trace of a few steps, summed. ``wall_ms`` is the time of the traced steps by the worker's own clock."""

    device: Words
    steps: Annotated[int, Field(ge=1)]
    step_ms: Ms
    parts_ms: Some
    compute_ms: Some
    busy_ms: Some
    kernels: Annotated[int, Field(ge=0)]
    wall_ms: Ms
    profiled_step_ms: Ms
    unprofiled_step_ms: Ms
    h2d_bytes: Bytes | None = None
    d2h_bytes: Bytes | None = None

    @classmethod
    def of(cls, cell: CellTrace) -> TraceReading:
        device = cell.device
        return cls(
            device=device.device,
            steps=len(device.steps),
            step_ms=sum(step.step_ms for step in device.steps),
            parts_ms=sum(step.part_ms(part) for step in device.steps for part in PARTS),
            compute_ms=sum(step.compute_ms for step in device.steps),
            busy_ms=device.busy_ms,
            kernels=device.kernels,
            wall_ms=cell.profiled_step_ms * len(device.steps),
            profiled_step_ms=cell.profiled_step_ms,
            unprofiled_step_ms=cell.unprofiled_step_ms,
            h2d_bytes=device.h2d_bytes,
            d2h_bytes=device.d2h_bytes,
        )


class Memory(Frozen):
    """Rise of the memory peak by an allocation of ``known_bytes``."""

    known_bytes: Annotated[int, Field(gt=0)]
    rise_bytes: int


class Clusters(Frozen):
    """Runs of compiled programs, and of single operations, in ``steps`` traced steps of execution=xla."""

    steps: Annotated[int, Field(ge=1)]
    clusters: Annotated[int, Field(ge=0)]
    operations: Annotated[int, Field(ge=0)]


class Equal(Frozen):
    """A sweep of the target against itself: its claims, and the smallest difference it would have shown.

    ``difference`` 0.05 is 5 % (None: no interval).
    """

    elapsed_s: Some
    starts: Annotated[int, Field(ge=1)]
    rounds: Annotated[int, Field(ge=1)]
    claims: Lines
    difference: Some | None


class Readings(Frozen):
    """Readings of a self-check; None or empty if ``missing`` has the reason.

    ``lost`` is the reason a worker did not start or ended by itself, ``misplaced`` the place where the step ran
    instead, ``card`` the GPU's activity during the computations of ``factor``, ``xla_trace`` the step compiled by XLA
    on a GPU.
    """

    startup_s: Some | None = None
    lost: Words | None = None
    misplaced: Words | None = None
    cell: CellReading | None = None
    loops: Loops | None = None
    factor: Factor | None = None
    card: CardUse | None = None
    traces: Annotated[tuple[TraceReading, ...], Field(max_length=MAX_REPEATS)] = ()
    host_trace: TraceReading | None = None
    memory: Memory | None = None
    clusters: Clusters | None = None
    xla_trace: TraceReading | None = None
    recurrent: Lines | None = None
    equal: Equal | None = None
    disturbances: Annotated[tuple[Disturbance, ...], Field(max_length=MAX_SAMPLES)] = ()
    missing: dict[Part, Words] = Field(default_factory=dict)


class SelfCheck(Record):
    """A self-check of one target; :mod:`core.studies.selfcheck.checks` derives the results each time.

    ``notes`` are facts known about the target's GPU before anything started on it. ``host`` is a host study without its
    machine, which is in this record, and without the names of other programs.
    """

    noun: ClassVar[str] = "self-check"

    target: Target
    status: Ended = "finished"
    created_at: Words = ""
    elapsed_s: Some = 0.0
    breakeven: Words = ""
    machine: MachineFacts = MachineFacts()
    notes: Lines = ()
    readings: Readings = Readings()
    host: HostStudy | None = None


UNSAID = "…"
LEAST_CHARS = 4  # a shorter name is part of too many sentences, and identifies nobody
NO_SECRETS = frozenset(
    {"root", "user", "admin", "administrator", "daemon", "nobody", "guest", "home", "ubuntu", "debian", "localhost"}
)
"""Default account and host names of systems."""
_IN_A_NAME = r"[^\s/\\,;:“”\"'()<>]"
_PATH = re.compile(rf"(?<![\w.])(?:file://)?(?:~|[A-Za-z]:)?[/\\](?:{_IN_A_NAME}*[/\\])*{_IN_A_NAME}*")
"""Absolute paths only: a slash elsewhere may belong to an operation's name, or a fraction."""
_UUID = re.compile(r"\b(?:GPU-|MIG-)?[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", re.IGNORECASE)


def anonymous(text: str) -> str:
    """Return the text without paths, UUIDs and the names of this host and user."""
    for name in sorted(_names(), key=len, reverse=True):
        text = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", UNSAID, text, flags=re.IGNORECASE)
    return _UUID.sub(UNSAID, _PATH.sub(UNSAID, text))


def _names() -> set[str]:
    host = _known(platform.node)
    private = {host, host.partition(".")[0], _known(getpass.getuser), _known(lambda: Path.home().name)}
    return {name for name in private if len(name) >= LEAST_CHARS and name.lower() not in NO_SECRETS}


def _known(ask: Callable[[], str]) -> str:
    try:
        return ask()
    except (OSError, KeyError, ImportError, RuntimeError):  # a user without an entry or a home
        return ""
