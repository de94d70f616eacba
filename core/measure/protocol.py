"""What the supervisor and a worker say to each other, and what a worker looks like to the supervisor.

The wire format is one JSON object a line: requests on the worker's stdin, replies on its stdout, log on stderr. A
worker answers every request with exactly one reply and ends by itself when stdin closes. The first request is
``hello``. Times inside replies come from the worker's own monotonic clock.
"""

from __future__ import annotations

from typing import Annotated, Literal, Protocol

from pydantic import Field, TypeAdapter

from core.results import Outcome, Setup
from core.spec import Frozen, Pipeline, Target, Workload
from core.traced import DeviceTrace, HostOp, TracedCell

PROTOCOL_VERSION: Literal[1] = 1
MEMORY_IS_SHORT = "memory is short"
"""A worker logs this before a cell that may not fit; if it dies then, it died of that."""


class Hello(Frozen):
    """Start the framework on ``target`` and say what it found. Answered by :class:`Ready`.

    With ``watch_memory`` the worker ends itself as soon as its resident memory passes the limit. Only with
    ``allow_code`` does it import the code that a network names; a person's own ``--model`` asks for that, nothing else.
    """

    kind: Literal["hello"] = "hello"
    protocol: Literal[1] = PROTOCOL_VERSION
    target: Target
    memory_limit_bytes: int | None = None
    watch_memory: bool = False
    allow_code: bool = False


class Prepare(Frozen):
    """Build, trace, verify placement, warm up and calibrate one cell. Answered by :class:`Prepared`.

    ``block_ms`` is how long a block must last at least (DESIGN §3.4); ``warmup_ms`` caps the warm-up.
    ``steps_per_block`` is given when the cell was calibrated in an earlier process, so that blocks stay alike.
    ``slot`` tells apart cells of the same batch. ``variant`` replaces the worker's target where a cell differs in what
    is no matter of the process (precision, execution, steps_per_execution); device and threads must be the worker's.
    """

    kind: Literal["prepare"] = "prepare"
    workload: Workload
    pipeline: Pipeline
    batch: int
    slot: int = 0
    variant: Target | None = None
    block_ms: float = 20.0
    warmup_ms: float = 2000.0
    latency_samples: int = 9
    steps_per_block: int | None = None


class RunBlock(Frozen):
    """Run one block of a prepared cell. Answered by :class:`BlockDone`."""

    kind: Literal["block"] = "block"
    batch: int
    steps: int
    slot: int = 0


class TraceSteps(Frozen):
    """Run ``steps`` steps of a prepared cell under the profiler, and as many without. Answered by :class:`Traced`."""

    kind: Literal["trace"] = "trace"
    batch: int
    steps: int
    slot: int = 0


class Release(Frozen):
    """Forget a prepared cell and free its memory. Answered by :class:`Released`."""

    kind: Literal["release"] = "release"
    batch: int
    slot: int = 0


class Describe(Frozen):
    """Build the model that ``entry`` (package.module:function, looked for in ``folder`` first) returns and say what it
    is. Answered by :class:`Described`.
    """

    kind: Literal["describe"] = "describe"
    entry: str
    folder: str


class OpenTraining(Frozen):
    """Build a network and its task for real training. Answered by :class:`TrainingOpened`.

    The task's labels come from a teacher network, or with ``data`` from the person's own files. ``batch`` is what
    :class:`Train` uses.
    """

    kind: Literal["open_training"] = "open_training"
    workload: Workload
    batch: int
    learning_rate: float
    data: str | None = None
    seed: int = 0


class Train(Frozen):
    """Train on for ``steps`` steps, then take the loss on held-out samples. Answered by :class:`Trained`."""

    kind: Literal["train"] = "train"
    steps: int


class SampleGradients(Frozen):
    """``draws`` times: the gradients of ``parts`` batches of ``small`` samples each, without changing the weights.
    Answered by :class:`GradientsSampled`.
    """

    kind: Literal["sample_gradients"] = "sample_gradients"
    small: int
    parts: int
    draws: int


class Ready(Frozen):
    """``memory_bytes`` is the process's resident memory with the framework started: what cells come on top of."""

    kind: Literal["ready"] = "ready"
    memory_bytes: int | None = None
    pid: int
    startup_ms: float
    device: str
    device_name: str = ""
    threads: int | None = None
    versions: dict[str, str] = Field(default_factory=dict)


