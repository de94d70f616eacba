"""``fleet``: its flags, files, output and exit status; on a simulated cluster, and without the answer."""

import json
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from core.base.schema import UserError
from core.cli.fleet import labels
from core.store import Store
from core.studies.fleet.record import FleetPlan, FleetStudy
from core.studies.kind import Kind
from core.studies.registry import kinds
from simulated.commands import Command, as_json, done, holds, refused
from simulated.fleets import Planned, SimulatedCluster, machines, template
from simulated.runs import make_run

OLD = Path(__file__).parents[2] / "fixtures" / "8e67b6e"
OLD_PLANS = [item["file"] for item in json.loads((OLD / "index.json").read_text()) if item["kind"] == "plan"]
MADE = template()
PLAIN: Kind[Any, Any, Any] = Kind(
    name="fleet", title="Fleet", record=FleetStudy, describe=str, run=lambda *_: None,
    answer=lambda study, _: len(study.runs), text=lambda *_: "the verdict",
    export=lambda study, *_: {"record": study.model_dump(mode="json")},
)  # fmt: skip
Clusters = Callable[[list[Planned]], SimulatedCluster]


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("core.cli.fleet.fleet_kind", lambda: PLAIN)
    monkeypatch.delenv("BREAKEVEN_RAY_ADDRESS", raising=False)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Clusters:
    def given(planned: list[Planned]) -> SimulatedCluster:
        made = SimulatedCluster(planned, MADE)

        @contextmanager
        def connected(plan: FleetPlan) -> Iterator[SimulatedCluster]:
            from core.studies.fleet.run import check_fleet

            check_fleet(plan)
            yield made
            made.close()

        monkeypatch.setattr("core.studies.fleet.run.connected", connected)
        monkeypatch.setattr("core.worker.clock.WallClock", lambda: made.clock)
        return made

    return given


@pytest.fixture
def plan_file(tmp_path: Path) -> Path:
    path = tmp_path / "plan.json"
    path.write_text(MADE.plan.model_dump_json())
    return path


def run_file(folder: Path, name: str, seed: int, host: str) -> Path:
    run = make_run(seed, batches=(1, 8, 64), processes=1, passes=1)
    environment = run.environment.model_copy(update={"hostname_hash": host})
    path = folder / name
    path.write_text(run.model_copy(update={"environment": environment}).to_json())
    return path


def study_in(path: Path) -> FleetStudy:
    return FleetStudy.from_data(json.loads(path.read_text())["record"])


def test_it_measures_a_plan_and_writes_every_run(
    cli: Command, cluster: Clusters, plan_file: Path, tmp_path: Path
) -> None:
    made = cluster(machines(3, [None, "lost", "refuses"]))
    out = tmp_path / "fleet.json"
    prices = ("--price", "node0=2.50", "--currency", "EUR")
    said, err = done(cli("fleet", plan_file, "--address", "auto", *prices, "--out", out, "--no-store"))
    assert said == "the verdict\n"
    study = study_in(out)
    assert [machine.state for machine in study.machines] == ["finished", "finished", "refused"]
    assert [len(run.rounds) for run in study.runs] == [len(MADE.rounds)] * 2
    assert (study.plan.prices["node0"].per_hour, study.plan.prices["node0"].currency) == (2.5, "EUR")
    holds(err, "of 3 machines", "node2: refused", "node1: It was", "once more: ")
    assert made.closed


@pytest.mark.parametrize("name", OLD_PLANS)
def test_plans_of_earlier_files_run_unchanged(cli: Command, cluster: Clusters, name: str, tmp_path: Path) -> None:
    cluster(machines(1))
    out = tmp_path / "fleet.json"
    result = cli("fleet", OLD / name, "--address", "auto", "--out", out, "--no-store")
    if name == "plan_code.json":
        assert "Code of your" in refused(result)
        return
    done(result)
    old = json.loads((OLD / name).read_text())
    assert [target["device"] for target in old["targets"]] == [t.device for t in study_in(out).plan.sweep.targets]
    assert study_in(out).machines[0].state == "finished"


def test_machines_are_chosen_by_flags(cli: Command, cluster: Clusters, plan_file: Path) -> None:
    cluster(machines(8))
    rest = ("--address", "auto", "--no-store", "--json")
    found = as_json(cli("fleet", plan_file, "--machines", "kind=kind2", "zone=a,kind=kind1", *rest))["record"]
    assert [machine["name"] for machine in found["machines"]] == ["node2", "node1"]
    cluster(machines(8))
    assert len(as_json(cli("fleet", plan_file, "--each", "zone", *rest))["record"]["machines"]) == 2


