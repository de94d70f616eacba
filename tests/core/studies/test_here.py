"""``measure_here``: the lock, the time left, and what is kept where."""

from typing import Any

import pytest

from core.machine.lock import Busy, left_s, machine_lock
from core.studies.here import Instruments, measure_here
from core.studies.kind import Kind, Task
from core.studies.progress import Progress
from core.studies.runner import NullRecorder, Stop, StudyTools


class Kept(NullRecorder):
    def __init__(self) -> None:
        self.studies: list[tuple[Any, ...]] = []

    def add_study(self, kind: str, study_id: str, record: Any, name: str | None = None) -> None:
        self.studies.append((kind, study_id, record, name))


def measured(task: Task[int, Any], recorder: Kept | None = None, **more: Any) -> Any:
    seen: list[Progress] = more.pop("seen", [])
    alone = Instruments(lambda *_, **__: (), interference=lambda: None, meter=lambda: None)
    return measure_here(task, 7, recorder or Kept(), seen.append, Stop(), alone, **more)


def kind(streams: bool = False) -> Kind[int, Any, Any]:
    return Kind(
        name="toy", title="Toy", record=None, describe=str, run=lambda _, plan: 2 * plan, answer=lambda *_: None,
        text=lambda *_: "", export=lambda *_: {}, streams=streams,
    )  # fmt: skip


def test_a_kinds_record_is_kept_with_its_name_and_a_tasks_or_a_streams_is_not() -> None:
    recorder = Kept()
    assert measured(kind(), recorder, study_id="abc", name="Mine") == 14
    assert recorder.studies == [("toy", "abc", 14, "Mine")]
    measured(kind(streams=True), recorder)
    measured(Task(name="toy", describe=str, run=lambda *_: 1), recorder)
    assert len(recorder.studies) == 1


def test_whoever_waits_learns_the_time_left_and_who_watches_the_progress() -> None:
    at, seen, left = Progress("measuring", "x", 0, 0, 0.0, 50.0), [], []

    def run(tools: StudyTools, _: int) -> None:
        tools.report(at)
        left.append(left_s())

    measured(Task(name="toy", describe=str, run=run), seen=seen)
    assert seen == [at]
    assert left[0] == pytest.approx(50, abs=2)


@pytest.mark.usefixtures("no_patience")
def test_one_measurement_at_a_time_unless_it_is_elsewhere() -> None:
    with machine_lock("Another"):
        with pytest.raises(Busy, match="Another"):
            measured(kind())
        assert measured(Task(name="toy", describe=str, run=lambda *_: 3, here=False)) == 3
