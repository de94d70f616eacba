"""A fleet on a simulated cluster: every measurement arrives once, whatever machines do; faults cost only themselves."""

import threading
from collections import Counter
from typing import Any

import pytest

from core.base.schema import UserError
from core.studies.fleet.record import FleetStudy
from core.studies.fleet.run import run_fleet
from core.studies.runner import Cancelled, Stop, StudyFailed
from simulated.fleets import (
    HARMLESS,
    RETRIED,
    Fault,
    FleetRecorder,
    Planned,
    SimulatedCluster,
    fleet_plan,
    machines,
    records_of,
    template,
    tools_on,
)

MADE = template()
MANY = 150
WHY: dict[Fault, str] = {
    "hangs": "It has not answered for 45 s.", "slow": "Its run took longer than 11 min 15 s.",
    "begin_lost": "Its node has left the cluster.", "interrupted": "It broke.",
}  # fmt: skip


def measured(planned: list[Planned], recorder: FleetRecorder, report: Any = None, **plan: Any) -> FleetStudy:
    cluster = SimulatedCluster(planned, MADE)
    options = {"report": report} if report else {}
    study = run_fleet(tools_on(cluster, recorder, **options), fleet_plan(MADE, **plan), cluster)
    assert not cluster.running, "something still runs"
    return study


def is_whole(recorder: FleetRecorder, run_id: str) -> bool:
    """Check that every record of the truth arrived once, in order."""
    return recorder.records[run_id] == list(records_of(MADE)) and recorder.finished[run_id] == "finished"


def test_every_machine_has_its_own_whole_run_with_its_environment() -> None:
    recorder = FleetRecorder()
    study = measured(machines(5), recorder)
    assert [machine.name for machine in study.machines] == [f"node{n}" for n in range(5)]
    assert {machine.state for machine in study.machines} == {"finished"}
    assert len({machine.run_id for machine in study.machines}) == 5
    for machine in study.machines:
        assert is_whole(recorder, machine.run_id)
        run = recorder.runs[machine.run_id]
        assert (run.label, run.plan) == ("recorded", MADE.plan)
        assert run.environment.cpu.startswith("Example CPU")
    assert study.status == "finished"
    assert study.runs == ()


@pytest.mark.parametrize("fault", RETRIED)
def test_a_machine_that_is_lost_is_started_once_more_and_the_others_go_on(fault: Fault) -> None:
    recorder = FleetRecorder()
    study = measured(machines(3, [None, fault]), recorder)
    assert [machine.starts for machine in study.machines] == [1, 2, 1]
    assert {machine.state for machine in study.machines} == {"finished"}
    assert all(is_whole(recorder, machine.run_id) for machine in study.machines)
    others = set(recorder.finished) - {machine.run_id for machine in study.machines}
    assert {recorder.finished[run_id] for run_id in others} <= {"interrupted"}
    assert all(recorder.rounds(run_id) for run_id in others), "a run without a round is not kept"


@pytest.mark.parametrize("fault", RETRIED)
def test_lost_twice_it_is_given_up_and_what_came_home_stands(fault: Fault) -> None:
    planned = machines(2, [fault])
    planned[0].faults[2] = fault
    recorder = FleetRecorder()
    study = measured(planned, recorder)
    lost, other = study.machines
    assert (lost.state, lost.starts, other.state) == ("lost", 2, "finished")
    assert WHY.get(fault, "") in lost.reason
    if fault in ("lost", "hangs"):
        rounds = len(recorder.rounds(lost.run_id))
        assert 0 < rounds < len(MADE.rounds)
        assert f"{rounds} rounds came home" in lost.reason
        assert recorder.finished[lost.run_id] == "interrupted"
        assert recorder.rounds(lost.run_id) == list(MADE.rounds[:rounds])
    if fault == "begin_lost":
        assert lost.run_id is None


@pytest.mark.parametrize("fault", HARMLESS)
def test_a_connection_that_breaks_loses_no_round_and_counts_none_twice(fault: Fault) -> None:
    recorder = FleetRecorder()
    study = measured(machines(2, [fault]), recorder)
    assert [machine.starts for machine in study.machines] == [1, 1]
    assert all(is_whole(recorder, machine.run_id) for machine in study.machines)