class Prepared(Frozen):
    """As :class:`core.results.Setup`, whose target and process the supervisor adds."""

    kind: Literal["prepared"] = "prepared"
    batch: int
    slot: int = 0
    build_ms: float
    first_call_ms: float
    warmup_steps: int
    warmup_ms: float
    warmup_steady: bool
    steps_per_block: int
    latency_ms: tuple[float, ...] = ()
    memory_peak_bytes: int | None = None
    placement: tuple[str, ...] = ()
    host_ops: tuple[str, ...] = ()

    def to_setup(self, target: int, process: int) -> Setup:
        return Setup(target=target, process=process, **self.model_dump(exclude={"kind", "slot"}))


class BlockDone(Frozen):
    kind: Literal["block_done"] = "block_done"
    batch: int
    steps: int
    block_ms: float
    slot: int = 0


class Traced(Frozen):
    """As :class:`core.traced.TracedCell`, whose target the supervisor adds."""

    kind: Literal["traced"] = "traced"
    batch: int
    slot: int = 0
    device: DeviceTrace
    host_ops: tuple[HostOp, ...] = ()
    retraces: int = 0
    profiled_step_ms: float
    unprofiled_step_ms: float

    def to_cell(self, target: int) -> TracedCell:
        return TracedCell(target=target, **self.model_dump(exclude={"kind", "slot"}))


class Released(Frozen):
    kind: Literal["released"] = "released"
    batch: int
    slot: int = 0


class Described(Frozen):
    """A model as its author's code builds it. ``layers`` hold what :class:`core.families.LayerCount` has."""

    kind: Literal["described"] = "described"
    name: str
    input_shape: tuple[int, ...]
    vocabulary: int | None = None
    classes: int
    label_shape: tuple[int, ...] = ()
    from_logits: bool = True
    layers: tuple[dict[str, int | str], ...]


class TrainingOpened(Frozen):
    """``samples`` are what it trains on (None: drawn anew without end), ``loss`` that of the untrained network."""

    kind: Literal["training_opened"] = "training_opened"
    samples: int | None
    loss: float


class Trained(Frozen):
    """``step`` counts from the start of training."""

    kind: Literal["trained"] = "trained"
    step: int
    loss: float


class GradientsSampled(Frozen):
    """For each draw the mean of |G|² over its small batches, and |G|² of their mean, which is the big batch's."""

    kind: Literal["gradients_sampled"] = "gradients_sampled"
    small_norm2: tuple[float, ...]
    big_norm2: tuple[float, ...]


class Failed(Frozen):
    """A request failed; the worker lives on. ``outcome`` becomes the cell's."""

    kind: Literal["failed"] = "failed"
    outcome: Outcome
    reason: str


AnyRequest = Hello | Prepare | RunBlock | TraceSteps | Release | Describe | OpenTraining | Train | SampleGradients
AnyReply = (
    Ready | Prepared | BlockDone | Traced | Released | Described | TrainingOpened | Trained | GradientsSampled | Failed
)
REQUEST: TypeAdapter[AnyRequest] = TypeAdapter(Annotated[AnyRequest, Field(discriminator="kind")])
REPLY: TypeAdapter[AnyReply] = TypeAdapter(Annotated[AnyReply, Field(discriminator="kind")])


class WorkerError(Exception):
    """A worker could not do what it was asked; ``outcome`` and the message become the cell's."""

    def __init__(self, outcome: Outcome, reason: str) -> None:
        super().__init__(reason)
        self.outcome = outcome
        self.reason = reason


class CellFailed(WorkerError):
    """The cell failed (out of memory, NaN loss, misplaced, error); the worker is still usable."""


class WorkerLost(WorkerError):
    """The process is gone or was stopped (crashed, hung, out of memory); a new one must be started."""


class Worker(Protocol):
    """One running worker, real or simulated. Every call raises :class:`CellFailed` or :class:`WorkerLost`."""

    ready: Ready

    def prepare(self, request: Prepare, deadline_s: float) -> Prepared: ...

    def block(self, batch: int, steps: int, deadline_s: float, slot: int = 0) -> BlockDone: ...

    def trace(self, batch: int, steps: int, deadline_s: float) -> Traced: ...

    def release(self, batch: int, slot: int = 0) -> None: ...

    def cpu_time_s(self) -> float:
        """CPU seconds the worker process has used so far, so that noise can be told from our own work."""
        ...

    def close(self) -> None:
        """End the process and wait for it; safe to call twice and after a loss."""
        ...


class Launcher(Protocol):
    """Starts one worker process for each target, side by side, and waits until all are ready.

    Raises :class:`WorkerLost` or :class:`CellFailed` (no such device); none is left running then.
    """

    def __call__(self, targets: tuple[Target, ...], deadline_s: float) -> tuple[Worker, ...]: ...
