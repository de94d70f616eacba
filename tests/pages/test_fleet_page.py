"""The Fleet page: its sentences on machines, its offers with and without a cluster, and the history's list."""

import json
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from core.store import RunNotFound, Wanted
from core.studies.fleet.answer import answer_of
from core.studies.fleet.kind import FLEET
from core.studies.fleet.record import FleetPlan, FleetStudy
from core.studies.fleet.run import RAY_ADDRESS
from core.studies.progress import Progress
from core.ui import registry
from core.ui.fleet.form import NO_CLUSTER, collected
from core.ui.fleet.page import QUESTION
from simulated.commands import holds
from simulated.fleet_studies import LARGE, MIDDLE, SMALL, make_fleet
from simulated.pages import open_page, running, says, unfold

BATCHES = (1, 8, 64, 512)
OVER, COST = "2 machines over each other: speed-up over sim-{}", "Cost of a million samples"


@pytest.fixture
def study() -> FleetStudy:
    return make_fleet((SMALL, LARGE), second=(MIDDLE, MIDDLE), batches=BATCHES, absent=1)


@pytest.fixture
def kept(engine: Any, study: FleetStudy) -> str:
    return str(engine.store.import_study("fleet", study).id)


def titles(at: AppTest) -> list[str]:
    """Return the titles of the charts; the strip above a plot has bold words, too."""
    return [json.loads(chart.proto.spec)["layout"]["meta"]["words"]["title"] for chart in at.get("plotly_chart")]


def field(at: AppTest, label: str) -> Any:
    return next(box for box in at.selectbox if box.label == label)


@pytest.mark.usefixtures("engine")
def test_without_a_fleet_run_it_says_how_to_come_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(RAY_ADDRESS, raising=False)
    at = open_page("fleet")
    assert [title.value for title in at.title] == [QUESTION]
    says(at, NO_CLUSTER)
    assert len(at.get("file_uploader")) == 1


def test_it_says_which_machine_is_the_fastest_with_one_picture_and_a_table(kept: str, study: FleetStudy) -> None:
    at = open_page("fleet", study=kept)
    says(at, answer_of(study, {}).sentence, "2 machines compared")
    assert titles(at) == [OVER.format(0)]
    rows = at.table[0].value
    assert rows.iloc[:, 0].tolist() == ["sim-0", "sim-1"]
    says(unfold(at), "of lost-0: Its")


def test_another_baseline_and_a_single_target_are_asked_for_and_stand_in_the_address(kept: str) -> None:
    at = open_page("fleet", study=kept)
    field(at, "Baseline").select("sim-1").run()
    assert titles(at) == [OVER.format(1)]
    field(at, "Of each machine").select(1).run()
    assert at.query_params["baseline"] == "sim-1"
    assert at.query_params["target"] == "2"
    again = open_page("fleet", study=kept, baseline="sim-1", target="2")
    assert titles(again) == titles(at)
    assert field(again, "Of each machine").value == 1


def test_prices_make_costs(kept: str, engine: Any) -> None:
    at = open_page("fleet", study=kept, folds=[COST])
    assert titles(at) == [OVER.format(0)]
    priced = make_fleet((SMALL, LARGE), prices={"sim-0": 1.0, "sim-1": 3.0}, batches=BATCHES)
    with_prices = engine.store.import_study("fleet", priced).id
    at = open_page("fleet", study=with_prices, folds=[COST])
    says(at, "Cheapest sample", "2026-11-01")
    assert titles(at)[1] == f"{COST} by batch size"


def test_embedded_it_is_the_result_alone(kept: str) -> None:
    at = open_page("fleet", study=kept, embedded=True, baseline="sim-1")
    assert not at.title
    assert not at.selectbox
    assert titles(at) == [OVER.format(1)]


def test_a_single_machine_supports_no_comparison_and_its_state_is_shown(engine: Any) -> None:
    alone = engine.store.import_study("fleet", make_fleet((SMALL,), batches=BATCHES, absent=1)).id
    at = open_page("fleet", study=alone)
    says(at, "Only one machine", "of 2 machines")
    assert at.dataframe[0].value["state"].tolist() == ["Lost (2 starts)", "Finished"]