@pytest.mark.parametrize(
    ("fault", "state", "words"),
    [
        ("refuses", "refused", "It has no GPU."),
        ("nice", "refused", "ran at niceness 15, so that all others came before them. Start it without."),
        ("nice_late", "refused", "ran at niceness 15"),
        ("threads", "refused", "inherited OMP_NUM_THREADS=1"),
        ("fails", "failed", "It broke."),
        ("empty", "failed", "It broke."),
    ],
)  # fmt: skip
def test_what_ends_a_machine_is_said_and_not_tried_again(fault: Fault, state: str, words: str) -> None:
    recorder = FleetRecorder()
    study = measured(machines(2, [fault]), recorder)
    ended, other = study.machines
    assert (ended.state, ended.starts, other.state) == (state, 1, "finished")
    assert words in ended.reason
    if state == "refused":
        assert ended.run_id is None
        assert set(recorder.records) == {other.run_id}, "nothing of it is kept"


def test_a_machine_that_does_not_return_is_replaced_by_one_with_the_same_labels() -> None:
    planned = machines(8, ["lost"], away_s=1e6)
    study = measured(planned, recorder := FleetRecorder(), machines=({"kind": "kind0"}, {"kind": "kind1"}))
    first, second = study.machines
    assert (first.state, first.starts, first.labels) == ("finished", 2, planned[4].node.labels)
    assert is_whole(recorder, first.run_id)
    assert second.labels == planned[1].node.labels


def test_a_machine_whose_ray_was_restarted_is_itself_again() -> None:
    planned = machines(2, ["lost"], away_s=60.0, restarts=True)
    study = measured(planned, recorder := FleetRecorder())
    first, other = study.machines
    assert (first.state, first.starts, first.labels) == ("finished", 2, planned[0].node.labels)
    assert first.labels["ray.io/node-id"] == "key-0-again"
    assert first.waited_s == pytest.approx(60, abs=3)
    assert is_whole(recorder, first.run_id)
    assert (other.state, other.starts) == ("finished", 1)


def test_a_machine_that_nothing_may_replace_is_waited_for_and_then_lost() -> None:
    back, away = machines(2, ["lost", "lost"], away_s=60.0)
    away.away_s = 1e6
    study = measured([back, away], FleetRecorder())
    assert [machine.state for machine in study.machines] == ["finished", "lost"]
    assert "within 2 min" in study.machines[1].reason


def test_a_busy_machine_is_waited_for_and_says_so() -> None:
    planned = machines(3, [None, None, "never_free"])
    planned[0].free_s = 30.0
    planned[1].waits_s = 12.0
    seen, left = Counter[tuple[str, str]](), dict[bool, set[float]]()

    def report(progress: Any) -> None:
        waits = any(machine.state == "waiting" for machine in progress.record.machines)
        left.setdefault(waits, set()).add(progress.remaining_s)
        seen.update((m.name, m.reason) for m in progress.record.machines if m.state == "waiting" and m.reason)

    study = measured(planned, FleetRecorder(), report, wait_s=100.0)
    assert [machine.state for machine in study.machines] == ["finished", "finished", "refused"]
    assert study.machines[2].reason == "It was not free within 1 min 40 s. Other work holds it."
    assert seen["node0", "Other work holds it."] > 10
    assert seen["node1", "Another measures."] > 5
    assert left[True] == {0.0}, "nobody knows how long other work takes"
    assert study.machines[0].rounds == len(MADE.rounds)
    assert study.machines[0].waited_s == pytest.approx(30, abs=2)
    assert study.machines[1].waited_s == pytest.approx(12, abs=4)


@pytest.mark.parametrize("stop", [threading.Event.set, Stop.interrupt])
def test_a_wish_to_stop_reaches_every_machine_within_three_seconds(stop: Any) -> None:
    planned = machines(6, [None, "hangs", None, "never_free"])
    planned[2].waits_s = 1000.0
    cluster, recorder, wish, since = SimulatedCluster(planned, MADE), FleetRecorder(), Stop(), []

    def report(_: Any) -> None:
        if cluster.clock.now_s() > 4.0 and not wish.is_set():
            stop(wish)
            since.append(cluster.clock.now_s())

    study = run_fleet(tools_on(cluster, recorder, report=report, cancel=wish), fleet_plan(MADE), cluster)
    assert cluster.clock.now_s() - since[0] <= 3.0
    assert not cluster.running
    assert set(cluster.cancelled) == set(cluster.planned)
    assert {machine.state for machine in study.machines} == {"cancelled"}
    assert study.status == wish.status
    kept = [machine for machine in study.machines if machine.run_id]
    assert len(kept) >= 3
    for machine in kept:
        rounds = recorder.rounds(machine.run_id)
        assert rounds == list(MADE.rounds[: len(rounds)])
        assert recorder.finished[machine.run_id] == wish.status


