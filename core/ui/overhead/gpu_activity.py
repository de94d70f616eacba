"""Activity of the GPU during its steps, and energy per sample: charts, sentences, tables."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import pandas as pd
import streamlit as st

from core.base.numbers import bounded, number
from core.base.text import sentence_case
from core.rounds.answer.card_use import (
    UTILISATION,
    CardRow,
    card_rows,
    clock_sentence,
    reasons_words,
    utilisation_sentence,
)
from core.rounds.answer.energy import SOURCES, Energy, Level, energy_of, energy_sentence, fed_sentence
from core.rounds.run import Run
from core.rounds.show.card_figures import energy_figure, utilisation_figure
from core.ui import charts, registry
from core.ui.tables import cleaned
from core.ui.words import plain

WHY_IDLE = (
    "A GPU that is busy for a small share of the time waits for the rest: for the host to launch the next operation, "
    "or for data. The traced parts say for which; a larger batch gives it more to do between two launches."
)
OFTEN_IDLE_PCT = 50.0
CHARACTER_PX, CELL_PX = 6, 30  # of a table: mean width of a character, and the padding of a cell


def rows_of(run: Run, target: int) -> tuple[CardRow, ...]:
    """Return the activity of a target's card, by batch."""
    return registry.once(("cards", *_key(run), target), partial(card_rows, run, target))


def show(run: Run, target: int) -> None:
    """Show the GPU's utilisation by batch, and its clocks, power and temperature; nothing if they were not recorded."""
    rows = rows_of(run, target)
    if not rows:
        return
    busy = utilisation_sentence(run, rows)
    shares = [row.util_pct.value for row in rows if row.util_pct is not None]
    why = WHY_IDLE if shares and min(shares) < OFTEN_IDLE_PCT else ""
    st.markdown(plain(" ".join(filter(None, (busy, clock_sentence(rows), why)))))
    if busy:
        make = partial(utilisation_figure, run, target, rows)
        charts.show("utilisation", make, f"Utilisation of the GPU by batch size. {busy}", f"{run.id}-utilisation",
                    (*_key(run), target))  # fmt: skip
    _card_table(run, rows)
    st.caption(plain(UTILISATION))


def energy(run: Run) -> None:
    """Show joules per sample of every target, and where either needs less; nothing if not recorded."""
    if not run.energy:
        return
    measured = registry.once(("energy", *_key(run)), partial(energy_of, run))
    sentence = energy_sentence(run, measured)
    st.markdown(plain(f"{sentence} {fed_sentence(run, measured)}"))
    for why in measured.skipped:
        if why != sentence:
            st.caption(plain(why))
    if not measured.cells:
        return
    make = partial(energy_figure, run, measured)
    charts.show("energy", make, f"Energy per sample by batch size. {sentence}", f"{run.id}-energy", _key(run))
    _energy_table(run, measured)


def _key(run: Run) -> tuple[registry.Revision, int]:
    return registry.revision(run), len(run.energy)


def _card_table(run: Run, rows: Sequence[CardRow]) -> None:
    table = pd.DataFrame(
        {
            "Batch": [f"{row.batch:,}" for row in rows],
            **_known("Utilisation (%)", [_level(row.util_pct) for row in rows]),
            **_known("Power (W)", [_level(row.power_w) for row in rows]),
            "SM clock (MHz)": [_spread(row.sm_mhz) for row in rows],
            "Memory clock (MHz)": [_spread(row.memory_mhz) for row in rows],
            "Temperature (°C)": [_spread(row.celsius) for row in rows],
            "Named as setting the clock": [reasons_words(row) for row in rows],
            "Memory used (MB)": [_spread(row.used_mb) for row in rows],
            "PCIe to the GPU (MB/s)": [_spread(row.rx_mb_s) for row in rows],
            "PCIe from the GPU (MB/s)": [_spread(row.tx_mb_s) for row in rows],
            "From": [f"{row.windows} windows" if row.windows else f"blocks, {row.samples} samples" for row in rows],
            "Label": [run.label] * len(rows),
        }
    )
    st.dataframe(
        cleaned(table), hide_index=True, key="card-use", column_config=_widths(table),
        alt="One row for each batch: utilisation, power, clocks, temperature, what set the clock, memory, PCIe.",
    )  # fmt: skip
    st.caption(
        "In brackets: of utilisation and power the 95 % interval over windows, of the others the least and the most of "
        "all samples, of clocks and temperature of those of the busy GPU. A power cap is normal under load; thermal "
        "and hardware slowdowns are not. Utilisation and power need windows of two seconds, since the driver averages "
        "them over up to a second."
    )


def _energy_table(run: Run, measured: Energy) -> None:
    table = pd.DataFrame(
        {
            "Batch": [f"{cell.batch:,}" for cell in measured.cells],
            "Target": [sentence_case(run.names[cell.target]) for cell in measured.cells],
            "Gross (mJ per sample)": [_level(cell.gross, 1000) for cell in measured.cells],
            "Net of idle (mJ per sample)": [_level(cell.net, 1000) for cell in measured.cells],
            "CPU packages beside (mJ per sample)": [_level(cell.fed, 1000) for cell in measured.cells],
            "Power (W)": [_level(cell.watts) for cell in measured.cells],
            "Windows": [cell.gross.windows for cell in measured.cells],
            "From": [SOURCES[cell.source] for cell in measured.cells],
            "Label": [run.label] * len(measured.cells),
        }
    )
    st.dataframe(
        cleaned(table), hide_index=True, key="energy-cells", column_config=_widths(table),
        alt="One row for each target and batch: energy per sample gross, net of idle, and of the CPU packages beside.",
    )  # fmt: skip
    idle = [f"{run.names[target]} {_level(level)} W" for target, level in sorted(measured.idle_w.items())]
    rest = f" Idle, with the workers ready: {'; '.join(idle)}." if idle else ""
    st.caption(
        plain(
            "Windows of two seconds and more of the same steps; in brackets 95 % intervals over the windows, which are "
            f"of one worker process.{rest}"
        )
    )


def _known(name: str, values: list[str]) -> dict[str, list[str]]:
    """Return a column, unless it is empty in every row."""
    return {name: values} if any(values) else {}


def _widths(table: pd.DataFrame) -> dict[str, Any]:
    """Return for each column the width of its longest text, so that no value is cut; a table too wide scrolls."""
    longest = {str(name): max(len(str(text)) for text in (name, *table[name])) for name in table}
    return {
        name: st.column_config.Column(width=CELL_PX + CHARACTER_PX * characters) for name, characters in longest.items()
    }


def _level(level: Level | None, scale: float = 1.0) -> str:
    if level is None:
        return ""
    low, high = (None if end is None else scale * end for end in (level.low, level.high))
    words = bounded(scale * level.value, low, high)
    return words if low is not None else f"{words} (no interval)"


def _spread(spread: tuple[float, float, float] | None) -> str:
    if spread is None:
        return ""
    mean, least, most = map(number, spread)
    return mean if least == most else f"{mean} ({least} to {most})"
