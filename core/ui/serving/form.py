"""The fields of the Serving page: the promised latency, the batcher, the user's rate and prices; all in the address."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import date
from typing import Any, get_args

import streamlit as st

from core.base.fields import PlanField, fields_of
from core.base.schema import UserError
from core.studies.batch.shapes import Price
from core.studies.serving.service import Percentile, Service
from core.ui import money, navigation
from core.ui.checks import Checks
from core.ui.places import KEEP, Places
from core.ui.words import plain

FIELDS = fields_of(Service)
ABOVE = ("limit_ms", "percentile", "max_batch", "rate_per_s")
BETWEEN = "~"
"""Between prices in an address, in the order of targets; needs no escape there."""


def choices(titles: Mapping[str, str], usual: Service) -> tuple[Service | None, tuple[Price, ...]]:
    """Draw the fields and return service and prices; no service, with a sentence at each wrong field, if it is not
    possible. ``titles`` are those of the targets, by name; ``usual`` is chosen where nothing else is.
    """
    places, checks = Places(), Checks()
    with st.container(horizontal=True, vertical_alignment="bottom"):
        entered = {name: _field(FIELDS[name], places, usual) for name in ABOVE}
        with st.popover("Batcher", icon=":material/tune:", width="content"):
            entered |= {name: _field(field, places, usual) for name, field in FIELDS.items() if name not in ABOVE}
        with st.popover("Prices", icon=":material/payments:", width="content"):
            prices = _price_fields(titles)
    values = checks.fields(Service, entered)
    outcome = checks.outcome("limit_ms", lambda: Service.model_validate(values))
    places.fill(outcome.errors)
    if outcome.plan is not None:
        _put(outcome.plan, usual)
    return outcome.plan, prices


def _field(field: PlanField, places: Places, usual: Service) -> Any:
    """Draw a field, which takes its first value from the address."""
    key = f"serving_{field.key}"
    default = field.with_default(_addressed(field, usual)) if key not in st.session_state else field
    if field.name == "percentile":
        options = {f"p{name}": name for name in get_args(Percentile)}
        index = list(options.values()).index(default.default)
        return places.plan_field(field, "serving", options, index=index, width=110)
    return places.plan_field(default, "serving", width=170)


def _addressed(field: PlanField, usual: Service) -> Any:
    """Return the address's value of a field, else the usual one; a wrong one is left out."""
    text, default = st.query_params.get(field.key), getattr(usual, field.name)
    if text is None:
        return default
    with suppress(UserError, ValueError):
        if field.name == "percentile":
            return text if text in get_args(Percentile) else default
        if field.type is bool:
            return text == "1"
        return field.checked(float(text))
    return default


def _put(chosen: Service, usual: Service) -> None:
    """Put what is not as usual into the address."""
    for name, field in FIELDS.items():
        value = getattr(chosen, name)
        shown = value if isinstance(value, str) else f"{value:g}" if value is not None else None
        navigation.put(**{field.key: shown if value != getattr(usual, name) else None})


def _price_fields(titles: Mapping[str, str]) -> tuple[Price, ...]:
    """Draw a field per target, by name and title, for its price, and return the prices given; a wrong one is said."""
    amounts = [
        st.number_input(
            f"An hour on {plain(shown)}", value=amount, step=0.1, format="%.4g", min_value=0.0,
            key=f"serving_price-{name}", placeholder="none", persist_state=KEEP,
        )
        for (name, shown), amount in zip(titles.items(), _addressed_amounts(titles), strict=True)
    ]  # fmt: skip
    money.field()
    money.problem()
    texts = [f"{amount:g}" if amount else "" for amount in amounts]
    navigation.put(prices=BETWEEN.join(texts) if any(texts) else None)
    money.put()
    return _prices(titles, amounts)


def addressed(titles: Mapping[str, str], usual: Service) -> tuple[Service, tuple[Price, ...]]:
    """Return service and prices of the address, for a page without fields."""
    service = Service.model_validate({name: _addressed(field, usual) for name, field in FIELDS.items()})
    return service, _prices(titles, _addressed_amounts(titles))


def _prices(titles: Mapping[str, str], amounts: Sequence[float | None]) -> tuple[Price, ...]:
    currency, dated = money.chosen().currency, date.today().isoformat()
    try:
        return tuple(
            Price.parse(f"{name}={amount:g}", currency, dated)
            for name, amount in zip(titles, amounts, strict=True)
            if amount
        )
    except UserError as error:
        st.error(plain(str(error)), icon=":material/error:")
        return ()


def _addressed_amounts(titles: Mapping[str, str]) -> list[float | None]:
    texts = st.query_params.get("prices", "").split(BETWEEN)
    return [_amount(text) for text in (*texts, *[""] * len(titles))[: len(titles)]]


def _amount(text: str) -> float | None:
    """Return a price; None for none and for what is none."""
    with suppress(ValueError):
        return float(text) if text and 0 < float(text) < math.inf else None
    return None
