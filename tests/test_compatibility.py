"""Files that commit 8e67b6e left on users' disks still open, with the same content."""

import gzip
import json
import math
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from core.cli import main
from core.hardware.catalogue import read_own
from core.rounds.plan import SweepPlan
from core.rounds.show.imports import read_run
from core.store import Store
from core.studies.kind import Context
from core.studies.registry import kind_of, read_any
from core.workload.spec import Target

OLD = Path(__file__).parent / "fixtures" / "8e67b6e"
DATA = Path(__file__).parent.parent / "core" / "data"
INDEX = json.loads((OLD / "index.json").read_text())
COMMANDS = [
    command for command in json.loads((OLD / "expected" / "commands.json").read_text())
    if command["args"] != ["trace", "run.json"]  # refused then; now it measures (tests/core/cli/test_cli_trace.py)
]  # fmt: skip
NOW = {"batch run.json --noise batch.json": 0}
"""Commands refused then and accepted now: an export that holds the record."""

MEANT = {"predict": ("--execution", "graph")}
"""Defaults of a command at that time that have changed since."""

WITHOUT_TARGETS = {
    "example_host.json", "gpus.json", "gpus_added.json", "host_study.json", "host_study_simulated.json", "index.json",
    "own_architecture.json",
}  # fmt: skip

FAR = 1e-3  # relative: memory forecasts moved by up to 1e-4 when their fit became Levenberg-Marquardt's


def of_kind(*kinds: str) -> list[str]:
    return [item["file"] for item in INDEX if item["kind"] in kinds]


def numbers(value: Any, path: str = "") -> dict[str, float]:
    """Return every number in a JSON value by its path."""
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return {}
    if isinstance(value, int | float):
        return {path: float(value)}
    items = value.items() if isinstance(value, dict) else enumerate(value)
    return {place: number for key, item in items for place, number in numbers(item, f"{path}/{key}").items()}


def assert_all_there(new: Any, old: Any) -> None:
    """Check that every earlier number is still at its place."""
    assert not set(numbers(old)) - set(numbers(new))


def assert_near(new: Any, old: Any, but: tuple[str, ...] = ()) -> None:
    """Check for the same numbers at the same places, to :data:`FAR`, except those named by ``but``; the points of a
    line on a map, and remedies, may be in any order.
    """
    for value in (new, old):
        if "findings" in value:
            value["findings"] = sorted(value["findings"], key=lambda finding: str(finding["code"]))
        for cut in value.get("slices", ()):
            cut["contour"] = sorted(numbers(cut["contour"]).values())
            cut["lower"] = cut["upper"] = None
    assert_all_there(new, old)
    new, old = numbers(new), numbers(old)
    wrong = {
        place: (new[place], value)
        for place, value in old.items()
        if place.rpartition("/")[2] not in but and not math.isclose(new[place], value, rel_tol=FAR, abs_tol=1e-9)
    }
    assert not wrong


@pytest.mark.parametrize("name", of_kind("run", "csv"))
def test_a_run_opens(name: str) -> None:
    run = read_run((OLD / name).read_bytes(), name)
    assert run.rounds or name in ("run_cancelled_early.json", "run_no_rounds.json")


def targets(value: Any) -> Iterator[dict[str, Any]]:
    """Yield every target in a JSON value."""
    if isinstance(value, dict) and {"device", "steps_per_execution"} <= set(value):
        yield value
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from targets(item)


@pytest.mark.parametrize("path", sorted(OLD.glob("*.json")), ids=lambda path: path.name)
def test_what_ran_as_a_graph_says_so_and_none_reads_as_keras(path: Path) -> None:
    """Check the former default, graph, which every file wrote."""
    found = list(targets(json.loads(path.read_text())))
    for target in found:
        assert Target.model_validate(target).execution == target["execution"] in ("graph", "xla", "eager")
    assert found or path.name in WITHOUT_TARGETS


@pytest.mark.parametrize("name", of_kind("plan"))
def test_a_plan_opens(name: str) -> None:
    assert SweepPlan.model_validate_json((OLD / name).read_bytes()).batches


