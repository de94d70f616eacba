"""The first screen of a machine without a GPU: question, answer, charts, and the click that measures this CPU."""

import dataclasses
import html
import json
from typing import Any
from unittest.mock import Mock

import pytest
from streamlit.testing.v1 import AppTest

from core.machine.gpu_notes import GpuNote
from core.rounds.answer.best_cpu import LOOK_BATCHES
from core.rounds.run import Run
from core.store import StoreError
from core.studies.sweep.presets import look_plan
from core.ui import downloads, machine, menu, navigation, registry
from core.ui.start import page as start
from core.ui.sweep import live
from core.ui.sweep.draft import untouched
from core.workload.spec import Target
from simulated.hosts import make_curve
from simulated.pages import AT, chart_titles, ended, keep, open_page, says, sweeping, text_of, with_gpu
from simulated.runs import BATCHES, make_run, planned
from tests.support.study_pages import start as press

pytestmark = pytest.mark.usefixtures("engine")

CHOICE = "modelled_gpu"
PICTURES = ["<b>Step time: recorded CPU, modelled GPU</b>", "<b>Overhead share by batch (modelled)</b>"]
OWN = ["<b>Step time: measured CPU, modelled GPU</b>", PICTURES[1]]
DEVICES = machine.devices  # before the engine of tests replaces it


def sentence(at: AppTest) -> str:
    (found,) = at.header
    return html.unescape(found.value).replace("\\", "")


def test_a_machine_without_gpu_opens_with_the_question_and_its_answer(engine: Any, example: Run) -> None:
    at = open_page("")
    assert [title.value for title in at.title] == [start.QUESTION]
    assert at.selectbox(key=CHOICE).value == "T4"
    assert at.query_params["gpu"] == "T4"
    assert sentence(at).startswith("Modelled: T4 ")
    says(at, "GPU modelled", "CPU recorded", "of another machine", "at 2.4 GHz", "32 and 1,024:",
         "2 threads, XLA", "at most 30", "best (2 threads)", "the proposal is")  # fmt: skip
    assert chart_titles(at) == PICTURES
    assert not at.button(key="measure_sweep").disabled
    links = {link.label: (link.proto.page, link.proto.query_string) for link in at.page_link}
    assert ("sweep", "") in links.values()
    assert ("hardware", f"run={example.id}&gpus=T4") in links.values()
    assert ("crossover", f"run={example.id}&gpu=T4") in links.values()
    assert not engine.jobs.started


def test_with_a_gpu_the_app_opens_as_ever_and_the_question_is_not_in_its_menu(monkeypatch: pytest.MonkeyPatch) -> None:
    with_gpu(monkeypatch)
    open_page("")
    groups = [(names, navigation.pages()[group]) for group, names in menu.groups().items()]
    shown = {name: page.visibility for names, pages in groups for name, page in zip(names, pages, strict=False)}
    assert list(shown) == [name for names, _ in groups for name in names]
    assert [name for name, how in shown.items() if how == "hidden"] == ["start"]
    assert [title.value for title in open_page("start").title] == [start.QUESTION]  # from a link


def test_a_small_run_replaces_the_example_and_a_run_without_a_cpu_does_not(engine: Any) -> None:
    own = keep(engine.store, make_run(3))
    gpus = planned(make_run(4), targets=(Target(device="gpu:0"), Target(device="gpu:1")))
    keep(engine.store, gpus)
    keep(engine.store, make_run(5).model_copy(update={"plan": None}))
    at = open_page("")
    says(at, "CPU measured", f"Your newest run, {engine.store.load(own).name}:")
    assert "finished example" not in text_of(at)
    assert chart_titles(at) == OWN
    assert f"run={own}&gpus=T4" in [link.proto.query_string for link in at.page_link]


def test_another_card_has_another_answer_and_goes_along() -> None:
    at = open_page("")
    first = sentence(at)
    at.selectbox(key=CHOICE).set_value("H100-SXM").run()
    assert at.query_params["gpu"] == "H100-SXM"
    assert sentence(at) != first
    assert sentence(at).startswith("Modelled: H100-SXM ")
    assert all("H100-SXM" in names and "T4" not in names for names in names_in_charts(at))
    at.switch_page("pages/crossover.py").run()
    at.run()  # AppTest gives a widget its kept value one run later than a browser does
    assert at.selectbox(key=CHOICE).value == "H100-SXM"


def names_in_charts(at: AppTest) -> list[str]:
    specs = [json.loads(chart.proto.spec) for chart in at.get("plotly_chart")]
    return [" ".join(trace["name"] for trace in spec["data"]) for spec in specs]


def test_an_address_opens_with_its_card_and_none_chosen_elsewhere_is_the_usual_one() -> None:
    assert open_page("", gpu="v100 16gb pcie").selectbox(key=CHOICE).value == "V100-16GB-PCIe"
    at = open_page("", gpu="no-such-card")
    assert "no-such-card" in text_of(at)
    assert at.selectbox(key=CHOICE).value == "T4"
    assert "None" not in at.selectbox(key=CHOICE).options


