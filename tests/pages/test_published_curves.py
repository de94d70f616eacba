"""Published curves on the Hardware page: every entry with its source, its sentence and its chart, and the link out."""

import json
from typing import Any

import pytest

from core.hardware.published import RUN_PREFIX, agreement, gallery, modelled_curve
from core.ui.hardware.published import FITTED, NOT_FITTED, TITLE
from simulated.pages import open_page, says, text_of, titles, unfold
from tests.support.hardware_page import traces

pytestmark = pytest.mark.usefixtures("this_machine")
SWEEPS = [entry for entry in gallery() if entry.is_sweep]


def test_a_link_opens_them_all_without_any_run_of_ones_own(engine: Any) -> None:
    opened = open_page("hardware", show="published")
    assert not engine.jobs.started
    assert opened.query_params["run"] == "example-run"
    *shown, answer = titles(opened)  # they stand above the page's own answer
    assert answer.startswith("Where each card")
    assert len(shown) == len(gallery())
    assert all("published" in title and "modelled" in title for title in shown)
    for entry in gallery():
        says(opened, entry.title, f"Source: {entry.source}.", f"Licence: {entry.licence}.", *entry.caveats)
        says(opened, agreement((entry, modelled_curve(entry))).sentence)
    assert text_of(opened).count("charts of Crossover") == len(SWEEPS)
    assert text_of(opened).count(FITTED) == sum(entry.fitted for entry in gallery())
    assert text_of(opened).count(NOT_FITTED) == sum(not entry.fitted for entry in gallery())
    for fitted in (False, True):
        says(opened, agreement(*((e, modelled_curve(e)) for e in gallery() if e.fitted == fitted)).sentence)
    assert all("(published)" in name or "(modelled)" in name for name in traces(opened))


def test_without_being_asked_for_they_are_folded(engine: Any) -> None:
    at = open_page("hardware")
    assert not [title for title in titles(at) if "published" in title]
    unfold(at, TITLE)
    assert len(titles(at)) == len(gallery()) + 1
    assert not engine.jobs.started


@pytest.mark.parametrize("entry", SWEEPS[:1] + SWEEPS[-1:], ids=lambda entry: entry.id)
def test_a_sweep_opens_in_the_charts_of_a_run_and_is_stored_nowhere(engine: Any, entry: Any) -> None:
    at = open_page("crossover", run=RUN_PREFIX + entry.id, folds=("Step time by batch size",))
    says(at, entry.title, entry.source, *entry.caveats, "All published curves")
    badges = [str(one.proto) for one in at.get("markdown")]
    assert any("published" in badge and "orange" in badge for badge in badges)
    assert len(titles(at)) == 2
    first = json.loads(at.get("plotly_chart")[1].proto.spec)
    assert {one["name"] for one in first["data"]} == {f"{entry.cpu} (published)", f"{entry.gpu} (published)"}
    text = text_of(at)
    assert "worth measuring" not in text
    assert "How it was" not in text
    assert engine.store.summaries() == ()


def test_one_without_a_cpu_is_no_run(engine: Any) -> None:
    assert engine
    alone = next(entry for entry in gallery() if not entry.is_sweep)
    says(open_page("crossover", run=RUN_PREFIX + alone.id), "no run")


def test_pages_that_need_a_plan_say_so_of_a_published_run(engine: Any) -> None:
    assert engine
    for page in ("hardware", "diagnosis", "batch", "overhead"):
        at = open_page(page, run=RUN_PREFIX + SWEEPS[0].id)
        assert not at.error, page


def test_method_leads_there(engine: Any) -> None:
    assert engine
    at = open_page("method")
    says(at, "**published** ", "published curves of")
