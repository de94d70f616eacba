"""Two targets on one GPU: memory taken by one is not free for the other, and neither returns it."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from core.rounds.run import Cell, Run
from core.worker.protocol import CellFailed
from core.workload.spec import Target
from simulated.simulation import Curve, Machine
from simulated.sweeps import plan, sweep

CROSSING = (Curve(0.3, 0.02), Curve(1.0, 0.003))
GRAPH, XLA = Target(device="gpu:0", execution="graph"), Target(device="gpu:0", execution="xla")
SHARED = "held memory of the same GPU; in a sweep against the CPU it may fit."


class Card(Machine):
    """Machine whose cells take memory in proportion to their batch and keep it; a card has room for ``capacity``."""

    capacity = 1_500

    def __post_init__(self) -> None:
        super().__post_init__()
        self.tried: Counter[tuple[int, int]] = Counter()

    def launch(self, targets: tuple[Target, ...], deadline_s: float, *asked: object) -> Any:
        self.held: dict[tuple[str, int], set[int]] = {(t.device, index): set() for index, t in enumerate(targets)}
        return super().launch(targets, deadline_s, *asked)

    def fault(self, target: int, batch: int, in_block: bool) -> None:
        (mine,) = (key for key in self.held if key[1] == target)
        self.held[mine].add(batch)
        self.tried[target, batch] += not in_block
        taken = sum(sum(batches) for (device, _), batches in self.held.items() if device == mine[0])
        if taken > self.capacity:
            self.held[mine].discard(batch)
            raise CellFailed("out_of_memory", f"The cell did not fit: {taken} of {self.capacity}.")


def cells(run: Run, target: int) -> dict[int, Cell]:
    return {cell.batch: cell for cell in run.cells if cell.target == target}


def measured(*targets: Target) -> tuple[Card, Run]:
    machine = Card(CROSSING)
    run = sweep(machine, plan(refine=False).model_copy(update={"targets": targets}))
    assert run.status == "finished"
    assert machine.open_workers == 0
    return machine, run


def test_a_cell_that_only_what_others_left_behind_keeps_out_is_measured_by_fresh_workers() -> None:
    """Check 512: all batches up to 512 take 1,023 on each worker, but twice 512 alone fits."""
    _, run = measured(GRAPH, XLA)
    assert cells(run, 0)[512].outcome == cells(run, 1)[512].outcome == "measured"
    assert {b.target for r in run.rounds if r.batch == 512 for b in r.blocks} == {0, 1}


def test_one_that_does_not_fit_beside_the_other_either_says_that_it_may_alone() -> None:
    machine, run = measured(GRAPH, XLA)
    assert machine.tried[1, 1024] == 2
    assert cells(run, 0)[1024].outcome == "measured"  # with fresh workers it comes first
    alone = cells(run, 1)[1024]
    assert alone.outcome == "out_of_memory"
    assert alone.reason.endswith(f"The worker of {run.names[0]} {SHARED}")


@pytest.mark.parametrize("other", [Target(), Target(device="gpu:1")])
def test_a_target_with_a_gpu_of_its_own_is_not_tried_again(other: Target) -> None:
    machine, run = measured(other, XLA)
    failed = cells(run, 1)[1024]
    assert failed.outcome == "out_of_memory"
    assert SHARED not in failed.reason
    assert machine.tried[1, 1024] == 1
    assert cells(run, 0)[512].outcome == cells(run, 1)[512].outcome == "measured"