def test_ctrl_c_keeps_what_came_home(
    cli: Command, cluster: Clusters, plan_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = cluster(machines(2))
    answers = made.answers

    def interrupted(wait_s: float) -> Any:
        if made.clock.now_s() > 5 and not made.cancelled:
            signal.raise_signal(signal.SIGINT)
        return answers(wait_s)

    monkeypatch.setattr(made, "answers", interrupted)
    found = as_json(cli("fleet", plan_file, "--address", "auto", "--no-store", "--json"))["record"]
    assert found["status"] == "cancelled"
    assert [machine["state"] for machine in found["machines"]] == ["cancelled"] * 2
    assert all(run["rounds"] for run in found["runs"])


def test_where_nothing_could_be_measured_it_fails(cli: Command, cluster: Clusters, plan_file: Path) -> None:
    cluster(machines(1, ["refuses"]))
    status, out, err = cli("fleet", plan_file, "--address", "auto", "--no-store")
    assert (status, out) == (1, "")
    assert "No machine could" in err


def test_files_are_collected_and_damaged_ones_cost_themselves(cli: Command, tmp_path: Path) -> None:
    first, second = run_file(tmp_path, "a100.json", 1, "a"), run_file(tmp_path, "t4.json", 2, "b")
    damaged = tmp_path / "damaged.json"
    damaged.write_text('{"schema_version": 1, "ro')
    out = tmp_path / "fleet.json"
    _, err = done(cli("fleet", "--collect", first, second, damaged, tmp_path / "none.json", "--out", out, "--no-store"))
    assert [machine.name for machine in study_in(out).machines] == ["a100", "t4"]
    holds(err, "damaged.json: ", "none.json cannot")
    third = run_file(tmp_path, "h100.json", 3, "c")
    added = as_json(cli("fleet", "--collect", out, third, "--no-store", "--json"))["record"]
    assert [machine["name"] for machine in added["machines"]] == ["a100", "t4", "h100"]


def test_what_was_measured_or_collected_is_in_the_history(
    cli: Command, cluster: Clusters, plan_file: Path, tmp_path: Path
) -> None:
    cluster(machines(2))
    done(cli("fleet", plan_file, "--address", "auto", "--name", "Two of them"))
    done(cli("fleet", "--collect", run_file(tmp_path, "a100.json", 1, "a"), run_file(tmp_path, "t4.json", 2, "b")))
    store = Store()
    for summary in store.summaries("fleet"):
        study = store.study(kinds()["fleet"], summary.id)
        assert study.runs == ()
        assert all(store.load(machine.run_id).rounds for machine in study.machines)
    assert {summary.name for summary in store.summaries("fleet")} >= {"Two of them"}
    store.close()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "A fleet run needs a plan in JSON"),
        (("PLAN",), "needs the address of a Ray cluster: --address, or BREAKEVEN_RAY_ADDRESS"),
        (("PLAN", "--address", "auto", "--machines", "gpu"), "“gpu” names no labels; accepted is label=value"),
        (("PLAN", "--address", "auto", "--machines", "a=b", "--each", "a"), "both choose machines"),
        (("PLAN", "--address", "auto", "--each", "colour"), "No machine of the cluster has the label colour"),
        (("PLAN", "--address", "auto", "--price", "node0"), "“node0” is no price"),
        (("PLAN", "--address", "auto", "--price", "node0=dear"), "“dear” is no price"),
        (("PLAN", "--collect", "PLAN"), "--collect measures nothing; leave out the plan"),
        (("--collect", "PLAN"), "No file holds a run with a plan"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    cli: Command, cluster: Clusters, plan_file: Path, arguments: tuple[str, ...], words: str
) -> None:
    cluster(machines(2))
    given = [plan_file if argument == "PLAN" else argument for argument in arguments]
    status, out, err = cli("fleet", *given, "--no-store")
    assert (status, out) == (2, "")
    assert words in err.splitlines()[-1]


def test_labels_are_read_as_they_are_meant() -> None:
    assert labels("gpu=a100, zone = b") == {"gpu": "a100", "zone": "b"}
    assert labels("path=a=b") == {"path": "a=b"}
    for wrong in ("", "gpu", "=a", "gpu=", "gpu=a,,zone=b"):
        with pytest.raises(UserError, match="names no labels"):
            labels(wrong)
