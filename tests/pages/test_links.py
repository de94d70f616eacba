"""The link of *Share* opens the same picture, whatever was chosen on the page."""

import json
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from streamlit.testing.v1 import AppTest

from simulated.diagnoses import helping_diagnosis
from simulated.pages import open_page
from simulated.runs import make_run
from tests.support.diagnoses import kept

pytestmark = [pytest.mark.usefixtures("this_machine"), pytest.mark.pages]
RUN = make_run(4)
SHARED = (
    "start", "crossover", "overhead", "diagnosis", "batch", "hardware", "serving", "frontier", "scaling", "pipeline",
    "job", "fleet",
)  # fmt: skip
"""Pages with *Share*; each shows an example."""
OF_FORMS = ("form_", "frontier_mlp", "scaling_", "pipeline_", "fleet_plan")
"""Beginnings of the keys of fields that plan the next measurement, which no link holds."""
MODELLED = " (modelled, runs no worker)"
"""Words beside a card's name in a field."""


def pictures(at: AppTest) -> list[Any]:
    return [json.loads(chart.proto.spec) for chart in at.get("plotly_chart")]


def opened(page: str, **query: str) -> AppTest:
    return open_page(page, context={"url": f"http://localhost:8501/{page}"}, **query)


def reopened(page: str, at: AppTest) -> AppTest:
    """Open the page's own link as somebody else does."""
    link = next(code.value for code in at.code if "embed=true" not in code.value and "?" in code.value)
    return opened(page, **dict(parse_qsl(urlsplit(link).query)))


@pytest.mark.parametrize("page", SHARED)
def test_a_link_opens_the_same_picture(engine: Any, page: str) -> None:
    kept(engine, RUN, helping_diagnosis(RUN))
    at = opened(page)
    assert pictures(at)
    assert pictures(reopened(page, at)) == pictures(at)


@pytest.mark.parametrize("page", SHARED)
def test_every_choice_that_changes_a_picture_is_in_the_link(page: str) -> None:
    at = opened(page)
    first = pictures(at)
    keys = [box.key for box in at.selectbox if box.key and len(box.options) > 1 and not box.key.startswith(OF_FORMS)]
    changed = []
    for key in keys:
        at = opened(page)
        box = at.selectbox(key=key)
        option = box.options[((box.index or 0) + 1) % len(box.options)]
        box.set_value(option.removesuffix(MODELLED)).run()
        assert not at.exception
        if pictures(at) != first:
            changed.append(key)
            assert pictures(reopened(page, at)) == pictures(at), key
    assert changed or page not in ("crossover", "start"), "the choice of a card draws another picture"
