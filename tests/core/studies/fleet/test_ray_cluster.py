"""A real Ray cluster of three nodes on this machine. The fleet's own code there is real; most workers are simulated,
each with its own process that must be gone in the end.

The nodes share the machine's lock, as nodes of one machine must: the engine itself measures on one after the other.
Only simulated nodes, which measure nothing, have a lock each.
"""

import json
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from core.base.evidence import Process
from core.base.schema import UserError
from core.cli import main
from core.rounds.plan import SweepPlan
from core.studies.fleet import run as fleet_run
from core.studies.fleet.cluster import Update
from core.studies.fleet.node import NodeRun
from core.studies.fleet.ray_cluster import RayCluster
from core.studies.fleet.record import FleetPlan, FleetStudy
from core.studies.fleet.run import run_fleet
from core.studies.runner import Stop
from core.workload.spec import Target, Workload
from simulated.fleets import FleetRecorder
from tests.support.ray_nodes import A_NODE, CLUSTER, LONG, SimulatedNode, children, fleet_plan, start_driver, tools

pytestmark = [pytest.mark.ray, pytest.mark.timeout(180)]
ROOT = Path(__file__).parents[4]
PLACES = ("first", "second", "third")
PATIENCE_S = 60.0
CPUS = 2
BUSY = "Other work holds CPUs or GPUs of it; it is measured when all of them are free."
STOPPED_S = 6.0  # 3 s on an otherwise idle machine


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Yield a head that computes nothing, and three nodes of two CPUs."""
    pytest.importorskip("ray", reason="requirements-fleet.txt is not installed")
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as patch:
        if os.geteuid() != 0:  # root corrects Ray's default
            patch.setenv("RAY_worker_niceness", "0")
        patch.setenv("PYTHONPATH", str(ROOT))
        patch.setenv(CLUSTER, str(tmp_path_factory.getbasetemp()))
        patch.setenv("BREAKEVEN_LOCK_DIR", str(tmp_path_factory.mktemp("lock")))
        patch.delenv("OMP_NUM_THREADS", raising=False)
        made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
        made.places = {}
        for place in PLACES:
            add(made, place)
        made.wait_for_nodes()
        yield made
        made.shutdown()


def add(cluster: Any, place: str) -> None:
    cluster.places[place] = cluster.add_node(num_cpus=CPUS, labels={"place": place})


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    yield
    until(lambda: not children(), "a worker still runs")


def until(holds: Callable[[], bool], what: str) -> None:
    end_s = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < end_s, what
        time.sleep(0.1)


def measured(
    cluster: Any, plan: FleetPlan, report: Any = lambda _: None, recorder: Any = None, cancel: Any = None,
    actor: type[NodeRun] = SimulatedNode,
) -> FleetStudy:  # fmt: skip
    ray = RayCluster(cluster.address, actor)
    try:
        return run_fleet(tools(cancel or threading.Event(), report, recorder or FleetRecorder()), plan, ray)
    finally:
        ray.close()


def states(study: FleetStudy) -> dict[str, str]:
    return {machine.labels["place"]: machine.state for machine in study.machines}


def test_a_run_comes_home_from_every_node_though_connections_break(
    cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    import ray

    arrive, polls = ray.get, []

    def breaks(ref: Any) -> Any:
        """Lose every third answer."""
        answer = arrive(ref)
        if isinstance(answer, Update):
            polls.append(answer)
            if len(polls) % 3 == 0:
                raise ray.exceptions.ActorUnavailableError("its connection broke", None)
        return answer

    monkeypatch.setattr(ray, "get", breaks)
    recorder = FleetRecorder()
    study = measured(cluster, fleet_plan(*PLACES), recorder=recorder)
    assert len(polls) > 9
    assert [machine.starts for machine in study.machines] == [1, 1, 1]
    assert states(study) == dict.fromkeys(PLACES, "finished")
    for machine in study.machines:
        rounds = recorder.rounds(machine.run_id)
        assert [item.index for item in rounds] == list(range(len(rounds)))
        assert len(rounds) > 10
        assert recorder.runs[machine.run_id].environment.hostname_hash
        assert recorder.finished[machine.run_id] == "finished"


def test_a_node_that_is_killed_costs_its_machines_cells_alone(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet_run, "RETURN_S", 2.0)
    recorder, killed = FleetRecorder(), threading.Event()

    def report(progress: Any) -> None:
        if not killed.is_set() and all(machine.run_id for machine in progress.record.machines):
            killed.set()
            cluster.remove_node(cluster.places["second"], allow_graceful=False)

    study = measured(cluster, fleet_plan(*PLACES, sweep=LONG), report, recorder)
    assert killed.is_set()
    assert states(study) == {"first": "finished", "second": "lost", "third": "finished"}
    lost = next(machine for machine in study.machines if machine.state == "lost")
    assert recorder.rounds(lost.run_id)
    assert recorder.finished[lost.run_id] == "interrupted"
    assert "rounds came home" in lost.reason
    add(cluster, "second")
    cluster.wait_for_nodes()


def test_a_driver_that_is_killed_leaves_nothing_running(cluster: Any) -> None:
    driver = start_driver(cluster.address, *PLACES)
    until(lambda: len(children()) >= A_NODE * len(PLACES), "the workers never started")
    driver.send_signal(signal.SIGKILL)
    driver.wait()
    begin_s = time.monotonic()
    until(lambda: not children(), "a worker outlived the driver")
    assert time.monotonic() - begin_s < 30


def test_two_fleets_share_no_machine_and_both_finish(cluster: Any) -> None:
    other = start_driver(cluster.address, *PLACES)
    until(lambda: len(children()) >= A_NODE, "the other fleet never started")
    waits, most = set(), 0

    def report(progress: Any) -> None:
        nonlocal most
        most = max(most, len(children()))
        waits.update(machine.reason for machine in progress.record.machines if machine.state == "waiting")

    study = measured(cluster, fleet_plan(*PLACES), report)
    said = other.communicate(timeout=PATIENCE_S)[0]
    assert states(study) == dict.fromkeys(PLACES, "finished")
    assert said.count(" finished: ") == len(PLACES)
    assert most <= A_NODE * len(PLACES)
    assert BUSY in waits


def test_on_a_busy_node_it_waits_says_so_and_goes_on(cluster: Any) -> None:
    ray = RayCluster(cluster.address, SimulatedNode)
    import ray as module

    sleeper = module.remote(num_cpus=1, label_selector={"place": "third"})(Sleeper).remote()
    module.get(sleeper.here.remote())
    seen = []

    def report(progress: Any) -> None:
        [machine] = progress.record.machines
        if machine.state == "waiting" and machine.reason and not seen:
            seen.append(machine.reason)
            module.kill(sleeper)

    try:
        study = run_fleet(tools(threading.Event(), report, FleetRecorder()), fleet_plan("third"), ray)
    finally:
        ray.close()
    assert seen == [BUSY]
    assert states(study) == {"third": "finished"}
    assert study.machines[0].waited_s > 1


class Sleeper:
    def here(self) -> bool:
        return True


def test_a_wish_to_stop_ends_every_node_within_three_seconds(cluster: Any) -> None:
    wish, since = Stop(), []

    def report(progress: Any) -> None:
        if all(machine.run_id for machine in progress.record.machines) and not wish.is_set():
            wish.set()
            since.append(time.monotonic())

    ray = RayCluster(cluster.address, SimulatedNode)
    try:
        study = run_fleet(tools(wish, report, FleetRecorder()), fleet_plan(*PLACES, sweep=LONG), ray)
        assert time.monotonic() - since[0] < STOPPED_S
        until(lambda: not children(), "a worker still runs")
        print(f"stopped after {time.monotonic() - since[0]:.1f} s")
    finally:
        ray.close()
    assert states(study) == dict.fromkeys(PLACES, "cancelled")
    assert all(machine.run_id for machine in study.machines)


def test_what_a_nice_node_measures_is_never_reported(cluster: Any) -> None:
    """Measure as under Ray's defaults if niceness may not be lowered."""
    with pytest.raises(UserError, match=r"niceness 15.*RAY_worker_niceness=0"):
        measured(cluster, fleet_plan("first"), actor=NiceNode)


