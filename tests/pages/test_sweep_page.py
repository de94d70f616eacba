"""The Sweep page: proposals, refusals, starts, and every state of a sweep."""

import gc
import html
import json
from dataclasses import replace
from typing import Any
from unittest.mock import Mock

import pytest
from streamlit.testing.v1 import AppTest

from core.hardware.compare import not_modelled
from core.networks.families import families
from core.store import StoreError
from core.ui import registry
from core.ui.registry import quieten
from core.workload.spec import Workload
from simulated.pages import chart_titles, damage, ended, keep, open_page, says, sweeping, text_of, with_gpu
from simulated.runs import make_run
from tests.support.study_pages import start, started_plan

pytestmark = [pytest.mark.usefixtures("engine"), pytest.mark.pages]


def button(at: AppTest) -> Any:
    return at.button(key="measure_sweep")


def test_the_example_has_meaning_at_once_and_without_gpu_threads_are_proposed(engine: Any) -> None:
    at = open_page()
    says(at, "Finished example", "670 thousand parameters", "3.21 million FLOPs", "4.14 kB", "1,024 (modelled)")
    assert "faster from batch" in at.header[0].value
    assert chart_titles(at) == ["<b>Speed-up and crossover</b>"]
    assert not button(at).disabled
    assert not engine.jobs.started
    says(at, "No GPU", "requirements-gpu.txt", "Install the driver.")
    assert [str(t) for t in start(engine, at, "sweep").plan.targets] == ["cpu,threads=1", "cpu,threads=2"]
    keep(engine.store, make_run(3))
    assert "Your newest run" in text_of(open_page())


def test_choices_survive_a_visit_to_another_page_and_become_the_plan(engine: Any) -> None:
    at = open_page()
    at.number_input(key="form_mlp_depth").set_value(3)
    at.number_input(key="form_mlp_width").set_value(64)
    at.get_by_key("form_mode").set_value("infer")
    at.selectbox(key="form_execution_1").select("xla")
    at.get_by_key("form_batch_kind").set_value("list")
    at.run()
    at.text_input(key="form_batch_list").set_value("2, 32")
    at.selectbox(key="form_prefetch").set_value("2").run()
    at.number_input(key="form_preprocess_us").set_value(50.0)
    at.number_input(key="form_budget").set_value(33)
    at.number_input(key="form_step_width").set_value(10.0)
    at.number_input(key="form_crossover_width").set_value(50.0)
    at.text_input(key="form_name").set_value("Mine").run()
    at.switch_page("pages/method.py").run()
    at.switch_page("pages/sweep.py").run()
    run = start(engine, at, "sweep")
    plan = run.plan
    assert plan.workload.network.name == "784-64-64-64-10"
    assert plan.workload.mode == "infer"
    assert str(plan.targets[1]) == "cpu,threads=2,execution=xla"
    assert plan.batches == (2, 32)
    assert (plan.pipeline.prefetch, plan.pipeline.preprocess_us) == (2, 50.0)
    assert (plan.budget_s, plan.step_width, plan.crossover_width, run.name) == (33.0, 0.1, 0.5, "Mine")


def errors(at: AppTest) -> list[str]:
    """Return the sentences beside fields, as they are read on the page."""
    return [html.unescape(error.value).replace("\\", "") for error in at.error]


def test_each_family_but_code_has_its_presets_and_sizes_with_a_plan_at_once(engine: Any) -> None:
    at = open_page()
    form = at.selectbox(key="form_family")
    assert form.value == "mlp"
    assert {name for name, kind in families().items() if kind.title not in form.options} == {"code"}
    at.number_input(key="form_high").set_value(2)
    for family, kind in families().items():
        if kind.presets:
            at.selectbox(key="form_family").set_value(family).run()
            presets = at.menu_button(key=f"form_networks_{family}")
            assert presets.options == list(kind.presets)
            presets.set_value(kind.presets[0]).run()
            assert not at.error, family
            assert start(engine, at, "sweep").plan.workload.network.name == kind.presets[0]


def test_sizes_with_words_become_the_network(engine: Any) -> None:
    at = open_page()
    at.selectbox(key="form_family").set_value("recurrent").run()
    at.get_by_key("form_recurrent_cell").set_value(1)
    at.number_input(key="form_recurrent_depth").set_value(3)
    at.number_input(key="form_recurrent_sequence").set_value(20).run()
    assert start(engine, at, "sweep").plan.workload.network.name == "gru-128x3-20x32-10"


def test_sizes_that_do_not_go_together_get_one_sentence() -> None:
    at = open_page()
    at.selectbox(key="form_family").set_value("transformer").run()
    at.number_input(key="form_transformer_heads").set_value(3).run()
    (error,) = errors(at)
    assert "126 or 129" in error
    assert button(at).disabled


def architecture(units: object) -> bytes:
    """Return the output of ``model.to_json()`` for one Dense layer on 5 values."""
    dense = {"class_name": "Dense", "config": {"name": "dense_of_mine", "units": units}}
    start = {"class_name": "InputLayer", "config": {"batch_shape": [None, 5], "dtype": "float32", "name": "input"}}
    return json.dumps({"class_name": "Sequential", "config": {"name": "s", "layers": [start, dense]}}).encode()


