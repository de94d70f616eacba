"""The link of *Share* opens the same picture, whatever was chosen on the page."""

import json
from collections.abc import Iterator
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
OF_FORMS = ("form_", "frontier_mlp", "scaling_", "pipeline_", "fleet_plan", "diagnosis_")
"""Beginnings of the keys of fields that plan the next measurement, which no link holds."""
FIELDS = (
    "selectbox", "radio", "button_group", "toggle", "checkbox", "multiselect", "slider", "select_slider",
    "number_input",
)  # fmt: skip
CHANGED = ("start", "crossover", "hardware", "serving", "frontier", "fleet")
"""Pages with a field that draws another picture."""
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


def fields(at: AppTest) -> Iterator[tuple[str, Any]]:
    """Yield the key and the element of each field that is no form's."""
    for kind in FIELDS:
        for field in at.get(kind):
            key = getattr(field, "key", None)
            if key and not key.startswith(OF_FORMS) and not field.proto.disabled:
                yield key, field


def another(field: Any) -> Any:
    """Return a value that the field does not have; None if it has no other."""
    value = field.value
    if isinstance(value, bool):
        return not value
    if field.type == "number_input":
        up = (value or 0) + (field.step or 1)
        return up if field.max is None or up <= field.max else value - (field.step or 1)
    if field.type == "slider":
        return (value[0], (value[0] + value[1]) / 2) if isinstance(value, tuple | list) else min(field.max, value + 1)
    several = isinstance(value, list)
    options = [option.removesuffix(MODELLED) for option in field.options]
    index = getattr(field, "index", None)
    chosen = value if several else [options[index]] if index is not None else [str(value)]
    left = [option for option in options if option not in chosen]
    if not left:
        return None
    number = left[0].replace(",", "")
    wanted = int(number) if isinstance(value, int) and number.isdigit() else left[0]
    return [*value, wanted] if several else wanted


@pytest.mark.parametrize("page", SHARED)
def test_every_choice_that_changes_a_picture_is_in_the_link(engine: Any, page: str) -> None:
    """Change one field after the other, and open the link of all."""
    kept(engine, RUN, helping_diagnosis(RUN))
    at = opened(page)
    changed, tried = [], set()
    while untried := [(key, field) for key, field in fields(at) if key not in tried]:
        key, field = untried[0]
        tried.add(key)
        value, before = another(field), pictures(at)
        if value is None:
            continue
        field.set_value(value).run()
        if pictures(at) != before:
            changed.append(key)
    assert pictures(reopened(page, at)) == pictures(at), changed
    assert changed or page not in CHANGED
