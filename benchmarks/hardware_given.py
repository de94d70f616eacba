"""Compare the model that ships with the one before it, on published steps of whole networks as a user is given them.

Both models get the same steps, with the conditions that the source names and with none named, when the earlier model
assumed Keras on a desktop. The constants that ship were fitted to these steps, the earlier ones to 498 of them. The
earlier model's figures are in ``evidence/model_2026_11_22.json.gz``: what commit 0b41051 gives for each step.

    python -m benchmarks.hardware_given
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from benchmarks.evidence.keras_notebooks import keras_rows
from benchmarks.evidence.more_cards import MORE_CARDS
from benchmarks.evidence.recent_networks import recent_rows
from benchmarks.evidence.rows import NetworkRow
from benchmarks.evidence.vendor_networks import LAMBDA
from benchmarks.hardware_cv import NEVER_FITTED, network_rows
from core.hardware.catalogue import GpuSpec, catalogue
from core.hardware.curve import card_curve
from core.hardware.host import Conditions, Modelling, costs_of_kind
from core.hardware.interval import Modelled
from core.workload.execution import expected

BEFORE = Path(__file__).parent / "evidence" / "model_2026_11_22.json.gz"
GROUPS = ("family", "phase", "year", "card", "source")

Figures = tuple[float, float, float] | None
"""A modelled step and its 95 % interval in ms; None where the model gives no number."""


@dataclass(frozen=True)
class Step:
    """One published step with what both models give for it."""

    row: NetworkRow
    year: str
    before: Figures
    now: Figures

    def group(self, by: str) -> str:
        """Return the group of this step: by family, phase, year, card or source."""
        return {
            "family": "under fit" if self.row.conditions.under_fit else self.row.kind,
            "phase": self.row.workload.mode,
            "year": self.year,
            "card": self.row.gpu,
            "source": self.row.source,
        }[by]


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    report()


def report() -> None:
    """Print both models' figures by every group."""
    print("Inside the 95 % interval, median error, median high over low, steps without a number: before | now")
    for named in (True, False):
        steps = modelled_steps(named=named)
        print(f"\nConditions {'as the source names them' if named else 'not named'}: {len(steps):,} steps")
        print(f"  {'all':38}{_cells(steps)}")
        for by in GROUPS:
            for name in sorted({step.group(by) for step in steps}):
                print(f"  {by:8}{name[:29]:30}{_cells([step for step in steps if step.group(by) == name])}")
    recurrent = sum(row.kind == "recurrent" for row in keras_rows())
    print(f"\nRecurrent networks get no number from either: {recurrent} steps")


def modelled_steps(*, named: bool) -> list[Step]:
    """Return every published step of a whole network that is no mere bound, with what both models give."""
    cards = {**catalogue(), **MORE_CARDS}
    recent = {row.source for row in recent_rows()} | {LAMBDA}
    rows = [row for row in network_rows() if row.gpu not in NEVER_FITTED and not row.upper]
    return [
        Step(
            row,
            "after 2020" if row.source in recent else "to 2020",
            earlier().get(key(row), (None, None))[0 if named else 1],
            modelled(row, cards[row.gpu], named=named),
        )
        for row in rows
    ]


def modelled(row: NetworkRow, spec: GpuSpec, *, named: bool) -> Figures:
    """Return the step as a user is given it, with the conditions named or not."""
    unnamed = Conditions(fed=row.conditions.fed, build="unnamed", under_fit=row.conditions.under_fit)
    conditions = row.conditions if named else unnamed
    execution = expected(row.workload.network, row.conditions.as_built(row.target)).execution
    costs = costs_of_kind(row.host if named else "unnamed", execution)
    (point,) = card_curve(spec, Modelling(row.workload, row.target, costs, conditions), (row.batch,)).points
    return (point.step_ms, point.low_ms, point.high_ms) if isinstance(point, Modelled) else None


def key(row: NetworkRow) -> str:
    """Return a short name of the step, the same in every process and with earlier models' conditions."""
    fed, build, under_fit = row.conditions.fed, row.conditions.build, row.conditions.under_fit
    parts = (
        row.source,
        row.group,
        row.gpu,
        row.workload.model_dump_json(),
        row.target.model_dump_json(),
        f"Conditions(fed={fed}, build={build!r}, under_fit={under_fit})",
        row.host,
        row.batch,
        row.step_ms,
    )
    return hashlib.sha256("|".join(map(str, parts)).encode()).hexdigest()[:16]


@cache
def earlier() -> dict[str, tuple[Figures, Figures]]:
    """Return what the earlier model gives for each step: named, and with nothing named."""
    return json.loads(gzip.decompress(BEFORE.read_bytes()))


def _cells(steps: Sequence[Step]) -> str:
    return " | ".join(_figures(steps, [getattr(step, model) for step in steps]) for model in ("before", "now"))


def _figures(steps: Sequence[Step], every: Sequence[Figures]) -> str:
    values = np.array(list(_judged(steps, every)))
    without = sum(each is None for each in every)
    if not len(values):
        return f"{'no number':>22} {without:5}"
    inside, error, width = values.T
    return f"{inside.mean():6.1%} {np.median(error):7.1%} {np.median(width):7.2f} {without:5}"


def _judged(steps: Sequence[Step], every: Sequence[Figures]) -> Iterator[tuple[float, float, float]]:
    """Yield for each step with a number if the printed time touches the interval, the error, and high over low."""
    for step, each in zip(steps, every, strict=True):
        if each is None:
            continue
        modelled_ms, low_ms, high_ms = each
        printed_ms, half_digit_ms = step.row.step_ms, step.row.resolution_ms
        inside = printed_ms + half_digit_ms >= low_ms and printed_ms - half_digit_ms <= high_ms
        yield float(inside), abs(modelled_ms / printed_ms - 1), high_ms / low_ms


if __name__ == "__main__":
    main()
