"""The Overhead page: the GPU's activity along the batch, and joules per sample."""

import json
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from core.base.evidence import CardUse, Warning
from core.ui.words import plain
from simulated.pages import chart_titles, keep, open_page, says, titles
from simulated.runs import make_run
from tests.support.energies import with_energy
from tests.support.traced import gpu_cell, with_traces

pytestmark = [pytest.mark.usefixtures("engine"), pytest.mark.pages]

FOLDS = ("What the GPU was doing", "Energy per sample")
BUSY, ENERGY = "How busy the GPU was, by batch size", "Energy per sample, by batch size"


def table(at: AppTest, column: str) -> Any:
    return next(frame.value for frame in at.dataframe if column in frame.value)


def test_how_busy_the_gpu_was_stands_beside_the_traced_share(engine: Any) -> None:
    run = with_traces(with_energy(reasons=("power_cap",)), gpu_cell(32))
    at = open_page("overhead", run=keep(engine.store, run), folds=FOLDS)
    assert titles(at)[1:] == [BUSY, ENERGY]
    assert set(FOLDS) <= {fold.label for fold in at.expander}
    says(at, "was busy 14", "1 and 96", "under load; heat", "less energy per", "the GPU alone.",
         "ready: CPU 20", "GPU 0 30")  # fmt: skip
    doing, cells = table(at, "Utilisation (%)"), table(at, "Gross (mJ per sample)")
    assert list(doing["Batch"])[-1] == "1,024"
    assert doing["Utilisation (%)"].iloc[-1].startswith("96 (96 ")
    clock = doing["Named as setting the clock"].iloc[-1]
    assert clock.startswith("power cap")
    assert "blocks" in " ".join(doing["From"])
    assert {*cells["Target"]} == {"CPU", "GPU 0"}


def test_without_traces_it_is_shown_as_well_and_a_slow_gpu_is_said(engine: Any) -> None:
    run = with_traces(with_energy(reasons=("hw_thermal",)))
    at = open_page("overhead", run=keep(engine.store, run), target="second", folds=FOLDS)
    assert titles(at)[1:] == [BUSY, ENERGY]
    says(at, "thermal slowdown", "Mind its cooling")


@pytest.mark.parametrize(
    ("about", "said"),
    [
        ({"cpu_refused": "Only root may read its counter."}, "Only root may read its counter."),
        ({"budget_s": 30.0}, "give the sweep 84 s or more"),
    ],
)
def test_what_was_not_measured_says_why(engine: Any, about: dict[str, Any], said: str) -> None:
    at = open_page("overhead", run=keep(engine.store, with_energy(**about)), folds=FOLDS)
    says(at, said)
    assert (ENERGY in titles(at)) == ("cpu_refused" in about)


def test_a_run_of_old_says_nothing_of_either(engine: Any) -> None:
    at = open_page("overhead", run=keep(engine.store, with_traces(make_run(4), gpu_cell(32))))
    assert len(chart_titles(at)) == 1
    assert not {fold.label for fold in at.expander} & set(FOLDS)


def test_blocks_alone_show_clocks_but_no_utilisation(engine: Any) -> None:
    run = make_run(4)
    card = CardUse(length_s=0.02, samples=1, busy=1, util_pct=7.0, sm_mhz=1590.0, celsius=70.0)
    rounds = tuple(
        item.model_copy(update={"blocks": tuple(b.model_copy(update={"card": card}) for b in item.blocks)})
        for item in run.rounds
    )
    run = with_traces(run.model_copy(update={"rounds": rounds}), gpu_cell(32))
    at = open_page("overhead", run=keep(engine.store, run), folds=FOLDS)
    assert BUSY not in titles(at)
    says(at, "Neither heat nor")
    doing = table(at, "SM clock (MHz)")
    assert doing["SM clock (MHz)"][0] == "1,590"
    assert {"Utilisation (%)", "Power (W)"}.isdisjoint(doing.columns), "nothing is known of them"


def test_columns_are_as_wide_as_their_longest_text_and_a_cpu_has_the_energy_but_no_card(engine: Any) -> None:
    run_id = keep(engine.store, with_energy())
    at = open_page("overhead", run=run_id, folds=FOLDS)
    assert len(at.dataframe) == 2
    frame = next(frame for frame in at.dataframe if "Power (W)" in frame.value)
    columns = json.loads(frame.proto.columns)
    for name in frame.value:
        longest = max(len(str(text)) for text in (name, *frame.value[name]))
        assert columns[name]["width"] >= 6 * longest, name
    at = open_page("overhead", run=run_id, target="first", folds=FOLDS)
    assert BUSY not in titles(at)
    assert ENERGY in titles(at)
    assert FOLDS[0] not in {fold.label for fold in at.expander}


def test_why_the_gpu_has_no_trace_is_said_above_the_cpus(engine: Any) -> None:
    why = Warning(code="trace_1_32", text="gpu:0 at batch 32 could not be traced: CUPTI is missing.")
    run = with_traces(with_energy(), gpu_cell(32).model_copy(update={"target": 0}))
    run = run.model_copy(update={"warnings": (*run.warnings, why)})
    at = open_page("overhead", run=keep(engine.store, run))
    assert next(warning.value for warning in at.warning) == plain(why.text)
