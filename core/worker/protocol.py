"""Protocol between the supervisor and its workers, and the interface of a worker.

The wire format is one JSON object per line: requests on the worker's stdin, replies on its stdout, log on stderr. A
worker answers every request with exactly one reply, of the request's ``kind`` or ``failed``, and ends by itself when
stdin closes. The first request is ``hello``. Times inside replies come from the worker's own monotonic clock.

A request is defined in three places: its class here, its member of :data:`AnyRequest`, and the method of the
framework's engine that its ``kind`` names.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, ClassVar, Generic, Literal, Protocol, TypeVar

from pydantic import Field, TypeAdapter

from core.base.evidence import CellSetup, CpuMs, LoopTimes, Outcome, PositiveMs, ServedPart, Setup, Started, WakeMs
from core.base.schema import Frozen, UserError
from core.machine.cgroup import Killed
from core.networks.families.code import Code
from core.traces.program import Program
from core.traces.record import CellTrace, TracedCell
from core.workload.spec import Pipeline, Precision, Target, Workload

PROTOCOL_VERSION: Literal[2] = 2
MAX_LINE_BYTES = 1 << 20
"""Maximum size of a request or reply."""

MAX_TRACED_STEPS = 200
"""Maximum for one trace, whose reply holds the parts of each step."""

LOOP_PAIRS, STEPS_A_PAIR = 9, 7
"""Minimum number of pairs of :class:`TimeLoop`, and the steps of a pair in units of its short call.

The second smallest and largest of nine pairs bound their median with 96 % confidence. A pair is that call, one of three
times as many steps, a block to warm up, and a block of twice as many.
"""

ECHOED = ("kind", "batch", "steps", "slot", "draws", "look")
"""Fields that a reply repeats of its request, where both have them."""

R = TypeVar("R", bound=Frozen)
Way = Literal["predict", "single_call", "first_epoch"]
"""Misleading ways of timing."""
Look = Literal["loops", "factor", "memory", "clusters"]
"""Checks that a self-check asks of a worker (:mod:`core.worker.tensorflow.selfcheck`)."""


class Ready(Started):
    """Reply to ``hello``; ``memory_bytes`` is the resident memory with the framework started and no cell built."""

    kind: Literal["hello"] = "hello"
    memory_bytes: int | None = None

    @property
    def on_gpu(self) -> bool:
        return self.device.lower().startswith("gpu")


class Prepared(CellSetup):
    kind: Literal["prepare"] = "prepare"
    slot: int = 0

    def to_setup(self, target: int, process: int) -> Setup:
        return Setup(target=target, process=process, **self.model_dump(exclude={"kind", "slot"}))


class BlockDone(Frozen):
    """Reply to ``block``; ``wake_ms`` and ``cpu_ms`` as in :class:`core.base.evidence.Block`."""

    kind: Literal["block"] = "block"
    batch: int
    steps: int
    block_ms: PositiveMs
    slot: int = 0
    wake_ms: WakeMs = None
    cpu_ms: CpuMs = None


class Traced(CellTrace):
    kind: Literal["trace"] = "trace"
    slot: int = 0

    def to_cell(self, target: int) -> TracedCell:
        return TracedCell(target=target, **self.model_dump(exclude={"kind", "slot"}))


class LoopTimed(LoopTimes):
    kind: Literal["loop"] = "loop"
    slot: int = 0

    def to_times(self) -> LoopTimes:
        return LoopTimes(**self.model_dump(exclude={"kind", "slot"}))


class Released(Frozen):
    kind: Literal["release"] = "release"
    batch: int
    slot: int = 0


class Described(Frozen):
    """A model as its author's code builds it. ``layers`` hold the fields of families' ``LayerCount``."""

    kind: Literal["describe"] = "describe"
    name: str
    input_shape: tuple[int, ...]
    vocabulary: int | None = None
    classes: int
    label_shape: tuple[int, ...] = ()
    from_logits: bool = True
    layers: tuple[dict[str, int | str], ...]

    def network(self, entry: str, folder: str, framework: str = "tensorflow") -> Code:
        """Return the network of the code. Raises pydantic's ValidationError if the model is beyond the limits."""
        facts = {
            "entry": entry,
            "folder": folder,
            "sample_shape": self.input_shape,
            "tokens": self.vocabulary,
            "outputs": self.classes,
            "positions": self.label_shape,
            "logits": self.from_logits,
            "counts": self.layers,
            "returns": "pytorch" if framework == "pytorch" else "keras",
        }
        return Code.model_validate(facts)