def test_an_uploaded_architecture_is_described_measured_and_outlives_a_visit_elsewhere(engine: Any) -> None:
    at = open_page()
    at.selectbox(key="form_family").set_value("own").run()
    (error,) = errors(at)
    assert "Choose a file" in error
    at.file_uploader(key="form_architecture").upload("mine.json", architecture(3)).run()
    assert not at.error
    says(at, "mine: 1 layer", "18 parameters", "input 5", "3 outputs")
    at.switch_page("pages/method.py").run()
    at.switch_page("pages/sweep.py").run()
    network = start(engine, at, "sweep").plan.workload.network
    assert (network.family, network.name, network.parameters) == ("own", "mine", 18)


def test_names_in_a_file_are_shown_and_never_become_markup() -> None:
    at = open_page()
    at.selectbox(key="form_family").set_value("own").run()
    data = architecture("many").replace(b"dense_of_mine", b"![x](https://a.example/x.png)")
    at.file_uploader(key="form_architecture").upload("mine.json", data).run()
    assert "!\\[x\\](https&#58;&#8288;//a.example" in at.error[0].value


def test_what_keras_does_with_recurrent_layers_on_a_gpu_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    with_gpu(monkeypatch)
    at = open_page()
    assert "cuDNN" not in text_of(at)
    at.selectbox(key="form_family").set_value("recurrent").run()
    assert "cuDNN" in text_of(at)


def test_that_no_gpu_is_modelled_for_a_recurrent_network_is_said_where_it_is_chosen() -> None:
    at = open_page()
    assert "is not modelled" not in text_of(at)
    at.selectbox(key="form_family").set_value("recurrent").run()
    kind = families()["recurrent"]
    network = kind.from_choices({choice.name: choice.default for choice in kind.choices})
    assert str(not_modelled(Workload(network=network))) in text_of(at)


@pytest.mark.parametrize(("data", "words"), [(architecture("many"), "dense_of_mine"), (b"{", "JSON")])
def test_a_refused_architecture_says_why_beside_the_field(data: bytes, words: str) -> None:
    at = open_page()
    at.selectbox(key="form_family").set_value("own").run()
    at.file_uploader(key="form_architecture").upload("mine.json", data).run()
    (error,) = errors(at)
    assert words in error
    assert button(at).disabled


def test_a_bad_choice_gets_one_sentence_and_no_start() -> None:
    at = open_page()
    bad: tuple[tuple[str, float, str], ...] = (
        ("form_low", 2000, "2000 to 1024"),
        ("form_high", 70_000, "1 and 65,536"),
        ("form_mlp_width", 7, "8 to 16,384"),
        ("form_threads_0", 0, "at least 1"),
        ("form_threads_1", 1, "“CPU, 1 thread”"),
        ("form_budget", 1, "2 and 86,400"),
        ("form_step_width", 0.0, "step time interval"),
        ("form_crossover_width", 0.0, "crossover interval"),
    )
    for key, value, sentence in bad:
        usual = at.number_input(key=key).value
        at.number_input(key=key).set_value(value).run()
        (said,) = errors(at)
        assert sentence in said
        assert button(at).disabled
        at.number_input(key=key).set_value(usual)
    at.run()
    assert not button(at).disabled


def test_a_workload_that_cannot_fit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("core.ui.sweep.form.available_memory_bytes", lambda: 1_000_000_000)
    at = open_page()
    assert "whatever the batch" in at.error[0].value
    assert button(at).disabled


def test_starting_takes_what_is_loaded_out_of_the_garbage_collectors_way(
    engine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "quieten", quieten)
    gc.unfreeze()
    at = open_page()
    assert gc.get_freeze_count() < 5_000  # not none: Python 3.12 keeps its immortal objects there
    try:
        button(at).click().run()
        assert engine.jobs.started
        assert gc.get_freeze_count() > 50_000
    finally:
        gc.unfreeze()


def test_a_sweep_is_watched_until_its_end_shows_its_verdict(engine: Any) -> None:
    engine.jobs.show(sweeping(make_run(5, status="running").model_copy(update={"rounds": ()})))
    at = open_page()
    assert "The first estimate" in text_of(at)
    assert not chart_titles(at)
    engine.jobs.show(sweeping(make_run(5, processes=4, status="running")))
    at.run()
    says(at, "Estimate so far")
    assert "batch sizes measured" in at.progress[0].text
    assert chart_titles(at)[0] == "<b>Speed-up and crossover</b>"
    keep(engine.store, make_run(5))
    engine.jobs.show(sweeping(make_run(5), active=False))
    at.run()
    assert "Your newest run" in text_of(at)
    assert not button(at).disabled


@pytest.mark.parametrize(
    ("status", "words"),
    [("interrupted", "was interrupted"), ("cancelled", "was cancelled"), ("failed", "failed before its end")],
)
def test_a_sweep_that_was_stopped_can_be_resumed_or_left(engine: Any, status: Any, words: str) -> None:
    run_id = keep(engine.store, make_run(9), status=status)
    at = open_page()
    assert f"A sweep {words}" in text_of(at)
    at.button(key="resume").click().run()
    assert started_plan(engine, "sweep") == engine.store.load(run_id)
    at.button(key="leave").click().run()
    assert f"A sweep {words}" not in text_of(at)


