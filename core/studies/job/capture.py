"""What was seen of a script that ran once: raw durations by part and by phase, and the models, without any data.

Written by :mod:`core.worker.watch.script`, whose parts sum to the wall time. A capture may come from a file, so that
every field is bounded here. Everything derived from it is in :mod:`core.studies.job.breakdown`.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from core.base.schema import Frozen, UserError
from core.networks.architecture.strict_json import parse
from core.networks.families import Network
from core.networks.families.own import Own
from core.workload.spec import MAX_BATCH

MAX_TEXT, MAX_JSON, MAX_DURATIONS, MAX_EPOCHS, MAX_COUNT = 120, 4_000_000, 2_001, 10_000, 10**12
MAX_SECONDS = 10**8

Text = Annotated[str, Field(max_length=MAX_TEXT)]
Seconds = Annotated[float, Field(ge=0, le=MAX_SECONDS)]
Count = Annotated[int, Field(ge=0, le=MAX_COUNT)]
Size = Annotated[int, Field(ge=0, le=2**31)] | None
Shape = Annotated[tuple[Size, ...], Field(max_length=8)]
Part = Literal[
    "start", "import", "build", "own", "data", "compile", "steps", "input", "validation", "callbacks", "between",
    "epoch", "calls", "watch", "end", "loop",
]  # fmt: skip
"""Parts of a script's time. ``compile`` is derived: tracing and compiling, which happens inside steps. ``loop`` is time
inside ``fit`` that belongs to none of the others, and stays unexplained."""
Ended = Literal["finished", "stopped", "failed", "interrupted", "running"]
TRAINS = ("fit", "train_on_batch", "own loop")
"""Kinds of phases whose steps train, whatever else is known."""


class OwnCode(UserError):
    """The network is in the script alone: no configuration holds it that is read here."""


class Facts(Frozen):
    """What a call of Keras's was asked for. None: not known, or not of this kind."""

    epochs: Count = 0
    steps_per_epoch: Count | None = None
    steps_per_execution: Annotated[int, Field(ge=1, le=MAX_COUNT)] = 1
    batch_size: Count | None = None
    validates: bool = False
    validation_freq: Annotated[int, Field(ge=1, le=MAX_COUNT)] = 1
    class_weight: bool = False
    in_callbacks: bool = False
    feed: Text = ""
    stages: Annotated[tuple[Text, ...], Field(max_length=40)] = ()
    workers: Count | None = None


class Phase(Frozen):
    """Steps of one kind with one model, as in :class:`core.worker.watch.script.Phase`."""

    kind: Text
    model: Annotated[int, Field(ge=0, le=MAX_COUNT)] | None = None
    calls: Count = 0
    steps: Count = 0
    samples: Count = 0
    batch: Count | None = None
    seconds: Seconds = 0.0
    wait_s: Seconds = 0.0
    late_s: Seconds = 0.0
    durations_s: Annotated[tuple[Seconds, ...], Field(max_length=MAX_DURATIONS)] = ()
    stride: Annotated[int, Field(ge=1, le=MAX_COUNT)] = 1
    traced: Annotated[tuple[tuple[Seconds, Seconds], ...], Field(max_length=200)] = ()
    epochs: Annotated[tuple[tuple[Seconds, Count], ...], Field(max_length=MAX_EPOCHS)] = ()
    facts: Facts = Facts()
    lengths: Annotated[tuple[tuple[Count, Count], ...], Field(max_length=4_096)] = ()

    @property
    def batch_size(self) -> int | None:
        """The batch size as observed, else as asked for."""
        return self.batch or self.facts.batch_size or None


