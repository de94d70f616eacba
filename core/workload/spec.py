"""Description of a measurement: workload, targets, pipeline and limits. Frozen, validated, hashable.

Nothing here imports a framework. The worker validates what it receives with the same classes, so that a plan that
passed a form, a file or the command line is checked once more where it runs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import PurePath
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import Field, SerializeAsAny, ValidationError, ValidationInfo, field_validator, model_validator

from core.base.fields import About
from core.base.frameworks import (
    FRAMEWORKS,
    Call,
    Execution,
    FrameworkName,
    Padding,
    Precision,
    check_combination,
    single_devices,
)
from core.base.numbers import counted
from core.base.schema import Frozen, UserError, explain
from core.networks.families import Network, network_from_dict, network_from_name
from core.workload.lengths import Lengths, bucket_ends, mix, refuse_lengths, written_lengths

MIN_BATCH, MAX_BATCH = 1, 65_536
MAX_BATCHES = 64
MIN_BUDGET_S, MAX_BUDGET_S = 2.0, 86_400.0
MAX_CROSSOVER_WIDTH = 4.0
MAX_THREADS = 1_024
MAX_PREPROCESS_US = 1_000_000.0
MAX_PARALLEL_CALLS = 256
MAX_STEPS_PER_EXECUTION = 1_024
MAX_PATH = 4_096
PLAN_SCHEMA: Literal[1] = 1

Mode = Literal["train", "infer"]
Optimizer = Literal["sgd", "momentum", "adam"]
PipelineKind = Literal["resident", "host", "tfdata"]
AUTOTUNE = "auto"
AS_ASKED = "as asked"
KERAS_ON_CPU = "as Keras chooses without a GPU"
KERAS_ON_SEVERAL = "as Keras chooses on several devices"
KERAS_XLA = "as Keras chooses by default"
KERAS_WITHOUT_XLA = "as Keras chooses for {layers}, which do not support XLA"
ONLY_WAY = "as {framework} runs by default"
CALLED_EAGERLY = "as model(x) itself runs"
"""Reasons for a target's execution mode, worded to follow “graph, …”."""
TARGET_OPTIONS = ("framework", "threads", "precision", "execution", "steps_per_execution", "call", "pad", "python")


def _is_empty(lengths: Lengths) -> bool:
    """Return True for a workload of one length; records leave it out, as those before there were several do."""
    return not lengths


def usual_mode(family: type[Network]) -> Mode:
    """Return the mode in which networks of a family are measured unless another is named."""
    return "train" if family.trains else "infer"


class Workload(Frozen):
    """The computation of one step. With ``lengths`` it is the mean of steps whose batches have these lengths."""

    network: SerializeAsAny[Network]
    mode: Annotated[Mode, Field(validate_default=True)] = None  # type: ignore[assignment]  # see usual_mode
    optimizer: Optimizer = "adam"
    lengths: Annotated[
        Annotated[Lengths, Field(exclude_if=_is_empty)],
        About(
            "Input lengths",
            "For networks on sequences: lengths of the batches, such as 20,60,200, or how often each occurs, as in "
            "20:5,60:3,200:1. The longest is the network's.",
            empty="one length, the network's",
        ),
    ] = ()

    @field_validator("network", mode="before")
    @classmethod
    def _network(cls, value: Any) -> Any:
        if isinstance(value, dict):
            return network_from_dict(value)
        return network_from_name(value) if isinstance(value, str) else value

    @field_validator("mode", mode="before")
    @classmethod
    def _usual_mode(cls, value: Any, info: ValidationInfo) -> Any:
        network = info.data.get("network")
        return value if value is not None or network is None else usual_mode(type(network))

    @model_validator(mode="after")
    def _takes_lengths(self) -> Self:
        if self.lengths:
            refuse_lengths(self.network, self.lengths)
        if self.training and not self.network.trains:
            raise ValueError(f"{self.network.name} is only run, not trained; choose inference")
        return self

    @property
    def training(self) -> bool:
        return self.mode == "train"

    @property
    def title(self) -> str:
        doing = f"training, {self.optimizer}" if self.training else "inference"
        lengths = f", lengths {written_lengths(self.lengths)}" if self.lengths else ""
        return f"{self.network.name} ({doing}{lengths})"

    @property
    def flops_per_sample(self) -> int:
        """Floating-point operations per sample, the mean of its lengths unpadded; a multiply-add counts 2."""
        if not self.lengths:
            return self.network.flops_per_sample(self.training)
        networks = [self.network.with_length(length) for length in mix(self.lengths)]
        return sum(each.flops_per_sample(self.training) for each in networks) // len(networks)


