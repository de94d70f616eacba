"""The money unit on pages: one per session, kept in the address; its default is BREAKEVEN_CURRENCY."""

from __future__ import annotations

import streamlit as st

from core.base.money import LISTED, Money, usual
from core.base.schema import UserError
from core.base.text import clean
from core.ui.words import plain

QUERY = "money"
KEY, PUT, PROBLEM = "money", "money_put", "money_problem"


def chosen() -> Money:
    """Return the session's unit, or the address's if that was changed from outside."""
    text = st.query_params.get(QUERY)
    if text is not None and text != st.session_state.get(PUT):
        st.session_state[PUT] = text
        _keep(text)
    if KEY not in st.session_state:
        _keep(None)
    money: Money = st.session_state[KEY]
    return money


def _keep(text: str | None) -> None:
    """Store a unit given in its notation, None for the default; :func:`field` reports errors."""
    try:
        st.session_state[KEY] = usual() if text is None else Money.parse(text)
        st.session_state.pop(PROBLEM, None)
    except UserError as error:
        st.session_state.setdefault(KEY, Money())
        st.session_state[PROBLEM] = str(error)


def put() -> None:
    """Put the unit into the address, unless it is the default."""
    money = chosen()
    if money == Money():
        st.query_params.pop(QUERY, None)
    else:
        st.session_state[PUT] = st.query_params[QUERY] = money.text


def address() -> dict[str, str]:
    """Return the parameters by which a link keeps the unit."""
    money = chosen()
    return {} if money == Money() else {QUERY: money.text}


def field() -> None:
    """Draw the unit, for every page with a price; with it the user's rate, which converts list prices."""
    money = chosen()
    st.text_input(
        "Currency", value=clean(money.currency), max_chars=3, key="money_currency", width=100, on_change=_take,
        help="Of every price and cost on all pages, three letters.",
    )  # fmt: skip
    if money.currency != LISTED:
        st.number_input(
            f"A US dollar is worth ({plain(money.currency)})", value=money.per_usd, format="%g", width=200,
            key=f"money_rate-{money.currency}", on_change=_take, placeholder="unknown",
            help="Your rate. List prices are in US dollars; without a rate they are not counted.",
        )  # fmt: skip


def problem() -> None:
    """Show the error of the requested unit, below its field."""
    if PROBLEM in st.session_state:
        st.error(plain(st.session_state[PROBLEM]), icon=":material/error:")


def _take() -> None:
    """Store the current values of the fields."""
    currency = st.session_state["money_currency"].strip().upper()
    rate = st.session_state.get(f"money_rate-{currency}")
    _keep(currency if rate is None else f"{currency}={rate:g}")
