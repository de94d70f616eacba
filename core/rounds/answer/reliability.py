"""Possible problems of a run: too few replicates, processes that disagree, bimodal step times, more threads than asked
for, neighbours, throttling. They become warnings, never edits.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from core.analysis.statistics import MIN_UNITS, TwoModes, two_modes
from core.base.evidence import Block, Interference, OutputDifference, Process, Setup, Warning
from core.base.frameworks import FRAMEWORKS
from core.base.numbers import counted, number, percent
from core.base.text import sentence_case
from core.networks.families.code import Code
from core.rounds.answer.observations import Observations
from core.rounds.ran_as import resolved_target
from core.rounds.run import Run
from core.workload.names import all_of, device_words
from core.workload.spec import Target


def hindrance(processes: Iterable[Process]) -> str:
    """Return what held workers back, as a clause; empty if nothing did, or nothing was recorded."""
    known = tuple(processes)
    if (nice := max((process.niceness or 0 for process in known), default=0)) > 0:
        return f"worker processes ran at niceness {nice}, so that all others came before them"
    for limits in (process.inherited_threads for process in known):
        if limits:
            named = ", ".join(f"{name}={value}" for name, value in sorted(limits.items()))
            return f"worker processes inherited {named}, which limits their threads, though no target asked for that"
    return ""


def hindered(processes: Iterable[Process]) -> tuple[Warning, ...]:
    """Return a warning if workers were held back."""
    why = hindrance(processes)
    return (Warning(code="hindered", text=f"{sentence_case(why)}; step times may be longer for it."),) if why else ()


BUSY_PCT = 25.0  # per cent of one core: a neighbour that takes this much moves a 2-core machine's step times
STEAL_PCT = 5.0
COMMON_SHARE = 0.1  # share of the rounds; less is an occasional stall, which medians absorb
SLOW_CLOCK = 0.75  # share of the run's own median clock (nvbench discards samples below this)
MORE_THREADS, MORE_CORES = 0.15, 0.1  # share of the threads asked for, and cores: allowance for work beside the steps
FEWEST_BLOCKS = 3  # fewest blocks for a median of the cores that a cell uses

Cells = dict[tuple[int, int], list[Block]]
"""Blocks of a run by target and batch."""


def judge(run: Run, observations: Observations) -> tuple[Warning, ...]:
    """Return warnings derived from a run's rounds and the interference in them."""
    warnings = [*_replicates(observations), *disturbances([r.interference for r in run.rounds])]
    if observations.unstable:
        text = (
            f"Starts of the workers disagree by {percent(observations.spread)} (standard deviation) about the same "
            "step: the machine is unsteady."
        )
        warnings.append(Warning(code="unstable_machine", text=text))
    return tuple(warnings)


def of_targets(run: Run) -> tuple[Warning, ...]:
    """Return warnings about the step times of each target by itself."""
    cells: Cells = defaultdict(list)
    for item in run.rounds:
        for block in item.blocks:
            cells[block.target, item.batch].append(block)
    return (*hindered(run.processes), *_modes(run, cells), *_threads(run, cells), *_logical(run))


def few_processes(run: Run) -> tuple[Warning, ...]:
    """Warn about a run of one target with fewer than three processes, whose fit then ignores their scatter."""
    if len({block.process for item in run.rounds for block in item.blocks}) >= MIN_UNITS:
        return ()
    text = "Fewer than three worker processes: how much processes differ is in no interval."
    return (Warning(code="few_processes", text=text),)


def _replicates(observations: Observations) -> Iterator[Warning]:
    if len(observations.values) and not np.isfinite(observations.estimate.error).any():
        yield Warning(code="no_replicates", text="One value per batch size: no interval can be given.")
        return
    if len(observations.values) and (few := observations.few):
        which = "Every batch size was" if len(few) == len(observations.batches) else f"Batch {_listed(few)}: each was"
        text = (
            f"{which} prepared in fewer than three starts of the workers: the interval carries an allowance of "
            f"{percent(observations.allowance)} for how much starts differ."
        )
        yield Warning(code="few_replicates", text=text)
    if observations.unpaired:
        text = f"{observations.unpaired} rounds have one target only and take no part in the comparison."
        yield Warning(code="unpaired_rounds", text=text)


