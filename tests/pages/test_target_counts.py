"""Every page with runs of one, three and six targets: nothing raises, and people read names, not the notation."""

import json
from typing import Any

import pytest

from core.ui import navigation, registry
from tests.support.noises import make_noise_study
from tests.support.pages import keep, open_page, text_of
from tests.support.targets import COUNTS, answer_by_hand, run_of
from tests.support.traced import cpu_cell, gpu_cell, with_traces

TABS = {
    "batch": ("Batch", "Noise scale", "Memory", "Cost", "Every number"),
    "hardware": ("Curves", "All cards", "What limits it", "Host and evidence"),
}
PAGES = [page for page in navigation.PAGES if page not in ("history", "sweep", "start")]
OPENED = [(page, tab) for page in PAGES for tab in TABS.get(page, ("",))]


@pytest.fixture(autouse=True)
def answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "analyse", answer_by_hand)


def stored(engine: Any, count: int) -> str:
    cells = (cpu_cell(8), gpu_cell(32)) if count > 1 else (cpu_cell(8),)
    run = with_traces(run_of(count), *cells)
    engine.store.add_study("noise", "20260107-noise", make_noise_study(run))
    return keep(engine.store, run)


@pytest.mark.usefixtures("this_machine")
@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize(("page", "tab"), OPENED)
def test_a_page_opens_and_says_names(engine: Any, page: str, tab: str, count: int) -> None:
    at = open_page(page, tab, run=stored(engine, count))
    assert not [error.value for error in at.error]
    shown = text_of(at) + json.dumps([json.loads(chart.proto.spec)["layout"] for chart in at.get("plotly_chart")])
    shown += "".join(option.content for group in at.button_group for option in group.proto.options)
    shown += "".join(str(field.label) for field in at.number_input)
    for notation in ("cpu,threads=", "gpu:0", "mixed_float16"):
        assert notation not in shown, shown[max(0, shown.index(notation) - 200) :][:400]
