"""Errors of the hardware model on published steps of chips and of sources that it was not fitted to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from benchmarks.evidence.keras_notebooks import keras_rows
from benchmarks.evidence.measured_here import measured_rows
from benchmarks.evidence.more_cards import MORE_CARDS
from benchmarks.evidence.operations import OLDER, everything
from benchmarks.evidence.recent_networks import recent_rows
from benchmarks.evidence.rows import NetworkRow
from benchmarks.evidence.table import Array, Evidence, joined, of_networks, of_points
from benchmarks.evidence.vendor_networks import LAMBDA, TENSORFLOW, vendor_rows
from benchmarks.hardware_fit import Fitted, MachineHost, fit, hosts_of, predict_rows, prepare, sampled
from core.hardware.catalogue import GpuSpec, catalogue
from core.hardware.constants import constants

CHIPS = {
    "P4": ("P4",), "P100": ("P100-PCIe", "P100-SXM2"), "GTX 1080": ("GTX-1080-Ti", "GTX-1080"),
    "V100, TITAN V": ("V100-16GB-PCIe", "V100-32GB-PCIe", "V100-16GB-SXM2", "V100-32GB-SXM2", "TITAN-V"), "T4": ("T4",),
    "RTX 20, GTX 16": ("RTX-2080", "RTX-2080-Ti", "RTX-2060", "GTX-1650", "Quadro-RTX-5000-Mobile"),
    "A100": ("A100-40GB-PCIe", "A100-40GB-SXM", "A100-80GB-PCIe", "A100-80GB-SXM"), "L4": ("L4",),
    "RTX 30, RTX A, A10, A40": ("RTX-3060", "RTX-3090", "A10", "A40", "RTX-A6000", "RTX-A4500", "RTX-A4000"),
    "RTX 40, L40S": ("RTX-4090", "RTX-4070-Super", "RTX-4060-Ti", "RTX-3500-Ada-Mobile", "L40S"),
    "RTX 50, RTX PRO": ("RTX-5090", "RTX-PRO-6000-Max-Q"),
    "H100, H200": ("H100-PCIe", "H100-SXM", "H200", "GH200"), "B200": ("B200",),
}  # fmt: skip
KEPLER = ("K80-die", "GRID-K520-die")
NEVER_FITTED = frozenset((*OLDER, *KEPLER))
"""Cards of 2015 and before, and two of AMD's: no card of the catalogue is like them."""
OLD_SOURCES = frozenset({TENSORFLOW})
"""Networks with cuDNN of 2017, which had other kernels for convolutions: left out before their errors were seen in the
final model."""
OWN_FOLD = 15
NOTEBOOK_FOLDS = 5
"""Repositories of notebooks are many and small; they are held out in so many groups."""


@dataclass(frozen=True, eq=False)
class Data:
    """Evidence for fitting and for judging."""

    evidence: Evidence
    cards: Mapping[str, GpuSpec]
    hosts: Mapping[str, MachineHost]

    @property
    def usable(self) -> NDArray[np.bool_]:
        """Return a mask of the steps that are fitted to and judged."""
        known = self.evidence
        return ~(np.isin(known.gpu, list(NEVER_FITTED)) | known.tiny | known.bound)


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Log errors (measured / modelled) of steps by constants that were fitted without them, with what the model says
    of each: overhead, arithmetic and bandwidth in ms, how its log step time moves with that of the host, and the share
    of the batch's copy.
    """

    error: Array
    overhead_ms: Array
    arithmetic_ms: Array
    bandwidth_ms: Array
    host_share: Array
    feed_share: Array
    fold: NDArray[np.str_]


def load() -> Data:
    """Return every published step that is used, and each machine's own host."""
    cards: dict[str, GpuSpec] = {**catalogue(), **OLDER, **MORE_CARDS}
    operations = joined([of_points(points) for points in everything()])
    networks = of_networks(network_rows(), cards, constants())
    return Data(joined([operations, networks]), cards, hosts_of(operations))


def network_rows() -> list[NetworkRow]:
    """Return the published steps of whole networks that are used."""
    published = (*vendor_rows(), *keras_rows(), *recent_rows(), *measured_rows())
    return [row for row in published if row.kind != "recurrent" and row.source not in OLD_SOURCES]


def fitted_without(data: Data, without: NDArray[np.bool_], start: Array | None = None) -> tuple[Array, Fitted]:
    """Fit constants to every usable step except the marked ones."""
    few = sampled(data.evidence, without | ~data.usable)
    return fit(few, data.cards, data.hosts, start)


def held_out(data: Data, folds: Mapping[str, NDArray[np.bool_]], start: Array, tell: Callable[[str], None]) -> HeldOut:
    """Return each fold's usable steps, predicted by constants fitted without the fold."""
    size = len(data.evidence)
    errors = HeldOut(*(np.full(size, np.nan) for _ in range(6)), fold=np.full(size, "", dtype="<U60"))
    for name, mask in folds.items():
        if not (mask & data.usable).any():
            continue
        tell(name)
        _, fitted = fitted_without(data, mask, start)
        judge(data, mask & data.usable, fitted, errors, name)
    return errors


def judge(data: Data, mask: NDArray[np.bool_], fitted: Fitted, errors: HeldOut, name: str) -> None:
    """Fill in the errors of the marked steps."""
    mine = data.evidence.where(mask)
    prepared = prepare(mine)
    here = predict_rows(prepared, data.cards, data.hosts, fitted)
    slower = {name: _times(host, 1.1) for name, host in fitted.hosts.items()}
    there = predict_rows(prepared, data.cards, data.hosts, Fitted(fitted.constants, *fitted[1:3], slower))
    errors.error[mask] = np.log(mine.measured_ms / here.step_ms)
    errors.overhead_ms[mask] = here.overhead_ms
    errors.arithmetic_ms[mask] = here.arithmetic_ms
    errors.bandwidth_ms[mask] = here.bandwidth_ms
    errors.host_share[mask] = np.log(there.step_ms / here.step_ms) / np.log(1.1)
    errors.feed_share[mask] = mine.transfer_ms / here.step_ms
    errors.fold[mask] = name


def _times(host: MachineHost, factor: float) -> MachineHost:
    return MachineHost(*(factor * cost for cost in vars(host).values()))


def by_chip(data: Data) -> dict[str, NDArray[np.bool_]]:
    """Return the folds: all cards that carry the same chip, or nearly the same."""
    return {name: np.isin(data.evidence.gpu, cards) for name, cards in CHIPS.items()}


def by_year(data: Data) -> dict[str, NDArray[np.bool_]]:
    """Return one fold: what was measured after 2020, predicted by what was published before."""
    recent = {row.source for row in recent_rows()} | {LAMBDA}
    return {"after 2020": np.isin(data.evidence.source, list(recent))}


def by_source(data: Data) -> dict[str, NDArray[np.bool_]]:
    """Return the folds: every source; repositories of few rows, which are notebooks', in groups."""
    sources, counts = np.unique(data.evidence.source, return_counts=True)
    few = dict(zip(sources.tolist(), (counts < OWN_FOLD).tolist(), strict=True))
    notebooks = [str(source) for source in sources if "/" in source and few[str(source)]]
    folds = {str(source): data.evidence.source == source for source in sources if str(source) not in notebooks}
    for number in range(NOTEBOOK_FOLDS):
        group = [name for name in notebooks if crc32(name.encode()) % NOTEBOOK_FOLDS == number]
        folds[f"notebooks, group {number + 1}"] = np.isin(data.evidence.source, group)
    return folds
