"""Any failure at any time: a study of any kind is kept with its measurements, or states why there are none."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest

from core.base.schema import UserError
from core.studies.kind import Context
from core.studies.registry import kind_of, kinds
from core.studies.runner import Cancelled
from core.studies.sweep.schedule import MOST_ROUNDS
from core.worker.protocol import WorkerLost
from simulated.kinds import blocks_kept, cases
from simulated.memories import GB
from simulated.selfchecks import REFUSAL
from simulated.sweeps import MemoryRecorder
from simulated.tools import tools_for
from tests.support.faults import OUTCOMES, Faulty

SEEDS = (*range(12), *(pytest.param(seed, marks=pytest.mark.statistical) for seed in range(12, 24)))
TRIED = [name for name, case in cases().items() if case.machine is not None]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", TRIED)
def test_any_sequence_of_failures_leaves_what_was_measured_or_one_sentence(
    name: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = cases()[name]
    assert case.machine is not None
    assert case.plan is not None
    machine, plan = case.machine(seed), case.plan()
    monkeypatch.setattr("core.studies.memory.run.available_memory_bytes", lambda: 64 * GB)
    monkeypatch.setattr(REFUSAL, lambda _: ())
    faults, recorder, kind = Faulty(machine, seed), MemoryRecorder(), kind_of(name)
    tools = tools_for(machine, cancel=faults.stop, recorder=recorder, launch=faults.launch)
    try:
        record = kind.run(tools, plan)
    except UserError:
        record = None
    assert faults.open_workers == 0
    if record is not None:
        _check_record(name, record, plan, faults)
    if name == "sweep":
        assert recorder.finished is not None
        assert record is None or recorder.rounds == list(record.rounds)
        assert blocks_kept(1 + MOST_ROUNDS // 2)(recorder, faults.answered, faults.failed + faults.stop.is_set())
    assert case.kept(record, faults.answered, faults.failed + faults.stop.is_set())


def _check_record(name: str, record: Any, plan: Any, faults: Faulty) -> None:
    """Check that it reads back, answers or gives the reason, and has the status of the stop, if there was one."""
    kind, context = kind_of(name), Context(run=getattr(plan, "run", None))
    assert kind.record.from_json(record.to_json()) == record
    stopped = {faults.stop.status} if faults.stop.is_set() else set()
    assert record.status in {"finished", "failed", *stopped}
    try:
        answer = kind.answer(record, context)
    except UserError:
        return
    assert kind.text(record, answer, context)
    assert json.dumps(kind.export(record, answer, context), allow_nan=False)


def _cannot_start(*_: object, **__: object) -> Any:
    raise WorkerLost("crashed", "The interpreter is gone.")


@pytest.mark.parametrize("name", TRIED)
@pytest.mark.parametrize(("cancelled", "refusal"), [(True, Cancelled), (False, UserError)])
def test_without_a_worker_there_is_one_sentence_and_cancelled_before_no_worker_is_started(
    name: str, cancelled: bool, refusal: type[UserError]
) -> None:
    case, cancel = cases()[name], threading.Event()
    assert case.machine is not None
    assert case.plan is not None
    if cancelled:
        cancel.set()
    tools = tools_for(case.machine(0), cancel=cancel, launch=_cannot_start)
    with pytest.raises(refusal, match=None if cancelled else "interpreter is gone"):
        kind_of(name).run(tools, case.plan())


def test_every_kind_that_measures_here_is_tried() -> None:
    assert set(TRIED) == {name for name, kind in kinds().items() if kind.here}
    assert "nan_loss" in OUTCOMES
