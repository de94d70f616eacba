"""The single currency of every price and cost: on pages, in files and in commands.

It is chosen once: by BREAKEVEN_CURRENCY, by a command's --currency, or on a page, whose address then holds it. List
prices are in US dollars, so any other currency needs the user's own rate; none is looked up, and none is built in.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Annotated, Self

from pydantic import Field, model_validator

from core.base.schema import Currency, Frozen, UserError

LISTED = "USD"
"""Currency of list prices, and the default."""
VARIABLE = "BREAKEVEN_CURRENCY"
SECONDS_AN_HOUR = 3600.0
NOTATION = "three letters, such as EUR, or with what a US dollar is worth: EUR=0.92"


class Money(Frozen):
    """A currency; ``per_usd`` is the value of one US dollar in ``currency``, None if the user gave no rate."""

    currency: Currency = LISTED
    per_usd: Annotated[float, Field(gt=0, le=1e7)] | None = None

    @model_validator(mode="after")
    def _dollars_need_no_rate(self) -> Self:
        if self.currency == LISTED and self.per_usd is not None:
            raise ValueError("US dollars need no rate")
        return self

    @property
    def text(self) -> str:
        """Notation that :meth:`parse` reads."""
        return self.currency if self.per_usd is None else f"{self.currency}={self.per_usd:g}"

    @property
    def rate_words(self) -> str:
        """The rate, as in ``at 0.92 EUR a US dollar``; empty without one."""
        return "" if self.per_usd is None else f"at {self.per_usd:g} {self.currency} a US dollar"

    def rate(self, currency: str) -> float | None:
        """Return the value of one unit of ``currency`` in this currency; None if unknown."""
        if currency == self.currency:
            return 1.0
        return self.per_usd if currency == LISTED else None

    @classmethod
    def parse(cls, text: str) -> Money:
        """Return the currency written as ``EUR`` or ``EUR=0.92``. Raises UserError."""
        name, equals, rate = text.strip().partition("=")
        try:
            values = {"currency": name.strip().upper()} | ({"per_usd": float(rate)} if equals else {})
            return cls.model_validate(values)
        except ValueError:
            raise UserError(f"A currency is {NOTATION}; “{text[:40]}” is not.") from None


def cost_of_seconds(seconds: float, per_hour: float) -> float:
    """Return the cost in the currency of the hourly price."""
    return seconds * per_hour / SECONDS_AN_HOUR


def usual(environment: Mapping[str, str] = os.environ) -> Money:
    """Return the currency in BREAKEVEN_CURRENCY, or US dollars. Raises UserError."""
    chosen = environment.get(VARIABLE, "").strip()
    if not chosen:
        return Money()
    try:
        return Money.parse(chosen)
    except UserError as error:
        raise UserError(f"{VARIABLE}: {error}") from None
