"""The money unit: its choice, and the conversion of a list price."""

import pytest

from core.base.money import Money, usual
from core.base.schema import UserError
from core.hardware.catalogue import CardPrice

LISTED = CardPrice(per_hour=2.0, currency="USD", dated="2026-05-07", source="a list")


@pytest.mark.parametrize(("text", "words"), [("EUR", "EUR"), (" eur = 0.920 ", "EUR=0.92"), ("USD", "USD")])
def test_a_unit_is_read_and_written(text: str, words: str) -> None:
    assert Money.parse(text).text == words
    assert Money.parse(words) == Money.parse(text)


@pytest.mark.parametrize("text", ["", "€", "euro", "EUR=", "EUR=0", "EUR=-1", "EUR=nan", "EUR=inf", "USD=1", "EUR=a"])
def test_what_is_no_unit_is_refused_with_a_sentence(text: str) -> None:
    with pytest.raises(UserError, match="three letters"):
        Money.parse(text)


def test_the_variable_chooses_and_dollars_are_the_default() -> None:
    assert usual({}) == usual({"BREAKEVEN_CURRENCY": " "}) == Money()
    assert usual({"BREAKEVEN_CURRENCY": "EUR=0.9"}) == Money(currency="EUR", per_usd=0.9)
    with pytest.raises(UserError, match=r"^BREAKEVEN_CURRENCY: A currency"):
        usual({"BREAKEVEN_CURRENCY": "euro"})


def test_a_list_price_is_converted_at_the_users_rate_alone() -> None:
    euros = LISTED.into(Money(currency="EUR", per_usd=0.9))
    assert (euros.per_hour, euros.currency, euros.dated) == (1.8, "EUR", "2026-05-07")
    assert "0.9 EUR" in euros.source
    assert LISTED.into(Money()) == LISTED
    assert LISTED.into(Money(currency="EUR")) == LISTED  # without a rate the price in euros is unknown
    assert euros.into(Money()) == euros
    francs = LISTED.model_copy(update={"currency": "CHF"})
    assert francs.into(Money(currency="EUR", per_usd=0.9)) == francs  # the rate is of dollars alone