def _is_step(call: str) -> bool:
    """Return True for the default, which records leave out, as those before there was a choice do."""
    return call == "step"


def _is_none(padding: str) -> bool:
    """Return True for the default padding, which records leave out, too."""
    return padding == "none"


class Target(Frozen):
    """Device and options of a workload, as in ``cpu,threads=1`` or ``gpu:0,precision=mixed_float16,execution=xla``.

    A CPU target is the machine without its GPUs. ``gpu:0+1`` are two cards that run every step together, by
    TensorFlow's MirroredStrategy or Keras's DataParallel on JAX, which split each batch evenly among them; ``cpu:2``
    are two logical devices in one process, which share the CPU's threads: a way to try this out, and no faster. With
    ``execution`` ``keras`` the framework chooses: Keras on TensorFlow takes XLA on a GPU if every layer supports it,
    else a graph. ``float32_strict`` is float32 with TF32 switched off, which many GPUs use for float32 products.
    ``steps_per_execution`` is Keras's: the number of steps per call of the compiled function. With ``call`` an
    inference step is one whole call of the model, from a NumPy batch to a NumPy result: ``model.predict(x)``,
    ``model.predict_on_batch(x)``, ``model(x, training=False)`` or a ``tf.function`` of that with a fixed signature; for
    inputs of several lengths it has none, and ``relaxed`` is one with ``reduce_retracing=True``. ``pad`` pads them: to
    the longest, or to the longest of their bucket.
    ``python`` is the interpreter of the worker process, for a framework installed in its own environment; None: the
    variable BREAKEVEN_PYTHON_<FRAMEWORK>, else this program's own.
    """

    device: str = "cpu"
    threads: Annotated[int, Field(ge=1, le=MAX_THREADS)] | None = None
    precision: Precision = "float32"
    execution: Execution = "keras"
    steps_per_execution: Annotated[int, Field(ge=1, le=MAX_STEPS_PER_EXECUTION)] = 1
    framework: FrameworkName = "tensorflow"
    call: Annotated[Call, Field(exclude_if=_is_step)] = "step"
    pad: Annotated[Padding, Field(exclude_if=_is_none)] = "none"
    python: Annotated[str, Field(min_length=1, max_length=MAX_PATH)] | None = None

    @field_validator("device")
    @classmethod
    def _device(cls, value: str) -> str:
        value = f"{value}:0" if value in ("gpu", "tpu") else value
        single_devices(value)
        return value

    @field_validator("python")
    @classmethod
    def _python(cls, value: str | None) -> str | None:
        if value is not None and ("," in value or not value.isprintable() or not PurePath(value).is_absolute()):
            raise ValueError("python must be the whole path of an interpreter, such as /opt/jax/bin/python")
        return value

    @model_validator(mode="after")
    def _options_go_together(self) -> Self:
        check_combination(self.framework, self.device, self.execution, self.precision)
        if self.threads is not None and not self.on_cpu:
            raise ValueError("threads can be chosen for cpu targets only")
        if self.steps_per_execution > 1 and self.framework != "tensorflow":
            raise ValueError("steps_per_execution is for framework=tensorflow; elsewhere it saves nothing")
        if self.steps_per_execution > 1 and self.replicas > 1:
            raise ValueError(f"steps_per_execution is for one device; leave it out for {self.device}")
        if self.execution == "eager" and self.steps_per_execution > 1:
            raise ValueError("steps_per_execution needs keras, graph or xla; eager runs one step per call")
        if self.execution == "reduce-overhead" and not self.is_gpu:
            raise ValueError("reduce-overhead replays CUDA graphs, so it is for gpu targets; choose compile")
        if self.precision == "float32_strict" and not self.is_gpu:
            raise ValueError("float32_strict is for gpu targets; a CPU has no TF32 to switch off, so choose float32")
        if self.call != "step":
            self._refuse_with_call()
        return self

    def _refuse_with_call(self) -> None:
        """Raise ValueError for options that do not go together with a call of the model."""
        if self.framework != "tensorflow":
            raise ValueError(f"call={self.call} is for framework=tensorflow; leave call out for {self.framework}")
        if self.replicas > 1:
            raise ValueError(f"call={self.call} is for one device; leave call out for {self.device}")
        if self.steps_per_execution > 1:
            raise ValueError(f"call={self.call} is one step per call; leave steps_per_execution out")
        if self.call == "model" and self.execution not in ("keras", "eager"):
            raise ValueError(f"call=model runs eagerly; leave execution={self.execution} out, or choose call=function")
        if self.call in ("function", "relaxed") and self.execution == "eager":
            raise ValueError(f"call={self.call} is compiled; leave execution=eager out, or choose call=model")

    @property
    def on_cpu(self) -> bool:
        return self.device.partition(":")[0] == "cpu"

    @property
    def is_gpu(self) -> bool:
        return self.device.startswith("gpu:")

    @property
    def cores(self) -> float:
        """Number of cores that its steps may use: one beside an accelerator, infinite without a limit."""
        return (self.threads or math.inf) if self.on_cpu else 1

    @property
    def devices(self) -> tuple[str, ...]:
        """Its single devices, each a valid ``device``: ``gpu:0`` and ``gpu:1``, or ``cpu`` twice for ``cpu:2``."""
        return single_devices(self.device)

    @property
    def replicas(self) -> int:
        """Number of devices that share every batch."""
        return len(self.devices)

    @property
    def gpus(self) -> tuple[int, ...]:
        """Indices of its GPUs in the framework's numbering; empty for any other device."""
        return tuple(int(device.removeprefix("gpu:")) for device in self.devices) if self.is_gpu else ()

    @property
    def is_mixed(self) -> bool:
        """True if it computes in 16 bits."""
        return self.precision.startswith("mixed_")

    @property
    def host(self) -> Target:
        """Target whose worker process can also serve this one; TF32 is switched for a whole process."""
        strict: Precision = "float32_strict" if self.precision == "float32_strict" else "float32"
        place = {"device": self.device, "threads": self.threads, "framework": self.framework, "python": self.python}
        return Target(precision=strict, **place)

    def __str__(self) -> str:
        options = [(name, getattr(self, name)) for name in TARGET_OPTIONS]
        parts = [f"{name}={value}" for name, value in options if value != type(self).model_fields[name].default]
        return ",".join([self.device, *parts])

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the target written in ``text``. Raises UserError."""
        device, *options = (part.strip() for part in text.strip().split(","))
        values: dict[str, Any] = {"device": device.lower()}
        for option in options:
            name, equals, value = option.partition("=")
            name = name.lower()
            if not equals or name not in TARGET_OPTIONS or name in values:
                raise UserError(
                    f"Target “{text}”: “{option}” is not understood; accepted are framework={', '.join(FRAMEWORKS)}, "
                    "threads=N, precision=float32, float32_strict, mixed_float16, mixed_bfloat16 or int8, "
                    "execution=keras, graph, xla, eager, compile or reduce-overhead, steps_per_execution=N, "
                    f"call={', '.join(get_args(Call)[1:])}, pad={' or '.join(get_args(Padding)[1:])}, python=/path, "
                    "each once."
                )
            values[name] = value if name == "python" else value.lower()
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            raise UserError(f"Target “{text}”: {explain(error)}") from None


def refuse_mode(workload: Workload, target: Target, pipeline: Pipeline | None = None) -> None:
    """Raise ValueError if the target cannot compute the workload's kind of step, or takes no batch from the pipeline.

    Without a ``pipeline`` only the kind of step is judged.
    """
    returned, native = getattr(workload.network, "returns", None), target.framework == "pytorch"
    if native and returned != "pytorch":
        raise ValueError(
            "framework=pytorch measures code of your own that returns a module of PyTorch, named with --model "
            "package.module:function; framework=torch runs this network through Keras on PyTorch"
        )
    if returned == "pytorch" and not native:
        raise ValueError(
            f"{workload.network.name} returns a module of PyTorch, which only framework=pytorch runs; say so for "
            f"target “{target}”"
        )
    if workload.training and not FRAMEWORKS[target.framework].trains:
        raise ValueError(f"{FRAMEWORKS[target.framework].title} does not train; choose inference")
    if workload.network.caches and (not FRAMEWORKS[target.framework].through_keras or target.precision != "float32"):
        raise ValueError("a decode step's cache is float32 and runs through Keras; choose such a target, or prefill")
    if workload.training and target.precision == "int8":
        raise ValueError("int8 is for inference; training needs float32 or mixed precision")
    if workload.training and target.call != "step":
        raise ValueError(f"call={target.call} is for inference; choose inference, or leave call out")
    if pipeline is not None and pipeline.kind != "host" and target.call != "step":
        raise ValueError(f"call={target.call} takes NumPy batches; choose the host pipeline, or leave call out")
    _refuse_padding(workload, target, pipeline)


def _refuse_padding(workload: Workload, target: Target, pipeline: Pipeline | None) -> None:
    """Raise ValueError if the target cannot take inputs of the workload's lengths."""
    if not workload.lengths:
        if target.pad != "none":
            raise ValueError(f"pad={target.pad} is for inputs of several lengths; name them with --lengths")
        if target.call == "relaxed":
            raise ValueError("call=relaxed is for inputs of several lengths; choose call=function, or name --lengths")
        return
    if not FRAMEWORKS[target.framework].through_keras or target.precision == "int8" or target.replicas > 1:
        raise ValueError(f"inputs of several lengths run through Keras, on one device, not in int8; {target} does not")
    if target.steps_per_execution > 1:
        raise ValueError("inputs of several lengths run one step per call; leave steps_per_execution out")
    if pipeline is not None and pipeline.kind != "host":
        raise ValueError("inputs of several lengths are handed over as NumPy batches; choose the host pipeline")
    if target.pad == "buckets" and len(bucket_ends(workload.lengths)) == len(workload.lengths):
        raise ValueError(f"{len(workload.lengths)} lengths need no buckets; leave pad=buckets out")