def _listed(batches: Sequence[int]) -> str:
    return all_of([f"{batch:,}" for batch in batches])


def _modes(run: Run, cells: Cells) -> Iterator[Warning]:
    """Yield one warning per target, about the batch at which its two modes lie farthest apart."""
    for target, name in enumerate(run.names):
        two = [
            (modes.slow / modes.quick, batch, modes)
            for (which, batch), blocks in cells.items()
            if which == target and (modes := two_modes([block.step_ms for block in blocks])) is not None
        ]
        if not two:
            continue
        _, batch, modes = max(two, key=lambda each: each[:2])
        more = f", and likewise at {counted(len(two) - 1, 'other batch size')}" if len(two) > 1 else ""
        slow = f"{number(modes.slow)} ms"
        text = (
            f"{name}: a step at batch {batch:,} takes either {number(modes.quick)} ms or {slow} ({slow} in "
            f"{modes.slower} of {modes.samples} rounds){more}: "
            f"{_why_two(run.plan.targets[target] if run.plan else None, cells[target, batch], modes)}."
        )
        yield Warning(code=f"two_modes_{target}", text=text)


def _why_two(target: Target | None, blocks: Sequence[Block], modes: TwoModes) -> str:
    """Return the likely reason for two modes, as a clause."""
    middle = (modes.quick + modes.slow) / 2
    sides: dict[int, set[bool]] = defaultdict(set)
    for block in blocks:
        sides[block.process].add(block.step_ms > middle)
    if len(sides) > 1 and all(len(side) == 1 for side in sides.values()):
        return "each of its worker processes keeps to one of them, so it is decided when a process starts"
    if target is None:
        return "a single step time does not describe it"
    if not target.on_cpu:
        return "its clock, or another user of the device, probably changes"
    if target.threads == 1:
        return "another process probably held its core in the slower rounds"
    return "its threads probably wait by spinning while another process holds a core"


def _threads(run: Run, cells: Cells) -> Iterator[Warning]:
    """Yield one warning per target that kept more cores busy in its blocks than its threads allow."""
    for target, planned in enumerate(run.plan.targets if run.plan is not None else ()):
        if planned.threads is None:
            continue
        used = [
            (float(np.median(cores)), batch)
            for (which, batch), blocks in cells.items()
            if which == target
            and len(cores := [block.cores for block in blocks if block.cores is not None]) >= FEWEST_BLOCKS
        ]
        most, batch = max(used, default=(0.0, 0))
        if most > planned.threads * (1 + MORE_THREADS) + MORE_CORES:
            text = (
                f"{run.names[target]}: asked for {counted(planned.threads, 'thread')}, used {most:.1f} cores at batch "
                f"{batch:,}, so its step times are not those of {counted(planned.threads, 'thread')}."
            )
            yield Warning(code=f"threads_{target}", text=text)


def _logical(run: Run) -> Iterator[Warning]:
    """Yield one warning per target of several logical devices on one CPU."""
    for target, planned in enumerate(run.plan.targets if run.plan is not None else ()):
        if planned.on_cpu and planned.replicas > 1:
            name, logical = run.names[target], device_words(planned.device)
            text = (
                f"{'' if logical in name else f'{name}: '}{logical} share the cores of one CPU: they show that a step "
                f"runs on {planned.replicas} devices and what dividing it costs, not what {planned.replicas} real ones "
                "would gain."
            )
            yield Warning(code=f"logical_{target}", text=text)


def distinct(warnings: Iterable[Warning]) -> tuple[Warning, ...]:
    """Return each code once, with its last text."""
    return tuple({warning.code: warning for warning in warnings}.values())


def disturbances(samples: Sequence[Interference]) -> tuple[Warning, ...]:
    """Return warnings about a GPU slowed by heat, neighbours, steal and a slow clock, from one sample per round."""
    return (*_slowed(samples), *_neighbours(samples), *_clock(samples))


