"""Actual settings of each target of a run: the execution it resolved to, why, and whether its float32 was TF32.

They are reported by the worker that ran it. Older runs, which did not record this, chose graph, xla or eager
explicitly, so the plan gives it, without a reason; whether they used TF32 follows from the card and the switch, which
they recorded.
"""

from __future__ import annotations

from dataclasses import dataclass

from core.base.frameworks import Compiled
from core.base.text import sentence_case
from core.rounds.first_pass import first_pass
from core.rounds.run import Run
from core.workload.execution import expected, has_tf32, precision_words, running_words, setting_words
from core.workload.lengths import padded
from core.workload.spec import AS_ASKED, Target

TF32_SWITCH = "tensor_float_32"  # "on" or "off" among the versions of older runs' GPU processes


@dataclass(frozen=True)
class RanAs:
    """Actual settings of one target. ``why`` is None if not recorded; ``tf32`` is None if unknown or irrelevant."""

    target: Target
    execution: Compiled
    why: str | None
    tf32: bool | None

    @property
    def words(self) -> str:
        return setting_words(self.target, self.execution, self.why, self.tf32)

    @property
    def precision(self) -> str:
        return precision_words(self.target, self.tf32)

    @property
    def data(self) -> dict[str, object]:
        return {"execution": self.execution, "why": self.why, "precision": self.target.precision, "tf32": self.tf32}


def ran_as(run: Run, index: int) -> RanAs | None:
    """Return the actual settings of that target; None if unknown: without a plan, or before Keras's own choice was
    made.
    """
    if run.plan is None:
        return None
    target, tf32 = run.plan.targets[index], _tf32(run, index)
    setups = [setup for setup in run.setups if setup.target == index and setup.execution is not None]
    if setups and setups[-1].execution is not None:
        return RanAs(target, setups[-1].execution, setups[-1].execution_why, tf32)
    return None if target.execution == "keras" else RanAs(target, target.execution, None, tf32)


def ran_words(run: Run) -> tuple[str, ...]:
    """Return one text per target with known settings, to show beside the verdict."""
    return tuple(words for index in range(len(run.names)) if (words := _words(run, index)))


def ran_line(run: Run, target: int | None = None) -> tuple[str, ...]:
    """Join the texts of all targets, or of one, into a line for captions; empty if nothing is known."""
    indices = range(len(run.names)) if target is None else (target,)
    words = [words for index in indices if (words := _words(run, index))]
    passes = [text for index in indices if (text := _first_pass_words(run, index))]
    return tuple(f"{'. '.join(each)}." for each in (words, passes) if each)


def _first_pass_words(run: Run, index: int) -> str:
    """Describe the first pass of a target through inputs of several lengths, at its middle batch; else empty."""
    if run.plan is None or not run.plan.workload.lengths:
        return ""
    batches = sorted({setup.batch for setup in run.setups if setup.target == index})
    middle = batches[len(batches) // 2] if batches else 0
    mine = [setup for setup in run.setups if (setup.target, setup.batch) == (index, middle)]
    known = first_pass(mine, padded(run.plan.workload.lengths, run.plan.targets[index].pad))
    if known is None:
        return ""
    return f"{sentence_case(run.names[index])}, first pass through the lengths at batch {middle:,}: {known.words}"


def _words(run: Run, index: int) -> str:
    """Describe a target's settings; empty if unknown. Of two targets the device tells which is meant; of more the text
    takes the name, and repeats nothing that the name says.
    """
    actual, name = ran_as(run, index), run.names[index]
    if actual is None or len(run.names) <= 2:
        return "" if actual is None else actual.words
    why = None if actual.why == AS_ASKED else actual.why
    running = running_words(actual.target, actual.execution, why, actual.tf32)
    return "" if running in name else f"{sentence_case(name)}: {running}"


def resolved_target(run: Run, index: int) -> Target:
    """Return the target with its actual execution as recorded, else with the one Keras is expected to choose."""
    assert run.plan is not None
    target, actual = run.plan.targets[index], ran_as(run, index)
    execution = actual.execution if actual is not None else expected(run.plan.workload.network, target).execution
    return target.model_copy(update={"execution": execution})


def _tf32(run: Run, index: int) -> bool | None:
    assert run.plan is not None
    mine = [process for process in run.processes if process.target == index]
    if not mine or not run.plan.targets[index].is_gpu:
        return None
    if mine[-1].tf32 is not None:
        return mine[-1].tf32
    gpus = run.environment.gpus if run.environment is not None else ()
    has, switch = has_tf32(run.plan.targets[index].device, gpus), mine[-1].versions.get(TF32_SWITCH)
    return None if has is None or switch is None else switch == "on" and has
