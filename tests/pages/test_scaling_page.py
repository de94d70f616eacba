"""The Scaling page: its sentence without two GPUs, the form, a result, the estimate so far."""

from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from core.base.evidence import Gpu
from core.studies.progress import Snapshot
from core.ui import machine
from simulated.pages import AT, chart_titles, open_page, says, text_of, titles, unfold
from simulated.scalings import FOUR, ONE, TWO, Truth, make_scaling_study
from tests.support.study_pages import keep, start

pytestmark = pytest.mark.usefixtures("this_machine")
THROUGHPUT, EFFICIENCY = "Throughput by batch size", "Efficiency by batch size"


def with_gpus(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    """Let this machine have so many GPUs."""
    names = tuple(f"gpu:{index}" for index in range(count))
    words = {"cpu": "CPU"} | {name: f"GPU {index} · Card" for index, name in enumerate(names)}
    here = machine.Machine(("cpu", *names), words, 8, (), gpus=(Gpu(name="Card"),) * count)
    monkeypatch.setattr(machine, "devices", lambda: here)


def page(**query: str) -> AppTest:
    return open_page("scaling", **query)


@pytest.mark.parametrize(("count", "found"), [(0, "has no GPU that can be used"), (1, "has one GPU that can be used")])
def test_without_two_gpus_it_says_so_and_offers_a_labelled_try_out(
    engine: Any, monkeypatch: pytest.MonkeyPatch, count: int, found: str
) -> None:
    with_gpus(monkeypatch, count)
    at = page()
    assert chart_titles(at) == ["<b>Throughput by batch size</b>"]  # of the example
    says(at, f"this machine {found}.", "show no speed", "Simulated: GPUs 0 and 1 are faster from batch 489")
    assert at.button(key="measure_scaling").label.endswith("logical CPUs")
    (option,) = at.selectbox(key="scaling_devices").options
    assert option.endswith("2 logical CPUs")
    assert "Import a study" in text_of(at)
    plan = start(engine, at, "scaling")
    assert [str(target) for target in plan.targets] == ["cpu", "cpu:2"]
    assert plan.batches == (32, 64, 128, 256, 512, 1024, 2048, 4096)


def test_with_gpus_they_are_doubled_and_all_run_alike(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with_gpus(monkeypatch, 3)
    at = page()
    assert "needs two devices" not in text_of(at)
    choice = at.selectbox(key="scaling_devices")
    assert [option.count("GPU") for option in choice.options[:2]] == [2, 3]
    choice.select_index(1).run()
    at.selectbox(key="form_precision_scaling").set_value("mixed_float16").run()
    at.selectbox(key="scaling_execution").set_value("graph").run()
    assert at.button(key="measure_scaling").label == "Measure scaling"
    plan = start(engine, at, "scaling")
    way = "precision=mixed_float16,execution=graph"
    assert [str(target) for target in plan.targets] == [f"gpu:0,{way}", f"gpu:0+1,{way}", f"gpu:0+1+2,{way}"]
    assert {96, 192} < set(plan.batches)  # needed for weak scaling on three devices


def test_jax_is_offered_with_its_own_ways_and_one_sentence_where_it_is_not_installed(
    engine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_gpus(monkeypatch, 2)
    missing: dict[str, str] = {}
    monkeypatch.setattr(machine, "missing_frameworks", lambda: missing)
    at = page()
    assert at.selectbox(key="scaling_framework").options == ["TensorFlow", "JAX"]
    at.selectbox(key="scaling_framework").set_value("jax").run()
    assert len(at.selectbox(key="scaling_execution").options) == 2
    plan = start(engine, at, "scaling")
    assert [str(target) for target in plan.targets] == ["gpu:0,framework=jax", "gpu:0+1,framework=jax"]
    missing["jax"] = "JAX is not installed."
    at = page()
    at.selectbox(key="scaling_framework").set_value("jax").run()
    says(at, "JAX is not")
    assert at.button(key="measure_scaling").disabled


def test_a_result_says_where_it_crosses_why_not_earlier_and_what_helps(engine: Any) -> None:
    keep(engine, "scaling", make_scaling_study(trace=(32, 256, 4096)))
    at = page()
    assert titles(at) == [THROUGHPUT]
    says(at, "from batch 4", "efficiency of 9", "at batch 256", "(30.9 to 31.5)",
         "per replica helps", "Gradient accumulation on")  # fmt: skip
    at = unfold(at, EFFICIENCY, "Every batch size", "How it was measured")
    assert titles(at) == [THROUGHPUT, EFFICIENCY]
    table = at.dataframe[0].value
    assert list(table["Batch"]) == [32, 64, 128, 256, 512, 1024, 2048, 4096]
    assert table["Weak efficiency"][0] == ""
    says(at, "is the product")


def test_one_device_that_is_faster_throughout_is_advised(engine: Any) -> None:
    keep(engine, "scaling", make_scaling_study(truth=Truth(together_ms=40.0), targets=(ONE, TWO, FOUR)))
    at = page()
    says(at, "Use fewer devices: ", "GPU 0 is")
    assert "0 to 3" in at.title[0].value


def test_while_it_runs_the_curves_so_far_are_shown(engine: Any) -> None:
    study = make_scaling_study(processes=2)
    engine.jobs.show(Snapshot("scaling", "20260105-running", "Scaling of x", AT, record=study))
    at = page()
    says(at, "Estimate so far", "from batch 4")
    assert titles(at) == [THROUGHPUT]
    engine.jobs.show(
        Snapshot("scaling", "20260105-running", "Scaling of x", AT, record=study.model_copy(update={"rounds": ()}))
    )
    assert "The first points" in text_of(page())
