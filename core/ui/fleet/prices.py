"""Prices per hour of each machine on the page: the plan's, and those that a visitor enters."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date

import pandas as pd
import streamlit as st

from core.schema import MAX_PER_HOUR
from core.studies.fleet.record import FleetStudy, MachinePrice
from core.text import clean
from core.ui import money
from core.ui.tables import cleaned
from core.ui.words import plain

MACHINE, PRICE = "Machine", "An hour"


def _key(study_id: str) -> str:
    return f"fleet_prices-{study_id}"


def currency_of(study: FleetStudy) -> str:
    """Return the currency of the plan's prices if they agree on one, else the session's."""
    units = {price.currency for price in study.plan.prices.values()}
    return units.pop() if len(units) == 1 else money.chosen().currency


def chosen(study_id: str, study: FleetStudy) -> dict[str, MachinePrice]:
    """Return prices by machine: the session's input, else the plan's.

    Those in another currency than the rest are converted at the session's rate, or left out without one.
    """
    unit, found = currency_of(study), dict[str, MachinePrice]()
    for name, price in study.plan.prices.items():
        rate = 1.0 if price.currency == unit else money.chosen().rate(price.currency)
        if rate is not None:
            found[name] = price.model_copy(update={"per_hour": price.per_hour * rate, "currency": unit})
    today = date.today().isoformat()
    for name, amount in st.session_state.get(_key(study_id), {}).items():
        found.pop(name, None)
        if amount:
            found[name] = MachinePrice(per_hour=amount, currency=unit, dated=today)
    return found


def fields(study_id: str, study: FleetStudy, prices: Mapping[str, MachinePrice]) -> None:
    """Draw a table of machines with editable prices."""
    st.markdown(plain(f"The prices are yours: what an hour of each machine costs, owned or rented, in "
                      f"{currency_of(study)}. They are kept for this session."))  # fmt: skip
    names = [machine.name for machine in study.machines]
    amounts = [prices[name].per_hour if name in prices else None for name in names]
    table = cleaned(pd.DataFrame({MACHINE: names, PRICE: pd.array(amounts, dtype="Float64")}))
    st.data_editor(
        table, hide_index=True, key=f"{_key(study_id)}-table", disabled=[MACHINE], width=420,
        height=min(38 + 35 * len(names), 388), on_change=_take, args=(study_id, names),
        column_config={PRICE: st.column_config.NumberColumn(min_value=0.0, max_value=MAX_PER_HOUR, format="%.4g")},
    )  # fmt: skip
    if not study.plan.prices:
        money.field()
        money.problem()


def _take(study_id: str, names: list[str]) -> None:
    """Store the changed prices; an empty field removes one."""
    kept = st.session_state.setdefault(_key(study_id), {})
    edited = st.session_state[f"{_key(study_id)}-table"]["edited_rows"]
    for row, change in edited.items():
        if PRICE in change:
            kept[names[int(row)]] = change[PRICE]


def days(prices: Mapping[str, MachinePrice]) -> str:
    """Return text such as ``Prices of 2026-11-22.``"""
    found = sorted({price.dated for price in prices.values()})
    if not found:
        return ""
    return f"Prices of {clean(found[0])}." if len(found) == 1 else f"Prices of {clean(found[0])} to {clean(found[-1])}."
