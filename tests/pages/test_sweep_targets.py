"""The targets of the Sweep page's form: added, removed, set by a preset, offered by framework, refused."""

from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from core.base.frameworks import FRAMEWORKS
from core.rounds.answer.analyse import analyse
from core.ui import machine
from simulated.pages import open_page, says, sweeping, text_of, titles, with_gpu
from simulated.runs import make_run
from tests.support.study_pages import start

pytestmark = pytest.mark.usefixtures("engine", "all_installed")


@pytest.fixture
def all_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "missing_frameworks", dict)


def add(at: AppTest) -> AppTest:
    return at.button(key="form_add").click().run()


def put(at: AppTest, preset: str) -> AppTest:
    return at.menu_button(key="form_presets").set_value(preset).run()


def fields(at: AppTest, name: str) -> list[Any]:
    return [box for box in at.selectbox if box.key and box.key.startswith(f"form_{name}_")]


def headings(at: AppTest) -> list[str]:
    """Return the names of the targets in their order."""
    texts = [markdown.value for markdown in at.markdown]
    listed = texts[texts.index("**Targets**") + 1 :]
    return [text.strip("*") for text in listed if text.startswith("**")][: len(fields(at, "framework"))]


def test_one_target_to_six_become_the_plan_and_a_seventh_is_not_offered(engine: Any) -> None:
    at = open_page()
    assert headings(at) == ["1 thread", "2 threads"]
    at.button(key="form_remove_1").click().run()
    assert headings(at) == ["CPU, 1 thread"]
    assert not [button for button in at.button if button.key and button.key.startswith("form_remove")]
    assert len(start(engine, at, "sweep").plan.targets) == 1
    for _ in range(5):
        add(at)
    assert "form_add" not in [button.key for button in at.button]
    assert "6 targets are" in text_of(at)
    targets = start(engine, at, "sweep").plan.targets
    assert len(set(targets)) == 6
    notation = [str(target) for target in targets]
    helps = [markdown.help.replace("\\", "") for markdown in at.markdown if markdown.help]
    assert [text for text in helps if text in notation] == notation


def test_the_first_target_is_the_baseline_and_the_next_one_is_it_once_that_is_removed(engine: Any) -> None:
    at = add(open_page())
    assert text_of(at).count("Baseline") == 1
    at.number_input(key="form_threads_1").set_value(7).run()
    at.button(key="form_remove_0").click().run()
    assert [str(target) for target in start(engine, at, "sweep").plan.targets] == [
        "cpu,threads=7", "cpu,threads=2,execution=xla"
    ]  # fmt: skip


def test_a_target_that_is_added_again_begins_anew() -> None:
    at = add(open_page())
    at.selectbox(key="form_execution_2").select("eager").run()
    at.button(key="form_remove_2").click().run()
    add(at)
    assert at.selectbox(key="form_execution_3").value == "xla"
    at.switch_page("pages/method.py").run()
    at.switch_page("pages/sweep.py").run()
    assert headings(at) == ["1 thread", "2 threads", "2 threads, XLA"]


@pytest.mark.parametrize(
    ("preset", "targets", "mode"),
    [
        ("machine", ["cpu,threads=1", "cpu,threads=2", "cpu,threads=2,execution=xla"], "train"),
        ("frameworks", ["cpu", "cpu,framework=jax", "cpu,framework=torch"], "train"),
        ("formats", ["cpu", "cpu,precision=int8", "cpu,framework=litert", "cpu,framework=litert,precision=int8"],
         "infer"),
    ],
)  # fmt: skip
def test_a_preset_is_one_click(engine: Any, preset: str, targets: list[str], mode: str) -> None:
    at = put(open_page(), preset)
    plan = start(engine, at, "sweep").plan
    assert [str(target) for target in plan.targets] == targets
    assert plan.workload.mode == mode
    at.switch_page("pages/method.py").run()
    at.switch_page("pages/sweep.py").run()
    assert start(engine, at, "sweep").plan == plan