def steps_per_call(workload: Workload, target: Target) -> int:
    """Return the steps of one call of the compiled function, or of one pass through inputs of several lengths."""
    return len(mix(workload.lengths)) if workload.lengths else target.steps_per_execution


def refuse_batch(batch: int, target: Target) -> None:
    """Raise ValueError if a batch does not divide evenly among the target's devices."""
    if batch % target.replicas:
        raise ValueError(
            f"{counted(batch, 'sample')} cannot be shared out evenly among the {target.replicas} devices of "
            f"{target.device}; choose a batch size that is a multiple of {target.replicas}"
        )


def refuse_several(target: Target, what: str) -> None:
    """Raise ValueError for a target of several devices if ``what`` is done on one at a time."""
    if target.replicas > 1:
        raise ValueError(f"{what} on one device at a time; choose {target.devices[0]} in place of {target.device}")


def refuse_call(target: Target, what: str) -> None:
    """Raise ValueError for a target that calls the model if ``what`` is done with Keras's own steps."""
    if target.call != "step":
        raise ValueError(f"{what} with Keras's own steps; leave call={target.call} out")


def refuse_lengths_of(workload: Workload, what: str) -> None:
    """Raise ValueError for inputs of several lengths if ``what`` is done with one."""
    if workload.lengths:
        raise ValueError(f"{what} with inputs of one length; leave the lengths out")