def _neighbours(samples: Sequence[Interference]) -> Iterator[Warning]:
    seen = [n for n in samples if n.other_cpu_pct is not None]
    common = COMMON_SHARE * max(1, len(seen))
    busy = [n for n in seen if (n.other_cpu_pct or 0.0) > BUSY_PCT]
    if len(busy) > common:
        names = Counter(n.busiest[0].name for n in busy if n.busiest)
        who = f" (mostly {names.most_common(1)[0][0]})" if names else ""
        use = float(np.median([n.other_cpu_pct or 0.0 for n in busy]))
        text = f"Other processes{who} used {use:.0f} % of a core during {len(busy)} of {len(seen)} rounds."
        yield Warning(code="neighbour", text=text)
    stolen = sum((n.steal_pct or 0.0) > STEAL_PCT for n in seen)
    if stolen > common:
        took = f"The host of this virtual machine gave more than {STEAL_PCT:.0f} % of its CPU time to others"
        yield Warning(code="steal", text=f"{took} during {stolen} of {len(seen)} rounds.")
    if sharing := sorted({name for n in samples for name in n.gpu_shared_by}):
        yield Warning(code="gpu_shared", text=f"Other processes used the GPU: {', '.join(sharing)}.")


def _clock(samples: Sequence[Interference]) -> Iterator[Warning]:
    clocks = np.array([n.cpu_mhz for n in samples if n.cpu_mhz is not None])
    slow = int(np.sum(clocks < SLOW_CLOCK * np.median(clocks))) if len(clocks) else 0
    if slow > COMMON_SHARE * max(1, len(samples)):
        yield Warning(code="throttled", text=f"The CPU's clock was slow during {slow} of {len(samples)} rounds.")


def _slowed(samples: Sequence[Interference]) -> Iterator[Warning]:
    looked = [n.throttled for n in samples if n.throttled is not None]
    if sum(looked) > COMMON_SHARE * max(1, len(looked)):
        seen = f"{sum(looked)} of {len(looked)} rounds in which it was seen"
        yield Warning(code="gpu_slowed", text=f"Heat or the hardware slowed the GPU down in {seen}.")


RANDOM_WEIGHTS = "The weights are random; trained weights may differ"


def output_difference(setups: Sequence[Setup]) -> OutputDifference | None:
    """Return the worst difference recorded with these cells; None if nothing was."""
    differences = [setup.output_difference for setup in setups if setup.output_difference is not None]
    if not differences:
        return None
    return differences[-1].model_copy(
        update={
            "samples": min(each.samples for each in differences),
            "largest": max(each.largest for each in differences),
            "mean": max(each.mean for each in differences),
            "agreeing": min(each.agreeing for each in differences),
        }
    )


def output_difference_lines(run: Run) -> tuple[str, ...]:
    """Return one line per target that ran in int8, over all its batches."""
    lines = []
    for target, name in enumerate(run.names):
        worst = output_difference([setup for setup in run.setups if setup.target == target])
        if worst is not None:
            lines.append(
                f"{name}: its outputs differ from those in float32 by {_share(worst.mean)} of their range on average, "
                f"{_share(worst.largest)} at most, and choose the same class for {percent(worst.agreeing)} of "
                f"{worst.samples:,} samples. In int8: {worst.quantised}.{_slower(run, target)}"
            )
    if lines:
        lines[-1] += f" {_weights(run)}."
    return tuple(lines)


def _share(share: float) -> str:
    return f"{100 * share:.2g} %"


def _slower(run: Run, target: int) -> str:
    """Explain why Keras's own int8 is often slower; measured with Keras 3.15 (docs/frameworks.md)."""
    if run.plan is None:
        return ""
    ran = resolved_target(run, target)
    framework = FRAMEWORKS[ran.framework]
    if not framework.through_keras:
        return ""
    why = "every step scales and rounds what enters each of these layers"
    if ran.on_cpu and ran.execution != "xla":
        why += f", and {framework.title} has no fast product of int8 matrices on the CPU"
    return f" Keras’s int8 saves memory and is often slower: {why}."


def _weights(run: Run) -> str:
    if run.plan is not None and isinstance(run.plan.workload.network, Code):
        return "The weights are those of your function; other weights may differ"
    return RANDOM_WEIGHTS