class TrainingOpened(Frozen):
    """Reply to ``open_training``: number of training ``samples`` (None: every batch is new) and untrained ``loss``."""

    kind: Literal["open_training"] = "open_training"
    samples: int | None
    loss: float


class Trained(Frozen):
    """Reply to ``train``; ``step`` counts from the start of training."""

    kind: Literal["train"] = "train"
    step: int
    loss: float


class GradientsSampled(Frozen):
    """Reply to ``sample_gradients``.

    ``norms2`` has two values per draw: the mean of |G|² over its small batches, and |G|² of their mean, the big
    batch's.
    """

    kind: Literal["sample_gradients"] = "sample_gradients"
    norms2: tuple[tuple[float, float], ...]

    @property
    def draws(self) -> int:
        return len(self.norms2)


class PitfallTimed(Frozen):
    """Step times by method (:data:`core.studies.pitfalls.METHODS`)."""

    kind: Literal["pitfall"] = "pitfall"
    steps_ms: dict[str, PositiveMs]


class Examined(Frozen):
    """Milliseconds by name, one per repetition, and whole numbers by name."""

    kind: Literal["examine"] = "examine"
    look: Look
    ms: dict[str, tuple[Annotated[float, Field(ge=0)], ...]] = Field(default_factory=dict)
    counts: dict[str, int] = Field(default_factory=dict)


class Served(Frozen):
    """Reply to ``serve``: the parts of the visit, and what its batcher did in all of it.

    ``overrun``: more requests waited than allowed, which ended it. ``late_ms`` is the batcher's own delay: the promised
    percentile of the time by which a batch began after it could have.
    """

    kind: Literal["serve"] = "serve"
    parts: tuple[ServedPart, ...]
    overrun: bool
    batches: int
    served: int
    late_ms: Annotated[float, Field(ge=0)]


class StepCompiled(Program):
    """Reply to ``compile``; ``compile_ms`` is XLA's time alone."""

    kind: Literal["compile"] = "compile"
    batch: int
    compile_ms: PositiveMs

    def to_program(self) -> Program:
        return Program(**self.model_dump(exclude={"kind", "batch", "compile_ms"}))


class Failed(Frozen):
    """Reply to a failed request; the worker lives on unless it is ``lost``. ``outcome`` becomes the cell's."""

    kind: Literal["failed"] = "failed"
    outcome: Outcome
    reason: str
    lost: bool = False


class Request(Frozen, Generic[R]):
    """A request to a worker, answered by an ``R``. ``doing`` describes it in a sentence about its failure."""

    doing: ClassVar[str]

    def is_answered_by(self, reply: Frozen) -> bool:
        shared = [name for name in ECHOED if hasattr(self, name) and hasattr(reply, name)]
        return all(getattr(self, name) == getattr(reply, name) for name in shared)


class Hello(Request[Ready]):
    """Start the framework on ``target`` and report the device.

    With ``watch_memory`` the worker ends itself as soon as its resident memory exceeds the limit. Only with
    ``allow_code`` does it import the code that a network names; only the user's own ``--model`` sets that.
    """

    doing: ClassVar[str] = "starting"
    kind: Literal["hello"] = "hello"
    protocol: Literal[2] = PROTOCOL_VERSION
    target: Target
    memory_limit_bytes: int | None = None
    watch_memory: bool = False
    allow_code: bool = False