def test_the_button_starts_a_short_look_and_after_that_a_sweep_of_the_best_two_settings(
    engine: Any, example: Run
) -> None:
    """Check that both are of the network on the screen; the sweep is that of an untouched form except for its
    targets.
    """
    assert example.plan is not None
    started = press(engine, open_page(""), "sweep")
    assert started.plan == look_plan(example.plan.workload, 2)
    assert (started.label, started.status) == ("measured", "running")
    one, _, compiled = started.plan.targets
    looked = make_run(1, LOOK_BATCHES, floors_ms=(0.1, 0.3, 0.2), slopes_ms=(0.02, 0.03, 0.01))
    plan = started.plan.model_copy(update={"workload": looked.plan.workload})
    keep(engine.store, planned(looked, targets=plan.targets, batches=plan.batches))
    swept = press(engine, open_page(""), "sweep").plan
    assert swept == untouched(plan.workload, (compiled, one))
    assert len(swept.batches) == 11


def test_what_does_not_fit_or_is_refused_is_a_sentence(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    engine.jobs.refusal = "Busy now."
    at = open_page("")
    at.button(key="measure_sweep").click().run()
    assert "Busy now." in [warning.value for warning in at.warning]
    monkeypatch.setattr("core.ui.hardware.look.available_memory_bytes", lambda: 1_000_000)
    at = open_page("")
    assert at.button(key="measure_sweep").disabled
    says(at, ":material/error:", "whatever the batch")
    engine.jobs.elsewhere = "Another program measures."
    assert "Another program measures." in text_of(open_page(""))


def test_a_sweep_is_watched_here_and_its_end_turns_the_screen_to_this_cpu(engine: Any) -> None:
    engine.jobs.progress = AT
    at = open_page("")
    at.button(key="measure_sweep").click().run()
    says(at, live.STARTING, "finished example")
    assert chart_titles(at) == PICTURES  # until there is an estimate
    assert not [button for button in at.button if button.key == "measure_sweep"]
    assert at.button(key="cancel_sweep")
    run = make_run(5, status="running").model_copy(update={"label": "measured"})
    engine.jobs.show(sweeping(run))
    at.run()
    says(at, "Estimate so far", "CPU measured")
    assert "finished example" not in text_of(at)
    assert chart_titles(at) == OWN
    keep(engine.store, make_run(5))
    engine.jobs.show(sweeping(make_run(5), active=False))
    at.run()
    says(at, f"Your newest run, {make_run(5).name}:")
    assert "Estimate so far" not in text_of(at)
    assert at.button(key="measure_sweep")


def test_a_stopped_sweep_can_go_on_and_a_failure_is_said(engine: Any) -> None:
    run_id = keep(engine.store, make_run(9), status="cancelled")
    engine.jobs.show(ended("sweep", "My sweep", error="The worker died."))
    at = open_page("")
    says(at, "was cancelled", "My sweep: The")
    at.button(key="resume").click().run()
    assert engine.jobs.started[-1][1].id == run_id


def test_a_withheld_card_says_why_and_leaves_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(spec: Any, _how: Any, batches: Any, *_: Any) -> Any:
        return make_curve(lambda _: 1.0, batches, withheld=batches, gpu=spec.name)

    monkeypatch.setattr("core.hardware.compare.card_curve", nothing)
    at = open_page("")
    assert sentence(at).startswith("Modelled: withheld for")
    assert chart_titles(at) == PICTURES[:1]


def test_a_run_with_one_batch_has_no_crossover_and_says_so(engine: Any) -> None:
    keep(engine.store, make_run(3, batches=BATCHES[:1]))
    assert "two batches in" in sentence(open_page(""))


def test_what_is_known_against_a_gpu_here_is_said_first(monkeypatch: pytest.MonkeyPatch) -> None:
    here = machine.devices()
    note = GpuNote(code="x", severity="unusable", sentence="Its driver is too old.")
    monkeypatch.setattr(machine, "devices", lambda: dataclasses.replace(here, notes=(note,)))
    at = open_page("")
    assert [warning.value for warning in at.warning] == [note.sentence]
    assert "No GPU of" in text_of(at)


def test_without_example_or_run_the_screen_points_at_the_form(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "load_example", lambda _: None)
    at = open_page("")
    says(at, "Nothing was measured")
    assert [link.proto.page for link in at.page_link] == ["sweep"]


def test_a_store_that_does_not_open_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    newer = StoreError("Written by a newer version of Breakeven.")
    monkeypatch.setattr(registry, "engine", Mock(side_effect=newer))
    monkeypatch.setattr(machine, "devices", DEVICES)
    assert [error.value for error in open_page("").error] == [str(newer)]


def test_the_address_names_the_run_and_a_newer_one_replaces_only_what_the_page_wrote(engine: Any, example: Run) -> None:
    older = keep(engine.store, make_run(1, label="measured"))
    newer = keep(engine.store, make_run(2, label="measured"))
    assert open_page("start", run=older).query_params["run"] == older
    assert open_page("start", run=example.id).query_params["run"] == example.id
    at = open_page("start")
    assert run_of(at) == newer
    newest = keep(engine.store, make_run(3, label="measured"))
    assert run_of(at.run()) == newest
    at = open_page("start", run="20260105-gone00")
    assert at.info[0].proto.icon == ":material/search_off:"
    assert run_of(at) == newest


def run_of(at: AppTest) -> str:
    shown = at.query_params["run"]
    return shown if isinstance(shown, str) else str(shown[0])


def test_its_files_show_the_card(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    shared: list[downloads.File] = []
    monkeypatch.setattr(downloads, "draw", lambda _, files: shared.extend(files))
    at = open_page("start", gpu="L4", run=keep(engine.store, make_run(1, label="measured")))
    drawn = next(file for file in shared if file.ending == "svg").make().decode()
    assert "L4 (modelled)" in drawn
    assert sentence(at)[:30] in drawn
