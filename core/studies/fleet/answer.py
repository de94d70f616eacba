"""Answer of a fleet run: the fastest machine at each batch, each against the baseline machine, and its cost.

A design review asks which machine to take for a workload, used in its best way. So each machine counts with its fastest
target at each batch; the same can be asked of one target alone, and the machine's own crossover is shown beside it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from core.analysis.statistics import Array
from core.base.evidence import MAX_TARGETS, Label
from core.base.money import cost_of_seconds
from core.base.numbers import counted
from core.base.schema import UserError
from core.rounds.answer.answer import Against, Band, Boundary, CellStats, Fastest, SpeedUp
from core.rounds.answer.baseline import ahead_words
from core.rounds.answer.condensed import CondensedRun, Joules, condense
from core.rounds.answer.fastest import bands_of
from core.rounds.answer.observations import ALPHA
from core.rounds.answer.verdict import bands_words, lowest_words, where_words
from core.studies.fleet.record import FleetMachine, FleetStudy, MachinePrice
from core.studies.fleet.unpaired import Machines, Times, against_baseline, common_batches, contenders, times_of
from core.workload.names import all_of, shown_names

SHOWN_BANDS, SHOWN_NAMES = 6, 4
UNPAIRED = (
    "The machines are compared unpaired: the variances of both add up, so that intervals are wider than those of two "
    "targets in one run, and what disturbed a machine during its whole run is not in them."
)


def headline(names: Sequence[str], fastest: Fastest, margin: float, batches: Sequence[int], has_interval: bool) -> str:
    """Describe in one sentence which machine is the fastest at which batch."""
    if not has_interval:
        lowest = [next(b.targets[0] for b in fastest.bands if batch <= b.to_batch * 1.01) for batch in batches]
        return lowest_words(names, np.array(lowest), np.array(batches, dtype=float))
    fastest = _joined(fastest)
    _, *parts = bands_words(names, fastest, margin)
    first, edge = fastest.bands[0], fastest.boundaries[0] if fastest.boundaries else None
    where = where_words(first, None, edge, spell=True)
    who = f"The fastest machine is {names[first.targets[0]]} {where}"
    if len(first.targets) > 1:
        what = "A tie" if first.level else "Not clear which machine is the fastest"
        who = f"{what} {where}: {band_label(names, first)}"
    more = len(parts) + 1 - SHOWN_BANDS
    shown = [*parts[: SHOWN_BANDS - 1], f"{counted(more, 'more band')} above that"] if more > 0 else parts
    return f"{'; '.join([who, *shown])}."


def _joined(fastest: Fastest) -> Fastest:
    """Merge neighbouring bands of many machines: that other dozens may be the fastest is no news."""
    bands, edges = [fastest.bands[0]], list[Boundary]()
    for band, edge in zip(fastest.bands[1:], fastest.boundaries, strict=True):
        last = bands[-1]
        if all(len(neighbour.targets) > MAX_TARGETS and not neighbour.level for neighbour in (last, band)):
            bands[-1] = Band(last.from_batch, band.to_batch, tuple(sorted({*last.targets, *band.targets})))
        else:
            bands.append(band)
            edges.append(edge)
    return Fastest(tuple(bands), tuple(edges))


def faster_words(against: Against | None) -> str:
    """Describe for a table where a machine beats the baseline machine: ``from 41 (32 to 50)``, ``throughout``,
    ``nowhere``, ``a tie``; ``clear from 64 on`` without a crossover with an interval.
    """
    if against is None:
        return ""
    words = ahead_words(against)
    return words if words != "not clear" else _where_clear(against.speed_ups)


def _where_clear(speed_ups: Sequence[SpeedUp]) -> str:
    faster = [i for i, speed_up in enumerate(speed_ups) if speed_up.low is not None and speed_up.low > 1]
    slower = [i for i, speed_up in enumerate(speed_ups) if speed_up.high is not None and speed_up.high < 1]
    if not faster:
        return "nowhere clear" if slower else "not clear"
    if faster == list(range(faster[0], len(speed_ups))):
        return f"clear from {speed_ups[faster[0]].batch:,} on"
    if faster == list(range(len(faster))):
        return f"clear up to {speed_ups[faster[-1]].batch:,}"
    return f"clear at {len(faster)} of {counted(len(speed_ups), 'batch size')}"


def band_label(names: Sequence[str], band: Band) -> str:
    """Return the machines of a band, counted if they are many."""
    own = [names[machine] for machine in band.targets]
    return all_of(own) if len(own) <= SHOWN_NAMES else f"{len(own):,} machines"


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
        targets = {cell.target for cell in self.cells}
        return tuple(joules for joules in self.run.energy if joules.target in targets)

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
    runs = {machine.name: run for machine in study.machines if (run := _run_of(study, machine, curves)) is not None}
    targets = tuple(range(len(study.plan.sweep.targets))) if target is None else (target,)
    machines = [m for m in study.machines if m.name in runs and any(runs[m.name].curves[t].batches for t in targets)]
    batches = common_batches([[runs[m.name].curves[t] for t in targets] for m in machines])
    if len(machines) < 2 or not len(batches):
        raise UserError(_too_little(study, len(machines)))
    first = next((i for i, machine in enumerate(machines) if machine.name == baseline), None)
    if baseline is not None and first is None:
        raise UserError(f"“{baseline[:80]}” is no machine of this fleet run that has step times.")
    times = times_of([[runs[m.name].curves[t] for t in targets] for m in machines], batches)
    margin, known_prices = study.plan.sweep.margin, study.plan.prices if prices is None else prices
    against = against_baseline(times, first or 0, margin, tuple(m.name for m in machines))
    cells = _cells(times, [runs[m.name] for m in machines], targets)
    results = tuple(
        Result(m, runs[m.name], own, comparison, known_prices.get(m.name), _costs(own, known_prices.get(m.name)))
        for m, own, comparison in zip(machines, cells, against, strict=True)
    )
    fastest, has_interval = bands(times, margin), bool((times.df > 0).any())
    names = shown_names(study.plan.sweep.targets)
    compared = {machine.name for machine in machines}
    return FleetAnswer(
        results=results, baseline=first or 0, batches=times.batches, fastest=fastest,
        cheapest=_cheapest(times, results, margin), target=target, target_names=names, margin=margin,
        label=_label(results), absent=tuple(m for m in study.machines if m.name not in compared),
        sentence=headline([m.name for m in machines], fastest, margin, times.batches, has_interval),
        has_interval=has_interval,
    )  # fmt: skip


def _run_of(study: FleetStudy, machine: FleetMachine, curves: Curves) -> CondensedRun | None:
    """Return a machine's run from the store, else from the study's file; None without rounds."""
    if machine.run_id is None:
        return None
    condensed = curves.get(machine.run_id)
    if condensed is None and (run := study.run_of(machine)) is not None and run.rounds:
        condensed = condense(run)
    fits = condensed is not None and len(condensed.curves) == len(study.plan.sweep.targets)
    return condensed if fits else None


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
    return _renumbered(bands_of(Machines(times.of(left), max(1, len(times.center) - 1)), margin), left)


def _renumbered(fastest: Fastest, machines: Sequence[int]) -> Fastest:
    """Return the bands of some machines with the indices that those have among all."""

    def own(targets: Sequence[int]) -> tuple[int, ...]:
        return tuple(machines[target] for target in targets)

    return Fastest(
        tuple(replace(band, targets=own(band.targets)) for band in fastest.bands),
        tuple(replace(edge, before=own(edge.before), after=own(edge.after)) for edge in fastest.boundaries),
    )


def _cells(times: Times, runs: Sequence[CondensedRun], at: Sequence[int]) -> list[tuple[CellStats, ...]]:
    """Return the step times of each machine at the shared batches, with its own 95 % interval."""
    own = times.at_batches()
    half = own.own_half_width(ALPHA)
    middle, low, high = np.exp(own.center), np.exp(own.center - half), np.exp(own.center + half)
    has_interval, known = np.isfinite(half), own.known
    all_cells = []
    for machine, run in enumerate(runs):
        cells = []
        for place, batch in enumerate(times.batches):
            if known[machine, place]:
                target = at[int(own.target[machine, place])]
                bounds: tuple[Array | None, ...] = (low[machine, place], high[machine, place])
                low_ms, high_ms = (float(b) for b in bounds) if has_interval[machine, place] else (None, None)  # type: ignore[arg-type]
                rounds = run.curves[target].rounds
                cells.append(CellStats(target, batch, rounds, float(middle[machine, place]), low_ms, high_ms))
        all_cells.append(tuple(cells))
    return all_cells


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
    return _renumbered(bands(shifted, margin), priced)
