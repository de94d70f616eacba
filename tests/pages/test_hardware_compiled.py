"""The compiler's facts on the Hardware page and on Start: shipped ones, the button, and what is missing."""

from typing import Any

import pytest

from core.machine.installed import NO_COMPILER
from core.studies.compiled.shipped import FOLDER
from core.ui.hardware import compiled
from core.workload.spec import Workload
from simulated.compilers import make_compile_study
from simulated.kinds import RUN
from simulated.pages import open_page, says, text_of, titles, unfold
from simulated.runs import planned
from tests.support.batch_page import kept
from tests.support.study_pages import start, started_plan

pytestmark = [pytest.mark.usefixtures("this_machine"), pytest.mark.pages]
WORKLOAD = Workload(network="784-512-512-10")
SHIPPED = planned(RUN, workload=WORKLOAD)


@pytest.fixture(autouse=True)
def jax(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "why_missing", lambda _: None)


def page(engine: Any, gpus: str, **more: str) -> Any:
    return unfold(open_page("hardware", run=kept(engine, SHIPPED), gpus=gpus, **more), compiled.TITLE)


def test_shipped_facts_stand_there_without_a_compiler(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "why_missing", lambda _: "JAX is not installed.")
    at = page(engine, "T4~H200")
    says(at, "kernels per step on T4 at batch", "kernels per step on H200 at batch", "On TensorFlow some", NO_COMPILER)
    assert "Kernels of one step on T4, batch" in " ".join(titles(at))
    assert not [button for button in at.button if button.label == compiled.BUTTON]


def test_one_click_compiles_for_the_chosen_cards(engine: Any) -> None:
    at = page(engine, "T4~Apple-M1")
    says(at, "Apple-M1 is not NVIDIA's")
    search = start(engine, at, "compiled")
    assert ([card.name for card in search.plan.cards], search.plan.workload) == (["T4"], WORKLOAD)


def test_a_study_of_ones_own_counts_before_the_shipped_one_and_opens_by_its_address(engine: Any) -> None:
    study = make_compile_study(workload=WORKLOAD)
    run_id = kept(engine, SHIPPED)
    engine.store.add_study("compiled", "20260107-mine00", study)
    at = unfold(open_page("hardware", run=run_id, gpus="RTX-4090"), compiled.TITLE)
    says(at, "7 kernels per step on RTX-4090 at batch 64")
    at = open_page("hardware", run=run_id, compiled="20260107-mine00")
    assert "7 kernels per step on" in text_of(at)


def test_without_facts_only_the_button_stands_there(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("core.studies.compiled.shipped.FOLDER", FOLDER / "none")
    at = page(engine, "T4")
    assert "kernels per step" not in text_of(at)
    assert [button.disabled for button in at.button if button.label == compiled.BUTTON] == [False]


def test_start_quotes_the_compiler_of_the_modelled_card(engine: Any) -> None:
    says(
        open_page("start", run=kept(engine, SHIPPED), gpu="T4"),
        "Compiled by XLA of JAX",
        "kernels per step on T4 at batch 32",
    )


def test_start_asks_the_compiler_by_a_click_where_it_knows_nothing(engine: Any) -> None:
    run = planned(RUN, workload=Workload(network="784-16-10"))
    at = open_page("start", run=kept(engine, run), gpu="T4")
    at.button(key="compile_card").click().run()
    plan = started_plan(engine, "compiled").plan
    assert (plan.workload, [card.name for card in plan.cards]) == (run.plan.workload, ["T4"])
    known = open_page("start", run=kept(engine, SHIPPED.model_copy(update={"id": "20260105-known1"})), gpu="T4")
    assert not [button for button in known.button if button.key == "compile_card"], "its facts ship"
