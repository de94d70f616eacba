"""Runs of several machines from files become one fleet run: names, duplicate machines, incomparable runs."""

from pathlib import PurePath
from typing import Any

import pytest

from core.base.evidence import Environment
from core.base.schema import UserError
from core.rounds.run import Run
from core.studies.fleet.collect import Found, collect
from core.studies.fleet.record import FleetStudy, MachinePrice
from simulated.runs import make_run, planned

PRICE = MachinePrice(per_hour=2.5, currency="USD", dated="2026-11-22")


def run_on(host: str, seed: int = 0, **changes: Any) -> Run:
    made = make_run(seed, batches=(1, 8, 64), processes=1, passes=1)
    environment = made.environment.model_copy(update={"hostname_hash": host})
    return made.model_copy(update={"environment": environment} | changes)


def found(*files: tuple[str, Run]) -> list[Found]:
    return [Found(PurePath(path), run) for path, run in files]


def test_each_file_is_a_machine_with_the_name_of_the_file() -> None:
    study = collect(found(("out/a100.json", run_on("a", 1)), ("out/t4.json", run_on("b", 2))), {"t4": PRICE})
    assert [(m.name, m.state, m.reason) for m in study.machines] == [("a100", "finished", ""), ("t4", "finished", "")]
    assert [run.label for run in study.runs] == ["recorded", "recorded"]
    assert study.run_of(study.machines[1]).id == run_on("b", 2).id
    assert study.plan.prices == {"t4": PRICE}
    assert study.plan.address is None
    assert study.warnings == ()
    assert FleetStudy.from_json(study.to_json()) == study


def test_files_of_one_name_are_told_apart_by_folder_then_hardware_then_number() -> None:
    study = collect(found(("n1/run.json", run_on("a", 1)), ("n2/run.json", run_on("b", 2)), ("c.json", run_on("c", 3))))
    assert [machine.name for machine in study.machines] == ["n1", "n2", "c"]
    study = collect(found(("x/run.json", run_on("a", 1)), ("x/run.json", run_on("b", 2))))
    assert [machine.name for machine in study.machines] == ["Example CPU at 2.4 GHz", "Example CPU at 2.4 GHz (2)"]


def test_of_two_files_of_a_machine_the_one_with_more_rounds_counts() -> None:
    few = run_on("a", 1)
    few = few.model_copy(update={"rounds": few.rounds[:3]})
    study = collect(found(("few.json", few), ("more.json", run_on("a", 2)), ("other.json", run_on("b", 3))))
    assert [machine.name for machine in study.machines] == ["more", "other"]
    [warning] = study.warnings
    assert warning.text.startswith("few.json")
    assert f"has {len(run_on('a', 2).rounds)} rounds" in warning.text


def test_without_an_environment_files_are_different_machines_unless_they_hold_the_same_run() -> None:
    bare = [run_on("a", seed, environment=None) for seed in (1, 2)]
    study = collect(found(("a.json", bare[0]), ("b.json", bare[1]), ("copy.json", bare[0])))
    assert len(study.machines) == 2
    assert "copy.json" in study.warnings[0].text or "a.json" in study.warnings[0].text
    nameless = [run_on("", seed) for seed in (1, 2)]
    assert len(collect(found(("a.json", nameless[0]), ("b.json", nameless[1]))).machines) == 2


def test_what_cannot_be_compared_is_refused_with_its_reason_and_the_rest_stands() -> None:
    process = run_on("n", 4).processes[0].model_copy(update={"niceness": 15})
    study = collect(
        found(
            ("a.json", run_on("a", 1)),
            ("b.json", run_on("b", 2)),
            ("else.json", planned(run_on("c", 3), targets=run_on("c", 3).plan.targets[:1])),
            ("nice.json", run_on("n", 4, processes=(process,))),
            ("points.json", run_on("p", 5, plan=None)),
            ("empty.json", run_on("e", 6, rounds=())),
            ("stopped.json", run_on("s", 7, status="interrupted")),
            ("cancelled.json", run_on("t", 8, status="cancelled")),
        ),
        unread=("damaged.json: it is no JSON.",),
    )
    states = {machine.name: (machine.state, machine.reason) for machine in study.machines}
    assert states["a"] == ("finished", "")
    assert states["else"][0] == "refused"
    assert "something else" in states["else"][1]
    assert states["nice"][0] == "refused"
    assert "niceness 15" in states["nice"][1]
    assert states["points"][0] == states["empty"][0] == "refused"
    assert states["stopped"][0] == "lost"
    assert states["cancelled"][0] == "cancelled"
    assert [run.id for run in study.runs] == [run_on("x", seed).id for seed in (1, 2, 7, 8)]
    assert [warning.text.split(":")[0] for warning in study.warnings] == ["damaged.json"]


def test_the_plan_of_most_files_counts_and_budgets_do_not_matter() -> None:
    other = planned(run_on("a", 1), batches=(1, 2))
    longer = planned(run_on("b", 2), budget_s=90.0, crossover_width=0.1)
    odd = planned(run_on("c", 3), targets=run_on("c", 3).plan.targets[:1])
    study = collect(found(("odd.json", odd), ("other.json", other), ("longer.json", longer)))
    assert [machine.state for machine in study.machines] == ["refused", "finished", "finished"]
    assert study.plan.sweep == other.plan


def test_nothing_to_compare_is_one_sentence() -> None:
    with pytest.raises(UserError, match=r"x\.json: it is"):
        collect([], unread=("x.json: it is empty.",))


def test_a_machine_is_its_host_processor_and_gpus() -> None:
    first = run_on("same", 1)
    other = Environment.model_validate(first.environment.model_dump() | {"cpu": "Another CPU"})
    study = collect(found(("a.json", first), ("b.json", run_on("same", 2, environment=other))))
    assert len(study.machines) == 2
