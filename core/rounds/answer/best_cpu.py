"""The CPU's best setting: the CPU target of a run with which a GPU is compared.

The best CPU target of a run is the one whose three steps, at the smallest, a middle and the largest batch that all of
them have, take the least time in total. The large batch weighs most, since a GPU may be faster there. One setting is
named for all batches; if another is clearly faster at one of the three, that is stated.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from core.base.numbers import counted
from core.rounds.answer.answer import Answer, CellStats
from core.rounds.run import Run
from core.workload.names import all_of, are, full_name, one_of
from core.workload.spec import Target

LOOK = "cpu"
"""Name of the short look among the sets of targets of the command ``sweep``."""
LOOK_BATCHES = (1, 32, 1024)
"""Batches of the short look (:mod:`core.studies.sweep.presets`)."""


@dataclass(frozen=True)
class CpuRanking:
    """Ranking of the run's CPU ``targets`` with a step time, the best first, by their steps at ``batches``."""

    targets: tuple[int, ...]
    batches: tuple[int, ...]

    @property
    def best(self) -> int:
        """The index of the best target."""
        return self.targets[0]


def cpu_targets(run: Run, answer: Answer) -> tuple[int, ...]:
    """Return the indices of the run's CPU targets that have a step time; a call of the model is no setting of a CPU."""
    measured = {cell.target for cell in answer.cells}
    targets = () if run.plan is None else run.plan.targets
    cpus = [index for index, target in enumerate(targets) if (target.device, target.call) == ("cpu", "step")]
    return tuple(index for index in cpus if index in measured)


def rank_cpus(run: Run, answer: Answer) -> CpuRanking | None:
    """Rank the run's CPU targets by their three steps; None without any.

    While some share no batch, the one with the fewest batches is left out.
    """
    cells = {(cell.target, cell.batch): cell.step_ms for cell in answer.cells}
    cpus = list(cpu_targets(run, answer))
    batches = {i: {batch for target, batch in cells if target == i} for i in cpus}
    while cpus and not (shared := sorted(set.intersection(*(batches[i] for i in cpus)))):
        cpus.remove(min(cpus, key=lambda i: len(batches[i])))
    if not cpus:
        return None
    chosen = _three(shared)
    return CpuRanking(tuple(sorted(cpus, key=lambda i: sum(cells[i, batch] for batch in chosen))), chosen)


def _three(batches: Sequence[int]) -> tuple[int, ...]:
    """Return the smallest batch, the one nearest to the middle of both ends on a log scale, and the largest."""
    middle = math.sqrt(batches[0] * batches[-1])
    nearest = min(batches, key=lambda batch: abs(math.log(batch / middle)))
    return tuple(sorted({batches[0], nearest, batches[-1]}))


def setting_words(run: Run, answer: Answer, target: int) -> str:
    """Return the CPU target's name for sentences, with its rank.

    It is ``this CPU's best (2 threads, XLA)``, or says that it is not the best or that no other setting was tried. A
    target that is no CPU, or of a run without a plan, has its plain name.
    """
    ranking = rank_cpus(run, answer)
    if run.plan is None or ranking is None or target not in cpu_targets(run, answer):
        return run.names[target]
    whose = "this CPU" if run.label == "measured" else "the CPU"
    if len(cpu_targets(run, answer)) == 1:
        return f"{whose} ({_alone(run.plan.targets[target])}; no other setting tried)"
    if target == ranking.best:
        return f"{whose}'s best ({run.names[target]})"
    return f"{run.names[target]} ({whose}'s best: {run.names[ranking.best]})"


def _alone(target: Target) -> str:
    parts = [part for part in full_name(target).split(", ") if part != "CPU"]
    return ", ".join(parts if target.threads is not None else ["all threads", *parts])


def choice_line(run: Run, answer: Answer) -> str:
    """Explain how the best was chosen and among which, or that no other was tried; empty without a CPU target."""
    ranking = rank_cpus(run, answer)
    if ranking is None or run.plan is None:
        return ""
    names = run.names
    if len(ranking.targets) == 1:
        alone = _alone(run.plan.targets[ranking.best])
        return (
            f"The CPU was measured in one setting alone ({alone}); other numbers of threads, or XLA, may be faster, "
            "and a GPU that is faster than this one may not be faster than those."
        )
    others = all_of([names[i] for i in ranking.targets[1:]])
    at = all_of([f"{batch:,}" for batch in ranking.batches])
    line = (
        f"The CPU's best of {counted(len(ranking.targets), 'setting')}: {names[ranking.best]}, whose steps at batch "
        f"{at} take the least time together; also measured: {others}."
    )
    return " ".join(filter(None, (line, _as_fast(ranking, answer, names), _faster_elsewhere(ranking, answer, names))))


def look_lines(run: Run, answer: Answer) -> tuple[str, ...]:
    """Return the findings of a short look for its own report; empty for any other run."""
    is_look = run.plan is not None and run.plan.batches == LOOK_BATCHES and all(t.on_cpu for t in run.plan.targets)
    return (choice_line(run, answer),) if is_look and len(run.names) > 1 else ()


def _as_fast(ranking: CpuRanking, answer: Answer, names: Sequence[str]) -> str:
    """Name the settings that may be as fast as the best at the largest batch, by intervals that overlap."""
    cells = {cell.target: cell for cell in answer.cells if cell.batch == ranking.batches[-1]}
    best = cells[ranking.best]
    clear = {i for i in ranking.targets[1:] if _clearly_faster(best, cells[i]) or _clearly_faster(cells[i], best)}
    near = [names[i] for i in ranking.targets[1:] if i not in clear]
    return f"At batch {ranking.batches[-1]:,}, {one_of(near)} may be as fast." if near else ""


def _faster_elsewhere(ranking: CpuRanking, answer: Answer, names: Sequence[str]) -> str:
    """Name the batches at which another setting is clearly faster, by intervals that do not overlap."""
    cells = {(cell.target, cell.batch): cell for cell in answer.cells}
    sentences = []
    for batch in ranking.batches:
        best = cells[ranking.best, batch]
        faster = [names[i] for i in ranking.targets[1:] if _clearly_faster(cells[i, batch], best)]
        if faster:
            sentences.append(f"At batch {batch:,}, {one_of(faster)} {are(faster[-1])} clearly faster.")
    return " ".join(sentences)


def _clearly_faster(cell: CellStats, than: CellStats) -> bool:
    return cell.high_ms is not None and than.low_ms is not None and cell.high_ms < than.low_ms
