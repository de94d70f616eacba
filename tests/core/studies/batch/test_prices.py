"""Prices per hour: accepted values, and the sentences for refused ones."""

import pytest
from pydantic import ValidationError

from core.studies.batch.shapes import Price, check_prices


def test_a_price_is_read_from_its_notation():
    found = Price.parse("cpu,threads=1=0.20", "USD", "2026-11-01")
    assert (found.target, found.per_hour, found.currency, found.dated) == ("cpu,threads=1", 0.2, "USD", "2026-11-01")
    assert found.amount == "0.2 USD per hour (2026-11-01)"


@pytest.mark.parametrize("text", ["cpu", "cpu=", "cpu=free", "cpu=0", "cpu=-1", "=1", "cpu=nan", "cpu=inf", "cpu=1e9"])
def test_what_is_no_price_is_refused_with_a_sentence(text):
    with pytest.raises(ValueError, match=r"^Price “.*\.$"):
        Price.parse(text, "EUR", "2026-11-01")


@pytest.mark.parametrize("dated", ["", "yesterday", "01.11.2026", "2026-13-01"])
def test_a_price_is_dated_by_a_day(dated):
    with pytest.raises(ValidationError, match="2026-11-01"):
        Price(target="cpu", per_hour=1.0, dated=dated)


@pytest.mark.parametrize("currency", ["€", "eur", "EURO", ""])
def test_a_currency_is_three_capital_letters(currency):
    with pytest.raises(ValueError, match="currency"):
        Price.parse("cpu=1", currency, "2026-11-01")


def priced(target: str, currency: str = "EUR") -> Price:
    return Price(target=target, per_hour=1.0, currency=currency, dated="2026-11-01")


def test_prices_fit_the_targets_of_a_run():
    names = ("cpu", "gpu:0")
    check_prices([], names)
    check_prices([priced("gpu:0")], names)
    check_prices([priced("cpu"), priced("gpu:0")], names)
    with pytest.raises(ValueError, match="“tpu” is no"):
        check_prices([priced("tpu")], names)
    with pytest.raises(ValueError, match="two prices"):
        check_prices([priced("cpu"), priced("cpu")], names)
    with pytest.raises(ValueError, match="currencies"):
        check_prices([priced("cpu"), priced("gpu:0", "USD")], names)