def test_precisions_are_a_preset_where_there_is_a_gpu(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "GPU precisions" not in open_page().menu_button(key="form_presets").options
    with_gpu(monkeypatch)
    at = put(open_page(), "precisions")
    assert {target.device for target in start(engine, at, "sweep").plan.targets} == {"gpu:0"}


def test_only_what_a_framework_has_is_offered(monkeypatch: pytest.MonkeyPatch) -> None:
    with_gpu(monkeypatch)
    at = open_page()
    assert at.selectbox(key="form_framework_1").options == [
        known.title for known in FRAMEWORKS.values() if known.name != "pytorch"
    ]
    at.selectbox(key="form_framework_1").select("torch").run()
    assert at.selectbox(key="form_execution_1").options == ["default (eager)", "compiled"]
    assert at.selectbox(key="form_device_1").value == "gpu:0"
    assert "form_steps_1" not in [box.key for box in at.selectbox]
    at.selectbox(key="form_framework_1").select("litert").run()
    assert at.selectbox(key="form_device_1").options == ["CPU"]
    assert "form_execution_1" not in [box.key for box in at.selectbox]
    assert [error.value.split()[0] for error in at.error] == ["LiteRT"]
    assert at.button(key="measure_sweep").disabled
    at.get_by_key("form_mode").set_value("infer")
    at.run()
    assert at.selectbox(key="form_precision_1").options == ["float32", "int8"]
    assert not at.error


def test_int8_is_offered_for_inference_only() -> None:
    at = open_page()
    assert "int8" not in at.selectbox(key="form_precision_0").options
    at.get_by_key("form_mode").set_value("infer")
    at.run()
    assert "int8" in at.selectbox(key="form_precision_0").options
    at.selectbox(key="form_precision_0").select("int8").run()
    at.get_by_key("form_mode").set_value("train")
    at.run()
    assert at.selectbox(key="form_precision_0").value == "float32"


def test_what_is_not_installed_is_offered_and_refused_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    why = "JAX is not installed here; run “pip install -r requirements-jax.txt”."
    monkeypatch.setattr(machine, "missing_frameworks", lambda: {"jax": why})
    at = open_page()
    assert "JAX (not installed)" in at.selectbox(key="form_framework_1").options
    assert not at.error
    at.selectbox(key="form_framework_1").select("jax").run()
    assert [error.value for error in at.error] == [why]
    assert at.button(key="measure_sweep").disabled


def test_no_page_takes_an_interpreter(engine: Any) -> None:
    at = open_page("sweep", python="/bin/sh")
    assert not [box for box in at.text_input if "python" in str(box.key)]
    assert all(target.python is None for target in start(engine, at, "sweep").plan.targets)


def test_a_change_of_a_folded_target_is_what_starts(engine: Any) -> None:
    at = put(open_page(), "machine")
    (*_, last) = fields(at, "execution")
    last.select("eager")
    assert str(start(engine, at, "sweep").plan.targets[-1]) == "cpu,threads=2,execution=eager"


@pytest.mark.parametrize("count", [1, 3, 6])
def test_a_sweep_that_runs_shows_the_estimate_so_far_in_peoples_names(engine: Any, count: int) -> None:
    floors_ms = tuple(0.3 + 0.3 * index for index in range(count))
    slopes_ms = tuple(0.02 / (1 + index) for index in range(count))
    run = make_run(5, floors_ms=floors_ms, slopes_ms=slopes_ms, processes=4, status="running")
    engine.jobs.show(sweeping(run))
    at = open_page()
    answer = analyse(run)
    says(at, "Estimate so far", answer.verdict.sentence)
    assert (answer.fastest is not None) is (count > 2)
    assert titles(at)
    assert "threads=" not in text_of(at)


@pytest.mark.parametrize("count", [2, 3])
def test_a_sweep_that_runs_claims_nothing_before_there_is_an_interval(engine: Any, count: int) -> None:
    times: Any = {"floors_ms": (0.3, 0.8, 0.5)[:count], "slopes_ms": (0.02, 0.01, 0.001)[:count]}
    run = make_run(5, processes=1, passes=1, rounds_per_pass=1, status="running", **times)
    assert analyse(run).claims == ()
    engine.jobs.show(sweeping(run))
    at = open_page()
    assert "No claim yet" in text_of(at)
    assert not at.header
    assert titles(at)