def test_stopped_before_anything_was_measured_leaves_nothing() -> None:
    cluster, recorder, wish = SimulatedCluster(machines(2), MADE), FleetRecorder(), Stop()
    wish.set()
    with pytest.raises(Cancelled):
        run_fleet(tools_on(cluster, recorder, cancel=wish), fleet_plan(MADE), cluster)
    assert not cluster.running
    assert not recorder.records


def test_where_no_machine_could_be_measured_the_first_reason_is_said() -> None:
    with pytest.raises(StudyFailed, match=r"node0: It has"):
        measured(machines(2, ["refuses", "refuses"]), FleetRecorder())


def test_an_error_here_leaves_nothing_running() -> None:
    class Full(FleetRecorder):
        def record(self, *_: Any) -> None:
            raise OSError("disk full")

    cluster = SimulatedCluster(machines(4), MADE)
    with pytest.raises(OSError, match="disk full"):
        run_fleet(tools_on(cluster, Full()), fleet_plan(MADE), cluster)
    assert not cluster.running


def test_an_error_of_the_recorder_in_the_end_leaves_no_other_machine_running_or_unfinished() -> None:
    class Broken(FleetRecorder):
        def record(self, run_id: str, records: Any) -> None:
            if len(self.runs) == 4 and all(map(self.rounds, self.runs)):
                raise KeyboardInterrupt
            super().record(run_id, records)

        def finish(self, run_id: str, status: Any, elapsed_s: float) -> None:
            super().finish(run_id, status, elapsed_s)
            raise OSError("disk full")

    cluster, recorder = SimulatedCluster(machines(4), MADE), Broken()
    with pytest.raises(OSError, match="disk full"):
        run_fleet(tools_on(cluster, recorder), fleet_plan(MADE), cluster)
    assert not cluster.running
    assert len(recorder.finished) == 4


def test_machines_are_chosen_by_labels_or_kind() -> None:
    def names(**plan: Any) -> list[str]:
        return [machine.name for machine in measured(machines(8), FleetRecorder(), **plan).machines]

    assert names(each="kind") == ["node0", "node1", "node2", "node3"]
    assert names(machines=({"zone": "a"}, {"zone": "a", "kind": "kind1"})) == ["node3", "node1"]
    assert names(machines=({"kind": "kind2"}, {"kind": "kind2"})) == ["node2", "node6"]
    for plan, words in (
        ({"machines": ({"kind": "kind9"},)}, "is left for the labels kind=kind9"),
        ({"machines": ({"kind": "kind1"},) * 3}, "2 machines have them"),
        ({"each": "colour"}, "No machine of the cluster has the label colour; there are kind, zone."),
    ):
        with pytest.raises(UserError, match=words):
            names(**plan)


def test_many_machines_with_faults_of_every_kind_lose_nothing() -> None:
    """Check that load stays bounded: one request per machine, and batches instead of a commit per round. A thousand of
    them are in benchmarks/fleet.py.
    """
    kinds: list[Fault | None] = [None, *RETRIED, *HARMLESS, "refuses", "nice", "fails"]
    planned = machines(MANY, [kinds[n % len(kinds)] for n in range(MANY)])
    cluster, recorder = SimulatedCluster(planned, MADE), FleetRecorder()
    study = run_fleet(tools_on(cluster, recorder), fleet_plan(MADE), cluster)
    for machine, one in zip(study.machines, planned, strict=True):
        fault = one.faults.get(1)
        if fault in ("refuses", "nice"):
            assert (machine.state, machine.run_id) == ("refused", None)
        elif fault == "fails":
            assert machine.state == "failed"
            assert recorder.rounds(machine.run_id) == list(MADE.rounds)
        else:
            assert machine.state == "finished"
            assert is_whole(recorder, machine.run_id)
            assert machine.starts == (2 if fault in RETRIED else 1)
    assert cluster.most_polls <= MANY
    assert recorder.commits < sum(len(records) for records in recorder.records.values()) / 10
    assert not cluster.running