class NiceNode(SimulatedNode):
    """Node whose workers report what they run with under Ray's defaults."""

    def poll(self, last_seq: int) -> Update:
        held = {"niceness": 15, "inherited_threads": {"OMP_NUM_THREADS": "1"}}
        update = super().poll(last_seq)
        records = (r.model_copy(update=held) if isinstance(r, Process) else r for r in update.records)
        return replace(update, records=tuple(records))


def test_the_engine_itself_on_three_nodes_by_the_command(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Run the shipped code, the store and the file, with Ray's default niceness corrected or not a problem."""
    plan = SweepPlan(
        workload=Workload(network="784-16-10"), targets=(Target(threads=1),), batches=(1, 64), refine=False,
        trace=False, budget_s=40.0, step_width=1.0,
    )  # fmt: skip
    (tmp_path / "plan.json").write_text(plan.model_dump_json())
    monkeypatch.chdir(tmp_path)
    status = main(
        ["fleet", "plan.json", "--address", cluster.address, "--each", "place", "--out", "fleet.json", "--json"]
    )
    captured = capfd.readouterr()
    assert status == 0, captured.err
    study = FleetStudy.from_data(json.loads(Path("fleet.json").read_text())["record"])
    assert states(study) == dict.fromkeys(PLACES, "finished")
    for machine in study.machines:
        run = study.run_of(machine)
        assert len(run.rounds) > 10
        assert {process.niceness for process in run.processes} == {0}
        assert {tuple(process.inherited_threads) for process in run.processes} == {()}
        assert run.environment.versions["tensorflow"]


def test_an_address_where_nothing_is_is_one_sentence() -> None:
    pytest.importorskip("ray", reason="requirements-fleet.txt is not installed")
    for address, words in (
        ("127.0.0.1:1", "No Ray cluster answers at 127.0.0.1:1: "),
        ("ray://127.0.0.1:1", "No Ray cluster answers at ray://127.0.0.1:1: "),
        ("head", "“head” is no address of a Ray cluster; accepted are auto"),
    ):
        with pytest.raises(UserError, match=re.escape(words)):
            RayCluster(address)
