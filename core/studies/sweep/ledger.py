"""The sweep's record while it runs: appended to, handed to the recorder at once, frozen into a Run on demand."""

from __future__ import annotations

from collections import Counter, defaultdict
from statistics import geometric_mean

from core.base.evidence import Outcome, Process, Setup, Status, Warning
from core.rounds.run import Cell, EnergyWindow, LoopCost, Round, Run, RunRecord, StopReason
from core.studies.runner import Recorder
from core.traces.record import TracedCell

ALIKE = 4  # targets whose step counts differ by at most this factor get equal blocks


class Ledger:
    """Collector of the records of one run. Only the engine's thread writes; the Runs it returns are immutable."""

    def __init__(self, run: Run, recorder: Recorder) -> None:
        self._base = run
        self._recorder = recorder
        self._processes: list[Process] = list(run.processes)
        self._setups: list[Setup] = list(run.setups)
        self._calibrated: dict[int, dict[int, int]] = defaultdict(dict)
        """Steps of a block by batch and target."""
        for setup in run.setups:
            self._calibrated[setup.batch].setdefault(setup.target, setup.steps_per_block)
        self._rounds: list[Round] = list(run.rounds)
        self.next_pass = 0
        self._at: Counter[int] = Counter()
        self._starts: dict[tuple[int, int], set[int]] = {}
        self._counts: Counter[tuple[int, int]] = Counter()
        for item in run.rounds:
            self._count(item)
        self._cells: dict[tuple[int, int], Cell] = {(c.target, c.batch): c for c in run.cells}
        self._warnings: dict[str, Warning] = {w.code: w for w in run.warnings}
        self._traces: dict[tuple[int, int], TracedCell] = {(t.target, t.batch): t for t in run.traces}
        self._energy: dict[tuple[int, int, int], EnergyWindow] = {_place(w): w for w in run.energy}
        self._loops: dict[int, LoopCost] = {cost.target: cost for cost in run.loops}
        self._frozen: Run | None = None
        self.revision = 0
        recorder.begin(run)

    def add(self, *records: RunRecord) -> None:
        """Append records; a Cell, TracedCell, LoopCost, EnergyWindow or Warning replaces its predecessor with the same
        key.
        """
        for record in records:
            if isinstance(record, Process):
                self._processes.append(record)
            elif isinstance(record, Setup):
                self._setups.append(record)
                self._calibrated[record.batch].setdefault(record.target, record.steps_per_block)
            elif isinstance(record, Round):
                self._rounds.append(record)
                self._count(record)
            elif isinstance(record, Cell):
                self._cells[record.target, record.batch] = record
            elif isinstance(record, TracedCell):
                self._traces[record.target, record.batch] = record
            elif isinstance(record, EnergyWindow):
                self._energy[_place(record)] = record
            elif isinstance(record, LoopCost):
                self._loops[record.target] = record
            else:
                self._warnings[record.code] = record
        self._recorder.record(self._base.id, records)
        self.revision += 1
        self._frozen = None

    def _count(self, item: Round) -> None:
        self.next_pass = max(self.next_pass, item.pass_index + 1)
        self._at[item.batch] += 1
        for block in item.blocks:
            self._counts[block.target, item.batch] += 1
            self._starts.setdefault((block.target, item.batch), set()).add(block.process)

    def cell(self, target: int, batch: int) -> Cell | None:
        return self._cells.get((target, batch))

    def set_cell(
        self, target: int, batch: int, outcome: Outcome, reason: str = "", stop: StopReason | None = None
    ) -> None:
        cell = Cell(target=target, batch=batch, outcome=outcome, reason=reason, stop_reason=stop)
        if cell != self.cell(target, batch):
            self.add(cell)

    def rounds_of(self, target: int, batch: int) -> int:
        return self._counts[target, batch]

    def replicates_of(self, target: int, batch: int) -> int:
        """Return the number of starts in which the cell was prepared and has rounds."""
        return len(self._starts.get((target, batch), ()))

    def rounds_at(self, batch: int) -> int:
        return self._at[batch]

    @property
    def first_reason(self) -> str:
        """Reason of the first cell that failed, else of the first one that was skipped."""
        cells = sorted(self._cells.values(), key=lambda cell: cell.outcome == "skipped")
        return next((cell.reason for cell in cells if cell.reason), "")

    @property
    def next_round(self) -> int:
        return self._rounds[-1].index + 1 if self._rounds else 0

    @property
    def next_process(self) -> int:
        return 1 + max((p.index for p in self._processes), default=-1)

    def steps_per_block(self, target: int, batch: int) -> int | None:
        """Return the steps that an earlier process calibrated for this cell, so that blocks stay comparable."""
        return self._calibrated[batch].get(target)

    def block_steps(self, target: int, batch: int) -> int:
        """Return the steps of a block: the geometric mean over the targets whose own blocks have about as many.

        The cost of waking and synchronising is shared by the steps of a block, so equal targets differed by 15 % in
        blocks of one and of three steps at batch 1 (measured: benchmarks/busy.py).
        """
        own = self._calibrated[batch].get(target, 1)
        every = self._calibrated[batch].values()
        alike = [steps for steps in every if max(steps / own, own / steps) <= ALIKE]
        return round(geometric_mean(alike)) if alike else own

    def run(self, elapsed_s: float) -> Run:
        """Return the run so far."""
        if self._frozen is None:
            self._frozen = self._base.model_copy(
                update={
                    "processes": tuple(self._processes),
                    "setups": tuple(self._setups),
                    "rounds": tuple(self._rounds),
                    "cells": tuple(sorted(self._cells.values(), key=lambda c: (c.target, c.batch))),
                    "warnings": tuple(self._warnings.values()),
                    "traces": tuple(trace for _, trace in sorted(self._traces.items())),
                    "energy": tuple(window for _, window in sorted(self._energy.items())),
                    "loops": tuple(cost for _, cost in sorted(self._loops.items())),
                }
            )
        return self._frozen.model_copy(update={"elapsed_s": elapsed_s})

    def finish(self, status: Status, elapsed_s: float) -> Run:
        self._recorder.finish(self._base.id, status, elapsed_s)
        return self.run(elapsed_s).model_copy(update={"status": status})


def _place(window: EnergyWindow) -> tuple[int, int, int]:
    return window.target, window.batch or 0, window.index