class Pipeline(Frozen):
    """Path by which a batch reaches the step.

    ``resident``: the batch lives on the device. ``host``: a NumPy array is handed over in every step. ``tfdata``: a
    ``tf.data`` input pipeline; the remaining fields describe it and must keep their defaults otherwise. ``prefetch`` is
    0 (off), a number of batches, or "auto". ``preprocess_us`` is real work per sample in the map function. With
    ``preprocess_python`` that work is Python code, one sample after the other, as with a wrapped function. ``data`` is
    a path on this machine (an .npy or .npz file, TFRecord files, a folder of images), read by ``tf.data`` in the
    worker; without it samples are random.
    """

    kind: PipelineKind = "resident"
    prefetch: Annotated[
        Annotated[int, Field(ge=0, le=64)] | Literal["auto"],
        About("Prefetch", "Batches that a tf.data pipeline prepares in advance: off, a number of batches, or auto."),
    ] = 0
    parallel_calls: Annotated[
        Annotated[int, Field(ge=1, le=MAX_PARALLEL_CALLS)] | Literal["auto"] | None,
        About(
            "Parallel map calls",
            "Calls of a tf.data pipeline's map at the same time: a number, or auto.",
            empty="one after another",
        ),
    ] = None
    cache: Annotated[bool, About("Cache", "A tf.data pipeline caches the samples.")] = False
    shuffle: Annotated[bool, About("Shuffle", "A tf.data pipeline shuffles the samples.")] = False
    preprocess_us: Annotated[
        float,
        Field(ge=0, le=MAX_PREPROCESS_US),
        About(
            "Preprocessing",
            "Real work of a tf.data pipeline's map on every sample, on top of reading your data. Costs under about "
            "30 µs cannot be set; they become about 30 µs.",
            unit="µs per sample",
            step=10.0,
        ),
    ] = 0.0
    preprocess_python: Annotated[
        bool,
        About(
            "Preprocessing in Python",
            "That work is Python code wrapped for the map, as many pipelines have it: it holds Python's lock, so that "
            "parallel calls do not help.",
        ),
    ] = False
    data: Annotated[
        Annotated[str, Field(min_length=1, max_length=MAX_PATH)] | None,
        About(
            "Your own data",
            "A path on this machine: an .npy or .npz file, TFRecord files, or a folder of PNG or JPEG images. Read by "
            "a tf.data pipeline, with its own readers.",
            empty="random samples of the network's input shape",
        ),
    ] = None

    @field_validator("data")
    @classmethod
    def _local(cls, value: str | None) -> str | None:
        if value is not None and ("://" in value or not value.isprintable()):
            raise ValueError("data must be a path on this machine, such as /data/train.npz")
        return value

    @model_validator(mode="after")
    def _options_need_tfdata(self) -> Self:
        default = {name: field.default for name, field in type(self).model_fields.items()}
        changed = [name for name in default if name != "kind" and getattr(self, name) != default[name]]
        if self.kind != "tfdata" and changed:
            raise ValueError(f"{', '.join(changed)} can be chosen with the tfdata pipeline only")
        return self

    @property
    def title(self) -> str:
        if self.kind == "resident":
            return "data resident on the device"
        if self.kind == "host":
            return "host array fed each step"
        parts = [f"prefetch {self.prefetch if self.prefetch else 'off'}"]
        if self.parallel_calls is not None:
            parts.append(f"{self.parallel_calls} parallel calls")
        parts += [name for name in ("cache", "shuffle") if getattr(self, name)]
        if self.preprocess_us:
            how = " in Python" if self.preprocess_python else ""
            parts.append(f"{self.preprocess_us:g} µs per sample preprocessing{how}")
        if self.data is not None:
            parts.append(f"own data ({PurePath(self.data).name})")
        return "tf.data, " + ", ".join(parts)