class Prepare(Request[Prepared]):
    """Build, trace, verify placement, warm up and calibrate one cell.

    ``block_ms`` is the minimum duration of a block, None for the device's default (docs/design.md, Blocks);
    ``warmup_ms`` caps the warm-up. ``latency_samples`` single steps are timed in a row, ``paused_samples`` after a
    pause each. ``steps_per_block`` is given if the cell was calibrated in an earlier process, so that blocks stay
    alike. ``slot`` distinguishes cells of the same batch. ``variant`` replaces the worker's target if a cell differs in
    something that is not fixed per process (execution, steps_per_execution, call, precision except TF32): both must
    have the same :attr:`core.workload.spec.Target.host`.
    """

    doing: ClassVar[str] = "preparing batch {batch}"
    kind: Literal["prepare"] = "prepare"
    workload: Workload
    pipeline: Pipeline
    batch: int
    slot: int = 0
    variant: Target | None = None
    block_ms: float | None = None
    warmup_ms: float = 2000.0
    latency_samples: int = 9
    paused_samples: int = 0
    steps_per_block: int | None = None


class RunBlock(Request[BlockDone]):
    """Run one block of a prepared cell.

    ``wake_cores``: the turns of others leave cores idle that its steps use, so these run untimed first until they are
    awake.
    """

    doing: ClassVar[str] = "measuring batch {batch}"
    kind: Literal["block"] = "block"
    batch: int
    steps: int
    slot: int = 0
    wake_cores: bool = False


class TraceSteps(Request[Traced]):
    """Run ``steps`` steps of a prepared cell under the profiler, and as many without."""

    doing: ClassVar[str] = "tracing batch {batch}"
    kind: Literal["trace"] = "trace"
    batch: int
    steps: Annotated[int, Field(ge=1, le=MAX_TRACED_STEPS)]
    slot: int = 0


class TimeLoop(Request[LoopTimed]):
    """Run a prepared cell's step in Keras's own loop (``fit`` or ``predict``) and in our blocks, alternating.

    Runs as many pairs as ``limit_ms`` allows, and at least :data:`LOOP_PAIRS`.
    """

    doing: ClassVar[str] = "timing Keras's own loop at batch {batch}"
    kind: Literal["loop"] = "loop"
    batch: int
    limit_ms: float
    slot: int = 0


class Release(Request[Released]):
    """Forget a prepared cell and free its memory."""

    doing: ClassVar[str] = "releasing batch {batch}"
    kind: Literal["release"] = "release"
    batch: int
    slot: int = 0


class Describe(Request[Described]):
    """Build and describe the model that ``entry`` (package.module:function, looked up in ``folder`` first) returns.

    It fails if that imported a module from ``apart_from``, another checkout of the same code.
    """

    doing: ClassVar[str] = "building the model of {entry}"
    kind: Literal["describe"] = "describe"
    entry: str
    folder: str
    apart_from: str | None = None


class OpenTraining(Request[TrainingOpened]):
    """Build a network and its task for real training.

    The task's labels come from a teacher network, or with ``data`` from the user's files. ``batch`` is the batch size
    of :class:`Train`.
    """

    doing: ClassVar[str] = "setting the training up"
    kind: Literal["open_training"] = "open_training"
    workload: Workload
    batch: int
    learning_rate: float
    data: str | None = None
    seed: int = 0


class Train(Request[Trained]):
    """Train for ``steps`` more steps, then compute the loss on held-out samples."""

    doing: ClassVar[str] = "training for {steps} steps"
    kind: Literal["train"] = "train"
    steps: int


class SampleGradients(Request[GradientsSampled]):
    """Repeat ``draws`` times: the gradients of ``parts`` batches of ``small`` samples each; the weights stay."""

    doing: ClassVar[str] = "taking {draws} draws of gradients"
    kind: Literal["sample_gradients"] = "sample_gradients"
    small: int
    parts: int
    draws: int


class TimePitfall(Request[PitfallTimed]):
    """Time a workload in one of the misleading ways (:mod:`core.studies.pitfalls`)."""

    doing: ClassVar[str] = "timing the pitfalls"
    kind: Literal["pitfall"] = "pitfall"
    workload: Workload
    batch: int
    way: Way


