"""The ``--currency`` flag: the currency of one command, by default that of BREAKEVEN_CURRENCY."""

from __future__ import annotations

import click

from core.cli.files import refusing
from core.money import NOTATION, VARIABLE, Money, usual


def _chosen(_context: click.Context, _option: click.Parameter, text: str | None) -> Money:
    with refusing():
        return usual() if text is None else Money.parse(text)


currency_option = click.option(
    "--currency", "money", callback=_chosen, help=f"Of all prices: {NOTATION} (default: {VARIABLE}, else USD)."
)
