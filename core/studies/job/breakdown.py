"""Where a script's time went, what besides its steps costs most, and the workload that it runs. Pure functions."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean, median

from core.base.frameworks import Call
from core.base.numbers import counted, duration
from core.base.schema import UserError
from core.networks.families import Network
from core.studies.job.capture import TRAINS, Capture, Model, Part, Phase, fits
from core.workload.lengths import Lengths, merged, refuse_lengths
from core.workload.spec import Mode, Optimizer, Target, Workload

PARTS: dict[Part, str] = {
    "start": "starting Python",
    "import": "imports",
    "build": "building models",
    "own": "the script's own code",
    "data": "setting up the input",
    "compile": "tracing and compiling",
    "steps": "steps",
    "input": "waiting for input",
    "validation": "validation",
    "callbacks": "callbacks",
    "between": "Keras between steps",
    "epoch": "Keras between epochs",
    "calls": "Keras around short calls",
    "watch": "watching",
    "end": "ending Python",
    "loop": "unexplained",
}
"""Parts in the order in which they are drawn, and their names."""
UNAVOIDABLE: frozenset[Part] = frozenset({"steps", "start", "import", "build", "watch", "end", "loop"})
"""Parts that are no cause by themselves: the work itself, and what every script pays once."""
OPTIMIZERS: dict[str, Optimizer] = {"SGD": "sgd"}
ALIKE: Optimizer = "adam"
"""Optimizer measured in place of any other than SGD: most keep one or two values per weight, as Adam does."""
REMEDIES = {
    "callback": "call it per epoch, or less often",
    "validation": "validation_freq=2 halves it",
    "retracing": "pad the inputs to one length or a few, or give tf.function reduce_retracing=True",
    "first_call": "paid once per process, however long it trains",
    "input": "the page Pipeline measures prefetch, parallel map calls and cache",
    "between": "steps_per_execution=8 does it once per eight steps",
    "data": "in a loop, predict_on_batch or the model in a tf.function sets nothing up",
    "calls": "in a loop, predict_on_batch or the model in a tf.function costs less per call",
}
"""Remedies by the code of their cause."""
SAVED = {"validation": 1 / 2, "between": 7 / 8}
"""Share of a cause's seconds that its remedy saves, where that follows from the remedy alone."""
LEAST_SHARE = 0.02
"""Share of the wall time below which a cause is not named."""


@dataclass(frozen=True)
class Cause:
    """A cost besides the steps: ``code`` names it for programs, ``what`` continues “12 s: …”."""

    code: str
    seconds: float
    what: str

    @property
    def remedy(self) -> str:
        """The remedy, with the seconds that it saves where they follow; empty if nothing general helps."""
        saved = f" (about {duration(SAVED[self.code] * self.seconds)} less)" if self.code in SAVED else ""
        return f"{REMEDIES[self.code]}{saved}" if self.code in REMEDIES else ""


def breakdown(capture: Capture) -> dict[Part, float]:
    """Return the seconds of every part, in the order of :data:`PARTS`; together they are the wall time.

    Steps are counted by Python's clock, with waiting, tracing and compiling inside: these are taken out here. A step in
    which something was traced costs what it takes beyond a usual one.
    """
    seconds: dict[Part, float] = {part: capture.seconds.get(part, 0.0) for part in PARTS}
    for phase in capture.phases:
        if phase.facts.in_callbacks:
            continue  # what a callback does is all the callback's
        holder: Part = "validation" if phase.kind == "validation" else "steps"
        compiled = min(sum(traced_s(phase)), seconds[holder])
        seconds[holder] -= compiled
        seconds["compile"] += compiled
        if holder == "steps":
            waited = min(phase.wait_s, seconds["steps"])
            seconds["steps"] -= waited
            seconds["input"] += waited
    seconds["loop"] += max(0.0, capture.wall_s - sum(seconds.values()))
    return seconds


def traced_s(phase: Phase) -> tuple[float, ...]:
    """Return the seconds that each traced step took beyond its input and a usual step."""
    usual = usual_step_s(phase) or 0.0
    return tuple(max(0.0, seconds - waited - usual) for seconds, waited in phase.traced)


def usual_step_s(phase: Phase) -> float | None:
    """Return the median of the steps in which nothing was traced, without the mean wait for input; None without any."""
    if not phase.durations_s:
        return None
    waited = phase.wait_s - sum(waited for _, waited in phase.traced)
    untraced = max(1, phase.steps - len(phase.traced))
    return max(0.0, median(phase.durations_s) + _late_s(phase) - max(0.0, waited) / untraced)


def mean_step_s(phase: Phase) -> float | None:
    """Return the mean of the steps in which nothing was traced, with their waits; None without any."""
    return fmean(phase.durations_s) + _late_s(phase) if phase.durations_s else None


def _late_s(phase: Phase) -> float:
    """Return the mean wait for a step's results after it had returned."""
    return phase.late_s / max(1, phase.steps)


