"""Every page with runs of one, three and six targets: nothing raises, and people read names, not the notation."""

import json
from typing import Any

import pytest

from core.ui import charts, frame, menu
from simulated.noises import make_noise_study
from simulated.pages import keep, open_page, text_of, titles
from tests.support.targets import run_of
from tests.support.traced import cpu_cell, gpu_cell, with_traces

pytestmark = pytest.mark.pages

OF_A_RUN = ("crossover", "overhead", "batch", "diagnosis", "hardware")
OPENED = [(page, count) for count in (1, 3, 6) for page in OF_A_RUN]
OPENED += [(page, 6) for page in menu.pages() if page not in OF_A_RUN]


def stored(engine: Any, count: int) -> str:
    cells = (cpu_cell(8), gpu_cell(32)) if count > 1 else (cpu_cell(8),)
    run = with_traces(run_of(count), *cells)
    engine.store.add_study("noise", "20260107-noise", make_noise_study(run))
    return keep(engine.store, run)


@pytest.mark.usefixtures("this_machine")
@pytest.mark.parametrize(("page", "count"), OPENED)
def test_a_page_opens_and_says_names(engine: Any, monkeypatch: pytest.MonkeyPatch, page: str, count: int) -> None:
    """Check folded parts, too."""
    monkeypatch.setattr(frame, "folded", lambda parts: [draw() for draw in parts.values()])
    of_run = {"run": stored(engine, count)} if page in OF_A_RUN else {}
    if not of_run:
        stored(engine, count)
    at = open_page(page, folds=("Host overhead",), **of_run)
    assert not [error.value for error in at.error]
    shown = text_of(at) + json.dumps([json.loads(chart.proto.spec)["layout"] for chart in at.get("plotly_chart")])
    shown += "".join(option.content for group in at.button_group for option in group.proto.options)
    shown += "".join(str(field.label) for field in at.number_input)
    for notation in ("cpu,threads=", "gpu:0", "mixed_float16"):
        assert notation not in shown, shown[max(0, shown.index(notation) - 200) :][:400]


@pytest.mark.parametrize(
    ("asked", "now", "name"),
    [("first", "1", "1 thread"), ("second", "2", "GPU 0"), ("3", "3", "GPU 0, mixed precision")],
)
def test_an_address_names_a_target_by_its_number_and_an_old_one_stays_good(
    engine: Any, asked: str, now: str, name: str
) -> None:
    at = open_page("overhead", run=stored(engine, 3), target=asked)
    assert at.query_params["target"] == now
    (chosen,) = [group.value for group in at.button_group if "GPU 0" in [one.content for one in group.proto.options]]
    assert name in run_of(3).names[chosen]


def test_of_one_target_no_speed_up_is_drawn(engine: Any) -> None:
    folds = (*(charts.CHARTS[kind][0] for kind in ("speed-up", "overhead", "throughput")), "How it was measured")
    at = open_page("crossover", run=stored(engine, 1), folds=folds)
    assert [title.split()[0] for title in titles(at)] == ["Step", "Fixed-cost", "Throughput", "How"]


def test_of_six_targets_the_card_has_the_boundaries_and_a_table_against_the_baseline(engine: Any) -> None:
    at = open_page("crossover", run=stored(engine, 6), folds=("Against the baseline",))
    assert [metric.label for metric in at.metric if metric.label.endswith("fastest")]
    (table,) = [table.value for table in at.table if "Faster than CPU, 1 thread" in table.value.columns]
    assert list(table["Target"]) == list(run_of(6).names[1:])