class Examine(Request[Examined]):
    """Check a basis of the numbers (:mod:`core.studies.selfcheck`); ``loops`` and ``clusters`` need a prepared cell."""

    doing: ClassVar[str] = "checking {look}"
    kind: Literal["examine"] = "examine"
    look: Look
    batch: int = 1
    slot: int = 0
    steps: int = 1


class Serve(Request[Served]):
    """Serve requests that come at ``rate_per_s`` on prepared cells, in parts of ``part_s`` after one that is left out.

    There is a cell for each of ``sizes``, rising, in the slots of all ``instances``. The times of requests are drawn
    from ``seed``. More than ``most_waiting`` requests in the queue end the visit.
    """

    doing: ClassVar[str] = "serving {rate_per_s:.0f} requests per second"
    kind: Literal["serve"] = "serve"
    rate_per_s: Annotated[float, Field(gt=0)]
    sizes: Annotated[tuple[int, ...], Field(min_length=1)]
    max_delay_ms: float = 0.0
    instances: Annotated[int, Field(ge=1)] = 1
    burstiness: float = 1.0
    limit_ms: float
    level: float
    part_s: float
    parts: int
    most_waiting: int
    seed: int

    @property
    def max_batch(self) -> int:
        return self.sizes[-1]


class Compile(Request[StepCompiled]):
    """Compile one step for a GPU that is not here, which ``chip`` describes in XLA's own terms (target_config)."""

    doing: ClassVar[str] = "compiling batch {batch}"
    kind: Literal["compile"] = "compile"
    workload: Workload
    precision: Precision
    batch: int
    chip: Annotated[str, Field(max_length=4_000)]


AnyRequest = (
    Hello | Prepare | RunBlock | TraceSteps | TimeLoop | Release | Describe | OpenTraining | Train | SampleGradients
    | TimePitfall | Examine | Serve | Compile
)  # fmt: skip
AnyReply = (
    Ready | Prepared | BlockDone | Traced | LoopTimed | Released | Described | TrainingOpened | Trained
    | GradientsSampled | PitfallTimed | Examined | Served | StepCompiled | Failed
)  # fmt: skip
REQUEST: TypeAdapter[AnyRequest] = TypeAdapter(Annotated[AnyRequest, Field(discriminator="kind")])
REPLY: TypeAdapter[AnyReply] = TypeAdapter(Annotated[AnyReply, Field(discriminator="kind")])


class WorkerError(UserError):
    """A worker could not do what it was asked; ``outcome`` and the message become the cell's.

    ``killed`` is set after a SIGKILL that did not come from this program.
    """

    def __init__(self, outcome: Outcome, reason: str, killed: Killed | None = None) -> None:
        super().__init__(reason)
        self.outcome = outcome
        self.reason = reason
        self.killed = killed


class CellFailed(WorkerError):
    """The cell failed (out of memory, NaN loss, misplaced, error); the worker is still usable."""


class WorkerLost(WorkerError):
    """The process is gone or was stopped (crashed, hung, out of memory, a broken GPU); a new one must be started."""


class Worker(Protocol):
    """One running worker, real or simulated."""

    ready: Ready

    def ask(self, request: Request[R], deadline_s: float) -> R:
        """Return the reply to a request. Raises :class:`CellFailed` or :class:`WorkerLost`."""

    def cpu_time_s(self) -> float:
        """Return the CPU seconds used so far by the worker process, to separate other load from our own work."""

    def close(self) -> None:
        """End the process and wait for it; safe to call twice and after a loss."""


Check = Callable[[], None]
"""Called during a wait; ends it by raising."""


def go_on() -> None:
    """Do nothing: the check of a wait that nothing cuts short."""


class Launcher(Protocol):
    """Starts one worker process per target, side by side, and waits until all are ready.

    ``check`` is called at intervals during every wait, here and in every :meth:`Worker.ask`; what it raises ends the
    wait and the worker waited for. Raises that, :class:`WorkerLost` or :class:`CellFailed` (no such device); then no
    worker is left running.
    """

    def __call__(self, targets: tuple[Target, ...], deadline_s: float, check: Check = go_on) -> tuple[Worker, ...]: ...