Batch = Annotated[int, Field(ge=MIN_BATCH, le=MAX_BATCH)]
Budget = Annotated[float, Field(ge=MIN_BUDGET_S, le=MAX_BUDGET_S)]
"""In seconds; described by :func:`seconds`."""


def usual_pipeline(known: Mapping[str, Any]) -> Pipeline:
    """Return the feed of a plan, of which ``known`` is valid, that names none: resident wherever that is possible."""
    workload, targets = known.get("workload"), known.get("targets", ())
    as_arrays = (workload is not None and workload.lengths) or any(target.call != "step" for target in targets)
    return Pipeline(kind="host" if as_arrays else "resident")


def seconds(help: str, step: int = 30, empty: str = "") -> About:
    """Return the description of a budget."""
    return About("Budget", help, "seconds", empty, step=step)


def geometric_grid(low: int, high: int, per_octave: float = 1.0) -> tuple[int, ...]:
    """Return whole batch sizes from ``low`` to ``high``, both included, ``per_octave`` of them per doubling.

    Raises UserError for an impossible range.
    """
    if not MIN_BATCH <= low <= high <= MAX_BATCH:
        raise UserError(
            f"The batch range {low} to {high} is not possible; "
            f"it must rise and lie within {MIN_BATCH} to {MAX_BATCH:,}."
        )
    if not 0.25 <= per_octave <= 8:
        raise UserError("A grid has between 0.25 and 8 batch sizes a doubling.")
    count = max(1, math.ceil(math.log2(high / low) * per_octave - 1e-9))
    grid = {low, high} | {round(low * 2 ** (i / per_octave)) for i in range(count)}
    return tuple(sorted(b for b in grid if low <= b <= high))


def parse_batches(text: str) -> tuple[int, ...]:
    """Parse ``1:1024`` (a doubling grid), ``1:1024:2`` (two per doubling) or ``1,8,64``. Raises UserError."""
    try:
        if ":" in text:
            low, high, *rest = text.split(":")
            (per_octave,) = rest or ("1",)
            bounds = int(low), int(high), float(per_octave)
        else:
            values = tuple(sorted({int(part) for part in text.split(",")}))
    except ValueError:
        raise UserError(
            f"Batches “{text}” are not understood; write a range such as 1:1024 or a list such as 1,8,64."
        ) from None
    if ":" in text:
        return geometric_grid(*bounds)
    if bad := [b for b in values if not MIN_BATCH <= b <= MAX_BATCH]:
        raise UserError(f"Batch {bad[0]} is not possible; accepted are {MIN_BATCH} to {MAX_BATCH:,}.")
    if len(values) > MAX_BATCHES:
        raise UserError(f"{len(values)} batch sizes are too many; at most {MAX_BATCHES} are accepted.")
    return values