def causes(capture: Capture) -> tuple[Cause, ...]:
    """Return what costs most besides the steps themselves, largest first: what a change of the script could save."""
    seconds = breakdown(capture)
    shown = [
        Cause(part, amount, PARTS[part])
        for part, amount in seconds.items()
        if part not in UNAVOIDABLE and part not in ("callbacks", "compile", "validation")
    ]
    shown += [Cause("callback", amount, f"the callback {name}") for name, amount in capture.callbacks.items()]
    validations = sum(phase.calls for phase in capture.phases if phase.kind == "validation")
    shown.append(Cause("validation", seconds["validation"], f"validation, {counted(validations, 'time')}"))
    phases = [phase for phase in capture.phases if not phase.facts.in_callbacks]
    first = sum(sum(traced_s(phase)[:1]) for phase in phases)
    again = [extra for phase in phases for extra in traced_s(phase)[1:]]
    shown.append(Cause("first_call", first, "tracing and compiling in the first calls"))
    shown.append(Cause("retracing", sum(again), f"tracing again, in {counted(len(again), 'later step')}"))
    least_s = LEAST_SHARE * capture.wall_s
    return tuple(sorted((cause for cause in shown if cause.seconds >= least_s), key=lambda cause: -cause.seconds))


def main_phase(capture: Capture) -> Phase:
    """Return the phase that the job is about: the longest training, else the longest of all. Raises UserError."""
    phases = [phase for phase in capture.phases if phase.kind != "validation" and not phase.facts.in_callbacks]
    if not phases:
        raise UserError(
            f"{capture.script} called no model of Keras 3 that could be seen: no fit, evaluate or predict, no model "
            "called directly, no tf.function."
        )
    return max(phases, key=lambda phase: (trains(capture, phase), phase.seconds))


def trains(capture: Capture, phase: Phase) -> bool:
    """Tell whether a phase trains; a loop of the script's own does if the script applied an optimizer."""
    return phase.kind in TRAINS or (phase.model is None and bool(capture.optimizers)) or (
        phase.kind == "call" and bool(capture.optimizers)
    )  # fmt: skip


def main_model(capture: Capture) -> Model:
    """Return the model of the main phase. Raises UserError if there is none, or several are trained together."""
    phase = main_phase(capture)
    if phase.model is not None:
        return capture.models[phase.model]
    if len(capture.models) == 1:
        return capture.models[0]
    if not capture.models:
        raise UserError(f"{capture.script} calls “{phase.kind}”, in which no model of Keras 3 could be seen.")
    raise UserError(
        f"{capture.script} trains {len(capture.models)} models together in a loop of its own (“{phase.kind}”), and no "
        "step of Keras's stands for that; measure each of them with --model."
    )


def captured_workload(capture: Capture) -> Workload:
    """Return the workload of the script's main phase. Raises UserError with why it has none."""
    model = main_model(capture)
    if model.inputs is None and model.shape is None:
        raise UserError(
            f"{model.kind} is never called as a whole: a step of its own calls its parts, and no step of Keras's "
            "stands for that; measure its parts with --model."
        )
    if model.inputs is not None and len(model.inputs) != 1:
        raise UserError(
            f"{model.kind} has {len(model.inputs)} inputs, and a sweep feeds one; join them into one input to "
            "measure it."
        )
    shape, lengths = model.shape, merged(item for item in main_phase(capture).lengths if item[0])
    if model.takes_any_length and lengths and model.inputs:
        shape = (None, lengths[-1][0], *model.inputs[0][2:])
    network = model.network(capture.script, shape)
    several = model.takes_any_length and len(lengths) > 1 and _takes(network, lengths)
    optimizer = optimizer_of(capture, model)
    return Workload(network=network, mode=mode_of(capture), optimizer=optimizer, lengths=lengths if several else ())


def _takes(network: Network, lengths: Lengths) -> bool:
    try:
        refuse_lengths(network, lengths)
    except ValueError:
        return False
    return True


def mode_of(capture: Capture) -> Mode:
    """Return the mode of the main phase."""
    return "train" if trains(capture, main_phase(capture)) else "infer"


def optimizer_of(capture: Capture, model: Model) -> Optimizer:
    """Return the measured optimizer that is like the script's."""
    name, momentum = model.optimizer, model.momentum
    if not name and capture.optimizers:
        name, momentum = next(iter(capture.optimizers.items()))
    if name in OPTIMIZERS:
        return "momentum" if momentum else OPTIMIZERS[name]
    return ALIKE


def captured_target(capture: Capture) -> Target:
    """Return the target on which the script ran."""
    model = main_model(capture)
    backend = capture.versions.get("backend", "tensorflow")
    device = "gpu:0" if capture.gpus else "cpu"
    precision = model.precision if model.precision in ("mixed_float16", "mixed_bfloat16") else "float32"
    options: dict[str, object] = {"device": device, "precision": precision, "framework": backend}
    if backend == "tensorflow" and mode_of(capture) == "infer" and (call := _call(main_phase(capture))) != "step":
        xla = call != "model" and model.jit_compile and not capture.gpus
        options |= {"call": call, "execution": "xla" if xla else "keras"}
    elif backend == "tensorflow":
        options["execution"] = "eager" if model.eager else "xla" if model.jit_compile and not capture.gpus else "keras"
        per_call = main_phase(capture).facts.steps_per_execution
        options["steps_per_execution"] = 1 if model.eager else min(per_call, 1024)
    return Target.model_validate(options)


def _call(phase: Phase) -> Call:
    """Return the way in which a phase of inference calls its model; for one long predict, Keras's own step."""
    if phase.kind.startswith("function"):
        return "function"
    if phase.kind == "predict" and 1 < phase.calls == phase.steps:
        return "predict"
    return "model" if phase.kind == "call" else "predict_on_batch" if phase.kind == "predict_on_batch" else "step"


def captured_batch(capture: Capture) -> int:
    """Return the batch size of the main phase. Raises UserError if it is unknown or beyond what is measured."""
    batch = main_phase(capture).batch_size
    if batch is None or not fits(batch):
        raise UserError(f"The batch size of {capture.script} could not be seen, or is beyond 65,536.")
    return batch