def test_with_a_cluster_it_starts_the_plan_of_a_sweep_there(
    engine: Any, study: FleetStudy, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = study.runs[0]
    engine.store.add(run)
    monkeypatch.setenv(RAY_ADDRESS, "ray://head:10001")
    at = open_page("fleet")
    next(b for b in at.button if b.key == "measure_fleet").click().run()
    ((task, plan),) = engine.jobs.started
    assert task is FLEET
    assert plan == FleetPlan(sweep=run.plan, address="ray://head:10001")
    at = open_page("fleet")
    next(c for c in at.get("button_group") if c.label == "Machines").set_value("By labels").run()
    at.text_area[0].set_value("kind=a100\nkind=h100, zone=eu").run()
    next(b for b in at.button if b.key == "measure_fleet").click().run()
    assert engine.jobs.started[-1][1].machines == ({"kind": "a100"}, {"kind": "h100", "zone": "eu"})


def test_while_it_runs_the_machines_are_seen_and_what_they_say_so_far(engine: Any, study: FleetStudy) -> None:
    for run in study.runs:
        engine.store.import_run(run)
    apart = study.kept_apart({run.id: run.id for run in study.runs})
    now = Progress("measuring", "Measuring on 3 machines", 2, 3, 30.0, 90.0, record=apart)
    engine.jobs.show(running("fleet", "A fleet", now, record=apart))
    at = open_page("fleet")
    holds(at.get("progress")[0].proto.text, "3 machines", "2 of 3")
    says(at, f"**So far:** {answer_of(study, {}).sentence}")
    assert at.dataframe[0].value["machine"].tolist() == ["lost-0", "sim-0", "sim-1"]


def test_a_thousand_machines_are_six_curves_and_a_grey_area(engine: Any) -> None:
    shapes = [(0.3 + 0.01 * n, 0.02 / (1 + 0.1 * n)) for n in range(9)]
    kept = engine.store.import_study("fleet", make_fleet(shapes, batches=BATCHES)).id
    at = open_page("fleet", study=kept, machines="sim-4")
    spec = json.loads(at.get("plotly_chart")[0].proto.spec)
    named = [trace["name"] for trace in spec["data"] if trace.get("showlegend") is not False]
    assert named[0] == f"{9 - (len(named) - 1)} other machines"
    assert len(named) <= 7
    assert "sim-4" in named
    assert "sim-0 (baseline)" in named


@pytest.mark.usefixtures("kept")
def test_the_history_lists_the_fleet_run_alone_and_its_runs_when_asked(study: FleetStudy, select: Any) -> None:
    at = open_page("history")
    assert at.dataframe[0].value["kind"].tolist() == ["Fleet run"]
    select(at, 0)
    at.button(key="into_fleet").click().run()
    assert at.dataframe[0].value["name"].tolist() == ["simulated 1", "simulated 0"]
    says(at, f"“{study.title}”")
    at.button(key="out_of_fleet").click().run()
    assert at.dataframe[0].value["kind"].tolist() == ["Fleet run"]


def test_deleting_it_in_the_history_and_undo_take_and_bring_its_runs(kept: str, engine: Any, select: Any) -> None:
    run_id = engine.store.study(FLEET, kept).part_ids[0]
    at = open_page("history")
    select(at, 0)
    at.button(key="delete").click().run()
    with pytest.raises(RunNotFound):
        engine.store.load(run_id)
    at.button(key="undo").click().run()
    assert engine.store.load(run_id).rounds
    assert engine.store.find(Wanted(), 5).total == 1


def test_files_become_one_fleet_run_and_its_file_holds_the_runs(kept: str, engine: Any, study: FleetStudy) -> None:
    found = collected([(f"{run.id}.json", run.to_json().encode()) for run in study.runs])
    assert {run.id for run in found.runs} == {run.id for run in study.runs}
    whole = registry.whole(FLEET, engine.store.study(FLEET, kept))
    assert collected([("fleet.json", whole.to_json().encode())]).runs == whole.runs
    assert answer_of(whole, {}).sentence == answer_of(study, {}).sentence