class Model(Frozen):
    """A model of the script: its architecture if it is made of Keras's own layers, and how it was compiled."""

    kind: Text = ""
    name: Text = ""
    plain: bool = False
    own_steps: Annotated[tuple[Text, ...], Field(max_length=3)] = ()
    precision: Text = "float32"
    parameters: Count | None = None
    frozen: bool = False
    jit_compile: bool = False
    eager: bool = False
    loss: Text = ""
    optimizer: Text = ""
    momentum: bool = False
    inputs: Annotated[tuple[Shape, ...], Field(max_length=64)] | None = None
    outputs: Annotated[tuple[Shape, ...], Field(max_length=64)] | None = None
    called_with: Shape | None = None
    architecture: Annotated[str, Field(max_length=MAX_JSON)] | None = None
    why_not: Text = ""

    @property
    def shape(self) -> Shape | None:
        """The shape that the model was called on first, if its inputs alone do not tell every length."""
        known = self.inputs is not None and all(None not in shape[1:] for shape in self.inputs)
        return None if known else self.called_with

    @property
    def takes_any_length(self) -> bool:
        """True for one input whose first axis after the batch has no length."""
        return self.inputs is not None and len(self.inputs) == 1 and self.inputs[0][1:2] == (None,)

    def network(self, script: str, shape: Shape | None) -> Network:
        """Return the network of the model's configuration, named after the script, for inputs of that shape.

        Raises OwnCode.
        """
        if self.architecture is None:
            raise OwnCode(f"{self.kind or 'The model'} is code of your own, which its configuration does not hold.")
        try:
            return Own.from_file(_with_lengths(self.architecture, shape).encode(), script)
        except UserError as error:
            raise OwnCode(str(error)) from None


def _with_lengths(architecture: str, shape: Shape | None) -> str:
    """Return Keras's JSON with the lengths of one input that only its data told. Raises UserError for other text."""
    if shape is None:
        return architecture
    data = parse(architecture.encode())
    match data:
        case {"config": {"layers": [{"class_name": "InputLayer", "config": {"batch_shape": list() as known}}, *_]}}:
            if len(known) == len(shape):
                known[1:] = shape[1:]
    return json.dumps(data)


class Capture(Frozen):
    """One run of a script. ``script`` is the name of its file; its arguments are not kept, since they may be secret."""

    script: Text
    ended: Ended
    exit_status: int | None = None
    wall_s: Seconds
    seconds: dict[Part, Seconds]
    callbacks: Annotated[dict[Text, Seconds], Field(max_length=40)] = Field(default_factory=dict)
    imports: Annotated[dict[Text, Seconds], Field(max_length=20)] = Field(default_factory=dict)
    versions: Annotated[dict[Text, Text], Field(max_length=20)] = Field(default_factory=dict)
    optimizers: Annotated[dict[Text, bool], Field(max_length=20)] = Field(default_factory=dict)
    phases: Annotated[tuple[Phase, ...], Field(max_length=70)] = ()
    models: Annotated[tuple[Model, ...], Field(max_length=20)] = ()
    gpus: Count = 0

    @model_validator(mode="before")
    @classmethod
    def _keep_one_architecture(cls, data: Any) -> Any:
        """Keep the architecture of the main model alone, so that a record stays small."""
        if not isinstance(data, dict) or not isinstance(data.get("models"), list):
            return data
        keep = _main_model(data.get("phases"))
        models = [
            model if number == keep or not isinstance(model, dict) else {**model, "architecture": None}
            for number, model in enumerate(data["models"])
        ]
        return {**data, "models": models}

    @model_validator(mode="after")
    def _models_exist(self) -> Capture:
        if any(phase.model is not None and phase.model >= len(self.models) for phase in self.phases):
            raise ValueError("a phase names a model that is not there")
        return self


def _main_model(phases: Any) -> int | None:
    """Return the model with the most seconds in steps; the first if none has any."""
    seconds: dict[int, float] = {}
    for phase in phases if isinstance(phases, list) else []:
        if isinstance(phase, dict) and isinstance(phase.get("model"), int):
            weight = 1e6 if phase.get("kind") in TRAINS else 1.0
            seconds[phase["model"]] = seconds.get(phase["model"], 0.0) + weight * float(phase.get("seconds") or 0.0)
    return max(seconds, key=lambda number: seconds[number], default=0)


def fits(batch: int | None) -> bool:
    """Check that a batch size can be measured."""
    return batch is not None and 1 <= batch <= MAX_BATCH
