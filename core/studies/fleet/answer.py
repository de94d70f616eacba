"""Answer of a fleet run: the fastest machine at each batch, each against the baseline machine, and its cost.

A design review asks which machine to take for a workload, used in its best way. So each machine counts with its fastest
target at each batch; the same can be asked of one target alone, and the machine's own crossover is shown beside it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from core.analysis.statistics import Array
from core.evidence import Label
from core.money import cost_of_seconds
from core.names import shown_names
from core.schema import UserError
from core.studies.fleet.baseline import against_baseline
from core.studies.fleet.record import FleetMachine, FleetStudy, MachinePrice
from core.studies.fleet.unpaired import Machines, Times, common_batches, contenders, times_of
from core.studies.fleet.words import headline
from core.studies.sweep.answer import Against, Band, Boundary, CellStats, Fastest
from core.studies.sweep.condensed import CondensedRun, Joules, condense
from core.studies.sweep.fastest import bands_of
from core.studies.sweep.observations import ALPHA

MILLION = 1_000_000
Curves = Mapping[str, CondensedRun]
"""Condensed runs by run id."""


@dataclass(frozen=True)
class Cost:
    """Cost of a million samples at a batch, with the 95 % interval from the step time; the price is taken as exact."""

    batch: int
    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Result:
    """Result of one machine's run.

    ``cells`` are the step times of the target that counts (``cells[i].target``) at each shared batch. ``against``
    compares the machine with the baseline machine: None for that itself, and without a shared batch. ``price`` and
    ``costs`` are None and empty without a price.
    """

    machine: FleetMachine
    run: CondensedRun
    cells: tuple[CellStats, ...]
    against: Against | None
    price: MachinePrice | None
    costs: tuple[Cost, ...]

    @property
    def name(self) -> str:
        return self.machine.name

    @property
    def energy(self) -> tuple[Joules, ...]:
        """Energies of the targets that count."""
        counted = {cell.target for cell in self.cells}
        return tuple(found for found in self.run.energy if found.target in counted)

    def cell(self, batch: int) -> CellStats | None:
        return next((cell for cell in self.cells if cell.batch == batch), None)

    def cost(self, batch: int) -> Cost | None:
        return next((cost for cost in self.costs if cost.batch == batch), None)


@dataclass(frozen=True)
class FleetAnswer:
    """Answer of a fleet run.

    ``results`` are the machines with step times, in the order of the study; targets of bands, boundaries and
    ``against`` are their indices. ``cheapest`` has the bands of the cheapest sample, None without two prices in one
    currency. ``target`` is the one asked for, None for each machine's fastest. ``absent`` have no step times.
    """

    results: tuple[Result, ...]
    baseline: int
    batches: tuple[int, ...]
    fastest: Fastest
    cheapest: Fastest | None
    target: int | None
    target_names: tuple[str, ...]
    margin: float
    label: Label
    sentence: str
    absent: tuple[FleetMachine, ...]
    has_interval: bool

    @cached_property
    def has_prices(self) -> bool:
        return any(result.price is not None for result in self.results)

    @cached_property
    def has_energy(self) -> bool:
        return any(result.energy for result in self.results)

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(result.name for result in self.results)

    @property
    def best(self) -> tuple[int, ...]:
        """Machines that are, or may be, the fastest somewhere, those alone in a band first."""
        bands = sorted(self.fastest.bands, key=lambda band: len(band.targets))
        return tuple(dict.fromkeys(machine for band in bands for machine in band.targets))


def answer_of(
    study: FleetStudy,
    curves: Curves,
    baseline: str | None = None,
    target: int | None = None,
    prices: Mapping[str, MachinePrice] | None = None,
) -> FleetAnswer:
    """Derive the answer from the condensed runs of the store and those inside the study.

    Args:
        study: the fleet run.
        curves: condensed runs of the store, by run id.
        baseline: name of a machine; by default the first with step times.
        target: index of one of the plan's targets; by default each machine's fastest.
        prices: by machine name; by default the plan's.

    Raises:
        UserError: if there is nothing to compare.
    """
    found = {machine.name: run for machine in study.machines if (run := _run_of(study, machine, curves)) is not None}
    at = tuple(range(len(study.plan.sweep.targets))) if target is None else (target,)
    taken = [m for m in study.machines if m.name in found and any(found[m.name].curves[t].batches for t in at)]
    batches = common_batches([[found[m.name].curves[t] for t in at] for m in taken])
    if len(taken) < 2 or not len(batches):
        raise UserError(_too_little(study, len(taken)))
    first = next((i for i, machine in enumerate(taken) if machine.name == baseline), None)
    if baseline is not None and first is None:
        raise UserError(f"“{baseline[:80]}” is no machine of this fleet run that has step times.")
    times = times_of([[found[m.name].curves[t] for t in at] for m in taken], batches)
    margin, known = study.plan.sweep.margin, study.plan.prices if prices is None else prices
    against = against_baseline(times, first or 0, margin, tuple(m.name for m in taken))
    cells = _cells(times, [found[m.name] for m in taken], at)
    results = tuple(
        Result(m, found[m.name], mine, one, known.get(m.name), _costs(mine, known.get(m.name)))
        for m, mine, one in zip(taken, cells, against, strict=True)
    )
    fastest, sure = bands(times, margin), bool((times.df > 0).any())
    names = shown_names(study.plan.sweep.targets)
    compared = {machine.name for machine in taken}
    return FleetAnswer(
        results=results, baseline=first or 0, batches=times.batches, fastest=fastest,
        cheapest=_cheapest(times, results, margin), target=target, target_names=names, margin=margin,
        label=_label(results), absent=tuple(m for m in study.machines if m.name not in compared), has_interval=sure,
        sentence=headline([m.name for m in taken], fastest, margin, times.batches, sure),
    )  # fmt: skip


def _run_of(study: FleetStudy, machine: FleetMachine, curves: Curves) -> CondensedRun | None:
    """Return a machine's run from the store, else from the study's file; None without rounds."""
    if machine.run_id is None:
        return None
    found = curves.get(machine.run_id)
    if found is None and (run := study.run_of(machine)) is not None and run.rounds:
        found = condense(run)
    fits = found is not None and len(found.curves) == len(study.plan.sweep.targets)
    return found if fits else None


def _too_little(study: FleetStudy, taken: int) -> str:
    if taken > 1:
        return "The machines share no measured batch size, so there is nothing to compare."
    few = "Only one machine has" if taken else "No machine has"
    of = f"{len(study.machines)} machine{'s' * (len(study.machines) != 1)}"
    return f"{few} step times yet, of {of}; a comparison needs two."


def _label(results: Sequence[Result]) -> Label:
    labels = {result.run.label for result in results}
    return labels.pop() if len(labels) == 1 else "recorded"


def bands(times: Times, margin: float) -> Fastest:
    """Return the bands and boundaries of the fastest machine, simultaneous over batches and machines."""
    left = contenders(times, ALPHA)
    found = bands_of(Machines(times.of(left), max(1, len(times.center) - 1)), margin)
    return Fastest(
        tuple(Band(b.from_batch, b.to_batch, tuple(left[k] for k in b.targets), b.level) for b in found.bands),
        tuple(
            Boundary(b.batch, b.low, b.high, tuple(left[k] for k in b.before), tuple(left[k] for k in b.after))
            for b in found.boundaries
        ),
    )


def _cells(times: Times, runs: Sequence[CondensedRun], at: Sequence[int]) -> list[tuple[CellStats, ...]]:
    """Return the step times of each machine at the shared batches, with its own 95 % interval."""
    own = times.at_batches()
    half = own.own_half_width(ALPHA)
    middle, low, high = np.exp(own.center), np.exp(own.center - half), np.exp(own.center + half)
    sure, known = np.isfinite(half), own.known
    found = []
    for machine, run in enumerate(runs):
        cells = []
        for place, batch in enumerate(times.batches):
            if known[machine, place]:
                target = at[int(own.target[machine, place])]
                bounds: tuple[Array | None, ...] = (low[machine, place], high[machine, place])
                low_ms, high_ms = (float(b) for b in bounds) if sure[machine, place] else (None, None)  # type: ignore[arg-type]
                rounds = run.curves[target].rounds
                cells.append(CellStats(target, batch, rounds, float(middle[machine, place]), low_ms, high_ms))
        found.append(tuple(cells))
    return found


def _costs(cells: Sequence[CellStats], price: MachinePrice | None) -> tuple[Cost, ...]:
    if price is None:
        return ()
    scale = cost_of_seconds(MILLION / 1000, price.per_hour)  # cost of as many milliseconds

    def cost(ms: float | None, batch: int) -> float | None:
        return None if ms is None else scale * ms / batch

    return tuple(
        Cost(
            cell.batch, scale * cell.step_ms / cell.batch, cost(cell.low_ms, cell.batch), cost(cell.high_ms, cell.batch)
        )
        for cell in cells
    )


def _cheapest(times: Times, results: Sequence[Result], margin: float) -> Fastest | None:
    """Return the bands of the cheapest sample, price × step time ÷ batch: the contest of step times, shifted by log
    prices.
    """
    priced = [i for i, result in enumerate(results) if result.price is not None]
    prices = [result.price for result in results if result.price is not None]
    if len(priced) < 2 or len({price.currency for price in prices}) > 1:
        return None
    shifted = times.of(priced).shifted(np.log([price.per_hour for price in prices]))
    found = bands(shifted, margin)
    return Fastest(
        tuple(Band(b.from_batch, b.to_batch, tuple(priced[k] for k in b.targets), b.level) for b in found.bands),
        tuple(
            Boundary(b.batch, b.low, b.high, tuple(priced[k] for k in b.before), tuple(priced[k] for k in b.after))
            for b in found.boundaries
        ),
    )
