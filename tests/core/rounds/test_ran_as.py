"""Sentences on how a run's targets really ran."""

from pathlib import Path

import pytest

from core.base.evidence import Gpu, Process, Setup
from core.base.frameworks import Compiled
from core.rounds.answer.analyse import analyse
from core.rounds.ran_as import ran_as, ran_line, ran_words, resolved_target
from core.rounds.run import Run
from core.rounds.show.export import cell_rows, verdict_data, verdict_text
from core.rounds.show.figures import speed_up_figure, step_time_figure, throughput_figure
from core.rounds.show.imports import read_run
from core.rounds.show.overhead_figure import overhead_figure
from core.rounds.show.report import html_report
from core.workload.spec import Target
from simulated.runs import make_environment, make_run, planned
from tests.support.figures import words

OLD = Path(__file__).parents[3] / "fixtures" / "8e67b6e"
DEFAULT = "as Keras chooses by default"


def setup(target: int, execution: Compiled | None, why: str | None) -> Setup:
    return Setup(
        batch=8, build_ms=1, first_call_ms=1, warmup_steps=1, warmup_ms=1, warmup_steady=True, steps_per_block=1,
        target=target, process=0, execution=execution, execution_why=why,
    )  # fmt: skip


def process(target: int, **more: object) -> Process:
    return Process(index=0, target=target, pid=1, startup_ms=1, device="GPU:0", **more)  # type: ignore[arg-type]


def run_of(*targets: Target, **fields: object) -> Run:
    return planned(make_run(), targets=targets).model_copy(update={"setups": (), "processes": (), **fields})


def test_what_keras_chose_is_said_with_the_precision() -> None:
    setups = (setup(0, "graph", "as Keras chooses without a GPU"), setup(1, "xla", DEFAULT))
    run = run_of(Target(), Target(device="gpu:0"), setups=setups, processes=(process(1, tf32=True),))
    assert ran_words(run) == (
        "CPU: graph, as Keras chooses without a GPU",
        "GPU 0: XLA, as Keras chooses by default; float32 (TF32)",
    )
    assert ran_line(run) == (f"{'. '.join(ran_words(run))}.",)
    assert resolved_target(run, 1) == Target(device="gpu:0", execution="xla")


def test_the_record_counts_before_what_is_expected_and_nothing_is_said_of_what_is_not_known() -> None:
    run = run_of(Target(threads=2), Target(device="gpu:0"), setups=(setup(1, "graph", "as Keras chooses here"),))
    assert ran_as(run, 0) is None
    assert [line.split(",")[0] for line in ran_words(run)] == ["GPU 0: graph"]
    assert resolved_target(run, 1).execution == "graph"
    assert resolved_target(run.model_copy(update={"setups": ()}), 1).execution == "xla"
    assert ran_line(run_of(Target(), Target(device="gpu:0"))) == ()
    assert ran_words(run.model_copy(update={"plan": None})) == ()


def test_an_explicit_choice_is_said_too() -> None:
    targets = (
        Target(threads=1, execution="graph"),
        Target(device="gpu:0", execution="eager", precision="float32_strict"),
    )
    run = run_of(*targets, setups=(setup(0, "graph", "as asked"),))
    first, second = ran_words(run)
    assert "as asked" in first
    assert "without TF32" in second


def test_it_stands_beside_the_verdict_in_text_report_charts_tables_and_exports() -> None:
    setups = (setup(0, "graph", "as Keras chooses without a GPU"), setup(1, "xla", DEFAULT))
    run = run_of(Target(), Target(device="gpu:0"), setups=setups, processes=(process(1, tf32=True),))
    answer, (line,) = analyse(run), ran_line(run)
    assert verdict_text(run, answer).splitlines()[1] == line
    assert f"<p>{line}</p>" in html_report(run, answer)
    for draw in (step_time_figure, speed_up_figure, throughput_figure, overhead_figure):
        assert line in words(draw(run, answer))
    rows = [row for row in cell_rows(run, answer) if row.target == "gpu:0"]
    assert {(row.execution, row.precision) for row in rows} == {("xla", "float32 (TF32)")}
    ran = verdict_data(run, answer)["ran_as"]
    assert [(row["execution"], row["precision"], row["tf32"]) for row in ran] == [
        ("graph", "float32", None),
        ("xla", "float32", True),
    ]
    assert ran[1]["why"] == DEFAULT


@pytest.mark.parametrize(
    ("capability", "switch", "tf32"),
    [("8.0", "on", True), ("12.0", "on", True), ("7.5", "on", False), ("8.6", "off", False), (None, "on", None),
     ("odd", "on", None), ("8.6", None, None)],
)  # fmt: skip
def test_tf32_of_older_runs_follows_from_card_and_switch(
    capability: str | None, switch: str | None, tf32: bool | None
) -> None:
    here = make_environment().model_copy(update={"gpus": (Gpu(name="A card", compute_capability=capability),)})
    versions = {} if switch is None else {"tensor_float_32": switch}
    run = run_of(
        Target(execution="graph"), Target(device="gpu:0", execution="graph"),
        environment=here, processes=(process(1, versions=versions),),
    )  # fmt: skip
    found = ran_as(run, 1)
    assert found is not None
    assert found.tf32 is tf32
    assert ("TF32" in found.words) == bool(tf32)


@pytest.mark.parametrize("path", sorted(OLD.glob("run*.json")), ids=lambda path: path.name)
def test_runs_from_before_keep_what_they_chose_and_their_names(path: Path) -> None:
    run = read_run(path.read_bytes(), path.name)
    assert run.plan is not None
    for index, target in enumerate(run.plan.targets):
        assert target.execution in ("graph", "xla", "eager")
        assert resolved_target(run, index) == target
    assert not any("keras" in name.lower() for name in (*run.target_names, *ran_words(run)))
