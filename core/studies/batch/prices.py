"""Hourly prices of targets: the user's own numbers, dated, since prices change."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from core.base.money import LISTED
from core.base.schema import Currency, Frozen, PerHour, PriceDay, UserError, as_user_error
from core.workload.names import all_of

MAX_EPOCH_SAMPLES = 10**12


class Price(Frozen):
    """Price of a target per hour. ``target`` is its name in a run; ``currency`` three capital letters, ``dated`` a day
    in ISO 8601.
    """

    target: Annotated[str, Field(min_length=1, max_length=200)]
    per_hour: PerHour
    currency: Currency = LISTED
    dated: PriceDay

    @property
    def amount(self) -> str:
        """The price, as in ``2.5 EUR an hour (2026-11-01)``."""
        return f"{self.per_hour:g} {self.currency} an hour ({self.dated})"

    @classmethod
    def parse(cls, text: str, currency: str, dated: str) -> Price:
        """Return the price written as ``target=amount``, such as ``gpu:0=2.50``. Raises UserError."""
        target, equals, amount = text.strip().rpartition("=")
        if not equals:
            raise UserError(f"Price “{text[:80]}” is not understood; write a target and its price an hour: cpu=0.20.")
        with as_user_error(f"Price “{text[:80]}”: "):
            return cls.model_validate({"target": target, "per_hour": amount, "currency": currency, "dated": dated})


def check_prices(prices: Sequence[Price], target_names: Sequence[str]) -> None:
    """Raise UserError for an unknown target, two prices of one target, or two currencies."""
    for price in prices:
        if price.target not in target_names:
            raise UserError(f"“{price.target}” is no target of this run; it has {all_of(target_names)}.")
    if len({price.target for price in prices}) < len(prices):
        raise UserError("A target has two prices; give one for each.")
    if len({price.currency for price in prices}) > 1:
        raise UserError("The prices are in different currencies; give all in one.")
