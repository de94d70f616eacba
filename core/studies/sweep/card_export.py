"""GPU activity and energy of a run as one table, for CSV and for the report."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields

from core.studies.sweep.card_use import CardRow, card_rows, reasons_words
from core.studies.sweep.energy import EnergyCell, Level, energy_of
from core.studies.sweep.export import csv_text
from core.studies.sweep.record import Run

SPREADS = ("sm_mhz", "memory_mhz", "celsius", "used_mb", "tx_mb_s", "rx_mb_s")


@dataclass(frozen=True)
class CardLine:
    """One target at one batch; ``None`` means unknown. Joules are per sample; low and high are 95 % bounds.

    ``energy_windows`` 0: taken from blocks, which show neither utilisation nor power. ``cpu_package_joules`` is the
    energy of the CPU packages while a GPU target ran.
    """

    target: str
    batch: int
    energy_windows: int
    utilisation_pct: float | None
    utilisation_low: float | None
    utilisation_high: float | None
    sm_mhz: float | None
    sm_mhz_least: float | None
    memory_mhz: float | None
    power_w: float | None
    celsius: float | None
    celsius_most: float | None
    memory_used_mb: float | None
    pcie_from_gpu_mb_s: float | None
    pcie_to_gpu_mb_s: float | None
    clock_reasons: str
    joules: float | None
    joules_low: float | None
    joules_high: float | None
    joules_net: float | None
    joules_net_low: float | None
    joules_net_high: float | None
    cpu_package_joules: float | None
    energy_from: str
    label: str


def card_lines(run: Run) -> tuple[CardLine, ...]:
    """Return one line per cell with known GPU activity or energy, by batch, then target."""
    rows = {(row.batch, row.target): row for target in range(len(run.target_names)) for row in card_rows(run, target)}
    cells = {(cell.batch, cell.target): cell for cell in energy_of(run).cells}
    return tuple(_line(run, key, rows.get(key), cells.get(key)) for key in sorted(rows.keys() | cells.keys()))


def _line(run: Run, key: tuple[int, int], row: CardRow | None, cell: EnergyCell | None) -> CardLine:
    busy, gross = _level(row.util_pct if row else None), _level(cell.gross if cell else None)
    net, watts = _level(cell.net if cell else None), cell.watts if cell else row.power_w if row else None
    spread = {name: (getattr(row, name) if row else None) or (None, None, None) for name in SPREADS}
    return CardLine(
        target=run.target_names[key[1]],
        batch=key[0],
        energy_windows=max(row.windows if row else 0, cell.gross.windows if cell else 0),
        utilisation_pct=busy[0],
        utilisation_low=busy[1],
        utilisation_high=busy[2],
        sm_mhz=spread["sm_mhz"][0],
        sm_mhz_least=spread["sm_mhz"][1],
        memory_mhz=spread["memory_mhz"][0],
        power_w=watts.value if watts else None,
        celsius=spread["celsius"][0],
        celsius_most=spread["celsius"][2],
        memory_used_mb=spread["used_mb"][0],
        pcie_from_gpu_mb_s=spread["tx_mb_s"][0],
        pcie_to_gpu_mb_s=spread["rx_mb_s"][0],
        clock_reasons=reasons_words(row) if row else "",
        joules=gross[0],
        joules_low=gross[1],
        joules_high=gross[2],
        joules_net=net[0],
        joules_net_low=net[1],
        joules_net_high=net[2],
        cpu_package_joules=cell.fed.value if cell and cell.fed else None,
        energy_from=cell.source if cell else "",
        label=run.label,
    )


def cards_csv(run: Run) -> str:
    """Return :func:`card_lines` as CSV."""
    return csv_text([field.name for field in fields(CardLine)], (asdict(line).values() for line in card_lines(run)))


def _level(found: Level | None) -> tuple[float | None, float | None, float | None]:
    return (None, None, None) if found is None else (found.value, found.low, found.high)
