"""A run's words for the way in which its workers were started."""

from __future__ import annotations

from core.base.evidence import Process
from core.rounds.show.export import placement_lines, start_lines
from simulated.runs import make_run


def process(index: int, **said: object) -> Process:
    return Process.model_validate({"pid": 1, "device": "CPU:0", "target": 0, "index": index, "startup_ms": 90.0} | said)


def test_forks_and_fresh_starts_are_counted_and_a_run_without_a_record_says_nothing() -> None:
    run = make_run(1)
    assert start_lines(run) == []
    of = (process(0, start="fresh", startup_ms=3100.0), process(1, start="forked"), process(2, start="forked"))
    run = run.model_copy(update={"processes": of})
    (line,) = start_lines(run)
    assert line == (
        "Worker processes: 2 forked from a process that had imported the framework and 1 started afresh; the longest "
        "start took 3.1 s"
    )
    assert line in placement_lines(run)
    assert "afresh" not in start_lines(run.model_copy(update={"processes": of[1:]}))[0]