@pytest.mark.parametrize(
    "name",
    [item["file"] for item in INDEX if item["kind"].removesuffix("_record") in
     ("pipeline", "diagnosis", "frontier", "memory", "noise", "host")],
)  # fmt: skip
def test_a_study_opens_and_still_says_something(name: str) -> None:
    kind, record = read_any((OLD / name).read_bytes())
    context = Context(run=None)
    if kind.name == "diagnosis":
        simulated = "run_simulated.json" if "simulated" in name else "run.json"
        context = Context(run=read_run((OLD / simulated).read_bytes(), simulated))
    answer = kind.answer(record, context)
    assert kind.text(record, answer, context)
    saved = json.loads((OLD / name).read_text())
    if "record" in saved:
        # the intervals of remedies, and the bounds of a map, hold together now
        wider = ("low", "high") if kind.name in ("diagnosis", "frontier") else ()
        assert_near(kind.export(record, answer, context), saved, wider)


def test_verdicts_are_the_same(capfd: pytest.CaptureFixture[str]) -> None:
    for name, old in json.loads((OLD / "expected" / "verdicts.json").read_text()).items():
        if "verdict" not in old:
            continue
        assert main(["verdict", str(OLD / name), "--json"]) == 0
        new = json.loads(capfd.readouterr().out)
        assert new["targets"] == old["targets"], name
        if not new["claims"]:  # claims rest on starts now: the same rounds may allow fewer
            assert all(crossover["low"] is None for crossover in new["crossovers"]), name
            continue
        assert (new["verdict"], new["ahead"]) == (old["verdict"], old["ahead"]), name
        for now, before in zip(new["crossovers"], old["crossovers"], strict=True):
            assert now["ahead_after"] == before["ahead_after"], name
            if before["low"] is not None and now["low"] is not None:
                assert now["low"] <= before["high"], name
                assert before["low"] <= now["high"], name


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: " ".join(command["args"])[:70])
def test_a_command_on_old_files_ends_alike(
    command: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(OLD, tmp_path / "files")
    monkeypatch.chdir(tmp_path / "files")
    meant = MEANT.get(command["args"][0], ()) if "--execution" not in command["args"] else ()
    status = main([*command["args"], *meant])
    out, err = capfd.readouterr()
    assert status == NOW.get(" ".join(command["args"]), command["rc"])
    if status != command["rc"]:
        return
    assert bool(out) == bool(command["stdout"])
    assert bool(err) == bool(command["stderr"])
    if "--json" in command["args"] and out:
        now, before = json.loads(out), json.loads(command["stdout"])
        if command["args"][0] == "verdict":  # claims rest on starts now: the same rounds may allow fewer
            assert set(before) <= set(now)
            return
        same = assert_all_there if command["args"][0] == "predict" else assert_near  # the model has become another one
        same(now, before)


def unpack(name: str, folder: Path) -> Store:
    folder.mkdir()
    path = folder / "runs.sqlite3"
    path.write_bytes(gzip.decompress((OLD / f"{name}.gz").read_bytes()))
    return Store(f"sqlite:///{path}")


@pytest.mark.parametrize("name", ["store.sqlite3", "store_interrupted.sqlite3", "store_v1.sqlite3"])
def test_a_store_opens_with_all_that_it_holds(name: str, tmp_path: Path) -> None:
    held = json.loads((OLD / "expected" / "stores.json").read_text())[name]
    store = unpack(name, tmp_path / "data")
    assert sorted(s.id for s in store.summaries("sweep")) == sorted(s["id"] for s in held["summaries"])
    for summary in store.summaries("sweep"):
        assert len(store.load(summary.id).rounds) == summary.rounds
    for kind, studies in held["studies"].items():
        summaries = store.summaries(kind)
        assert [(s.id, s.run_id, s.created_at) for s in summaries] == [
            (s["id"], s["run_id"], s["created_at"]) for s in studies
        ]
        for summary in summaries:
            record = store.study(kind_of(kind), summary.id)
            assert (summary.label, summary.name) == (record.label, record.title[:200])
    store.close()


def test_a_users_own_cards_open() -> None:
    assert read_own(OLD / "gpus.json").specs()
