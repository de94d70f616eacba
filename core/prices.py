"""What an hour on each target costs: the person's own numbers, dated, since prices change."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import Annotated

from pydantic import Field, ValidationError, field_validator

from core.spec import Frozen, explain

MAX_PER_HOUR = 1e6
MAX_EPOCH_SAMPLES = 10**12


class Price(Frozen):
    """``target`` is the target's name in a run; ``currency`` three capital letters, ``dated`` a day in ISO 8601."""

    target: Annotated[str, Field(min_length=1, max_length=200)]
    per_hour: Annotated[float, Field(gt=0, le=MAX_PER_HOUR)]
    currency: Annotated[str, Field(pattern=r"^[A-Z]{3}$")] = "EUR"
    dated: str

    @field_validator("dated")
    @classmethod
    def _a_day(cls, value: str) -> str:
        try:
            return date.fromisoformat(value).isoformat()
        except ValueError:
            raise ValueError("a price is dated by a day, such as 2026-11-01") from None

    @property
    def words(self) -> str:
        return f"{self.target} at {self.per_hour:g} {self.currency} an hour ({self.dated})"

    @classmethod
    def parse(cls, text: str, currency: str, dated: str) -> Price:
        """Price from ``target=amount``, such as ``gpu:0=2.50``. Raises ValueError with a sentence."""
        target, equals, amount = text.strip().rpartition("=")
        if not equals:
            raise ValueError(f"Price “{text[:80]}” is not understood; write a target and its price an hour: cpu=0.20.")
        try:
            return cls.model_validate({"target": target, "per_hour": amount, "currency": currency, "dated": dated})
        except ValidationError as error:
            raise ValueError(f"Price “{text[:80]}”: {explain(error)}") from None


def check_prices(prices: Sequence[Price], target_names: Sequence[str]) -> None:
    """Raises ValueError with a sentence for an unknown target, two prices of one target, or two currencies."""
    for price in prices:
        if price.target not in target_names:
            raise ValueError(f"“{price.target}” is no target of this run; it has {' and '.join(target_names)}.")
    if len({price.target for price in prices}) < len(prices):
        raise ValueError("A target has two prices; give one for each.")
    if len({price.currency for price in prices}) > 1:
        raise ValueError("The prices are in different currencies; give all in one.")
