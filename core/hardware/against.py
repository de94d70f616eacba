"""One modelled card beside the targets of a measured run: its curve, its crossover with each CPU, its speed-up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from core.families.own import Own
from core.hardware.catalogue import GpuSpec
from core.hardware.compare import batches_between, cpu_index
from core.hardware.conditions import Conditions
from core.hardware.constants import EXECUTIONS, PRECISIONS
from core.hardware.crossing import ModelledCrossover, ModelledSpeedUp, cross, speed_up
from core.hardware.host import HostCosts
from core.hardware.interval import errors, family_of
from core.hardware.model import modelled_as
from core.hardware.plausible import card_curve, if_named, named_sentence
from core.hardware.recorded import CardCurve, Recording, as_nobody_named
from core.schema import UserError
from core.spec import Target, Workload
from core.studies.sweep.answer import Answer
from core.studies.sweep.best_cpu import LOOK
from core.studies.sweep.record import Run


@dataclass(frozen=True)
class Against:
    """A modelled card shown beside a run's measured curves, never in their place.

    ``settings``: how the card is modelled to run, in words. ``crossovers``: one per measured CPU target, the CPU that
    is fastest at large batches first. ``speed_ups``: of the card over the run's first target, which is the base of the
    run's own speed-up. ``at_end``: the speed-up over the CPU of the first crossover, at the largest batch that both
    have. ``named``: a sentence on how much naming the build would change, or empty.
    """

    spec: GpuSpec
    settings: str
    conditions: Conditions
    costs: HostCosts
    curve: CardCurve
    crossovers: tuple[ModelledCrossover, ...]
    speed_ups: tuple[ModelledSpeedUp, ...]
    at_end: ModelledSpeedUp | None
    named: str = ""
    label: Literal["modelled"] = "modelled"

    @property
    def crossover(self) -> ModelledCrossover:
        """The crossover with the CPU that is fastest at large batches."""
        return self.crossovers[0]


def compared_with(run: Run, answer: Answer) -> int:
    """Return the index of the run's CPU target that a card is compared with.

    Raises:
        UserError: The run has no plan, or no measured CPU target.
    """
    if run.plan is None:
        raise UserError("Only points were imported for this run; without its plan there is no workload to model.")
    index = cpu_index(run, answer)
    if index is None:
        raise UserError("No CPU target of this run was measured, so there is nothing to set a modelled GPU against.")
    return index


def not_modelled(workload: Workload) -> str | None:
    """Explain why no GPU step of a recurrent network is modelled and what to run instead; None for other networks."""
    if family_of(workload) != "recurrent" or any(name.startswith("recurrent/") for name in errors().classes):
        return None
    network = workload.network
    named = "--architecture FILE" if isinstance(network, Own) else f"--preset {network.name}"
    sweep = f"python -m core sweep {named}{'' if workload.training else ' --mode infer'}"
    return (
        "A GPU's step of recurrent layers (LSTM, GRU) is not modelled, since cuDNN's kernels run them there and how "
        f"far a model of those errs is not known: measure it on a machine with such a card by “{sweep} --out run.json” "
        f"(History imports the file), or this CPU alone here by “{sweep} --compare {LOOK}”."
    )


def card_target(cpu: Target) -> Target:
    """Return the card's target: run as ``cpu`` is, so that only the device differs.

    The model covers TensorFlow in floating point alone, so other frameworks, executions and precisions are replaced.
    """
    changes: dict[str, object] = {"device": "gpu:0", "threads": None, "framework": "tensorflow", "python": None}
    if cpu.execution not in EXECUTIONS:
        changes["execution"] = "keras"
    if cpu.precision not in PRECISIONS:
        changes["precision"] = "float32"
    return cpu.model_copy(update=changes)


def against(
    run: Run, answer: Answer, index: int, spec: GpuSpec, costs: HostCosts, recordings: Sequence[Recording] = ()
) -> Against:
    """Compare the card with the run's measured targets; ``index`` comes from :func:`compared_with`."""
    assert run.plan is not None
    target, conditions = card_target(run.plan.targets[index]), as_nobody_named(run.plan)
    batches, workload = batches_between(answer, index), run.plan.workload
    curve = card_curve(spec, workload, target, batches, costs, conditions, recordings)
    named = if_named(
        run, answer, index,
        lambda each: card_curve(spec, workload, target, batches, costs, each, recordings), conditions,
    )  # fmt: skip
    others = [i for i, other in enumerate(run.plan.targets) if i != index and other.device == "cpu"]
    crossovers = tuple(cross(run, answer, curve, i) for i in (index, *others))
    speed_ups = (speed_up(answer, curve, batch, 0) for batch in batches)
    last = crossovers[0].last
    return Against(
        spec,
        modelled_as(spec, run.plan.workload, target),
        conditions,
        costs,
        curve,
        crossovers,
        tuple(one for one in speed_ups if one is not None),
        None if last is None else speed_up(answer, curve, last, index),
        named_sentence(named),
    )
