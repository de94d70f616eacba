"""The ``gpus`` command: cards whose times can be modelled, with the source of each fact; users add their own here."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import click

from core.base.files import read_limited
from core.base.money import Money
from core.base.numbers import table
from core.base.text import in_lines
from core.cli.choices import currency_option
from core.cli.files import FILE, refusing
from core.cli.terminal import say, show, show_json
from core.hardware.catalogue import (
    FILE_NAME,
    MAX_BYTES,
    MAX_CARDS,
    GpuSpec,
    add_own,
    catalogue,
    checked_on,
    load_own,
    parse_own,
)

COLUMNS = (
    "name", "architecture", "fp32 TFLOP/s", "tf32", "half", "memory GB", "GB/s", "link", "link GB/s", "launch µs",
    "per hour",
)  # fmt: skip


@click.command("gpus")
@click.option("--add", type=FILE, help="Add your own cards from a JSON file, and keep them.")
@currency_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, with the source of every fact.")
def gpus_command(add: Path | None, money: Money, as_json: bool) -> None:
    """List the GPUs that times can be modelled for: peak rates by precision, memory, link, launch, price.

    The file of --add holds {"gpus": [{"name", "fp32_tflops", "memory_gb", "bandwidth_gb_s", "link", ...}]}; a card of
    yours with the same name is replaced.
    """
    path = own_path()
    with refusing():
        if add is not None:
            added = parse_own(read_limited(add, MAX_BYTES, f"at most {MAX_CARDS} cards"))
            add_own(path, added.gpus)
            say(f"Added {', '.join(card.name for card in added.gpus) or 'no card'} to {path}.")
        cards = [spec.priced_in(money) for spec in catalogue(load_own(path)).values()]
    if as_json:
        show_json({"checked": checked_on(), "gpus": [spec.model_dump() for spec in cards]})
    else:
        show(_text(cards))


def own_path() -> Path:
    """Return the file of the user's own cards."""
    from core.store.database import data_dir  # takes a second to load

    return data_dir() / FILE_NAME


def _text(cards: Iterable[GpuSpec]) -> str:
    lines = table(COLUMNS, [_row(spec) for spec in cards])
    return in_lines(
        [
            *lines,
            "",
            f"Peaks are the makers’ or derived from theirs, as found on {checked_on()}; tensor cores without "
            "sparsity, summing in fp32. Numbers with ~ are assumed from cards of the same class.",
            "Prices are list prices of their day; give your own where you have one. --json shows where each fact is "
            "from.",
        ]
    )


def _row(spec: GpuSpec) -> tuple[str | float | None, ...]:
    price = spec.price
    return (
        f"{spec.name} (yours)" if spec.own else spec.name,
        spec.architecture,
        spec.fp32_tflops,
        spec.tf32_tflops,
        spec.half_tflops,
        spec.memory_gb,
        spec.bandwidth_gb_s,
        spec.link,
        _marked(spec, "link_gb_s"),
        _marked(spec, "launch_us"),
        f"{price.per_hour:.2f} {price.currency} ({price.dated})" if price else "",
    )


def _marked(spec: GpuSpec, field: str) -> str:
    return f"{'~' if spec.assumed(field) else ''}{getattr(spec, field):g}"