@pytest.mark.parametrize(("status", "offered"), [("interrupted", True), ("failed", False), ("finished", False)])
def test_of_sweeps_without_a_round_only_an_interrupted_one_is_offered(engine: Any, status: Any, offered: bool) -> None:
    keep(engine.store, make_run(9).model_copy(update={"rounds": ()}), status=status)
    at = open_page()
    assert ("resume" in [b.key for b in at.button]) is offered


def test_a_sweep_whose_end_could_not_be_stored_can_be_resumed(engine: Any) -> None:
    """Let the store fail during the measurement, so that it still says that the sweep is running, in this process."""
    run = make_run(9).model_copy(update={"label": "measured"})
    engine.store.begin(run)
    assert "resume" not in [b.key for b in open_page().button], "another process may be measuring it"
    engine.jobs.show(sweeping(run, active=False, error="The disk is full."))
    engine.jobs.writing = True
    assert "resume" not in [b.key for b in open_page().button], "its end may still be written"
    engine.jobs.writing = False
    at = open_page()
    assert "was interrupted" in text_of(at)
    at.button(key="resume").click().run()
    assert started_plan(engine, "sweep").status == "interrupted"
    engine.store.begin(engine.store.load(run.id))


def test_a_refused_resume_is_a_sentence(engine: Any) -> None:
    keep(engine.store, make_run(9), status="interrupted")
    engine.jobs.refusal = "Busy now."
    at = open_page()
    at.button(key="resume").click().run()
    assert "Busy now." in [w.value for w in at.warning]


def test_a_damaged_run_costs_itself_and_the_one_before_it_is_shown(engine: Any) -> None:
    sound = keep(engine.store, make_run(8))
    damage(engine.store, keep(engine.store, make_run(9)))
    at = open_page()
    assert not at.exception
    assert not at.error
    assert "Your newest run" in text_of(at)
    newest = registry.newest_own()
    assert newest is not None
    assert newest.id == sound


def test_what_the_history_lacks_is_said_and_can_be_downloaded(engine: Any) -> None:
    run = make_run(9)
    lack = "The history lacks 3 records. It is locked."
    engine.jobs.show(ended("sweep", "My sweep", record=run, unwritten=lack))
    at = open_page()
    assert lack in at.warning[0].value
    (button,) = at.get("download_button")
    assert button.proto.label == "JSON"


def test_a_history_that_was_set_aside_is_said_on_every_page(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    notice = "It was set aside as x."
    monkeypatch.setattr(engine.store._database, "notice", notice)
    for page in ("", "sweep", "history"):
        assert notice in [w.value for w in open_page(page).warning]


def test_a_store_that_fails_later_is_said_on_the_page(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    full = StoreError("The disk is full; free some space.")

    monkeypatch.setattr(engine.store, "summaries", Mock(side_effect=full))
    at = open_page()
    assert str(full) in [e.value for e in at.error]


def test_a_store_that_does_not_open_is_said_on_every_page(monkeypatch: pytest.MonkeyPatch) -> None:
    newer = StoreError("Written by a newer version of Breakeven.")
    monkeypatch.setattr(registry, "engine", Mock(side_effect=newer))
    for page in ("", "sweep", "crossover", "history", "method"):
        assert [e.value for e in open_page(page).error] == [str(newer)]


def test_with_nothing_to_show_the_page_points_at_the_button(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "load_example", Mock(side_effect=FileNotFoundError))
    at = open_page()
    assert "Nothing was measured" in text_of(at)
    assert not button(at).disabled


def test_while_it_runs_what_is_not_clear_is_no_answer_yet(engine: Any) -> None:
    run = make_run(5, processes=4, status="running", floors_ms=(0.3, 0.3), slopes_ms=(0.02, 0.02))
    snapshot = sweeping(run)
    assert snapshot.answer.verdict.kind in ("inconclusive", "tie")
    undecided = replace(snapshot.answer.verdict, kind="inconclusive")
    engine.jobs.show(replace(snapshot, answer=replace(snapshot.answer, verdict=undecided)))
    at = open_page()
    assert "No answer yet" in at.progress[0].text
    assert "intervals still allow" in text_of(at)
    assert "Estimate so far" not in text_of(at)
    assert not at.header
    assert chart_titles(at)[0] == "<b>Speed-up and crossover</b>"


def test_a_named_network_goes_back_to_sizes_of_ones_own(engine: Any) -> None:
    at = open_page()
    at.selectbox(key="form_family").set_value("cnn").run()
    at.menu_button(key="form_networks_cnn").set_value("lenet5").run()
    assert start(engine, at, "sweep").plan.workload.network.name == "lenet5"
    at.button(key="form_own_cnn").click().run()
    at.number_input(key="form_cnn_depth").set_value(1).run()
    assert start(engine, at, "sweep").plan.workload.network.name == "cnn-28x28x1-32x1-k3-max-10"
