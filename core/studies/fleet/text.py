"""Fleet run as lines of text, for a terminal, Markdown and the history."""

from __future__ import annotations

from collections.abc import Sequence

from core.analysis.numerics import evenly
from core.analysis.statistics import MIN_UNITS
from core.base.numbers import bounded, counted, number, table
from core.base.text import in_lines
from core.rounds.answer.answer import CellStats
from core.rounds.answer.energy import joules
from core.rounds.answer.verdict import bands_words
from core.studies.fleet.answer import SHOWN_BANDS, UNPAIRED, Cost, FleetAnswer, Result, faster_words
from core.studies.fleet.record import FleetMachine, FleetStudy

SHOWN_MACHINES, SHOWN_BATCHES = 30, 3


def fleet_text(study: FleetStudy, answer: FleetAnswer) -> str:
    """Return the verdict, a table of the machines, the cheapest, and the notes."""
    batches = shown_batches(answer)
    shown = enumerate(answer.results[:SHOWN_MACHINES], start=1)
    rows = [[str(number), *row(answer, result, batches)] for number, result in shown]
    lines = [answer.sentence, "", *table(["", *columns(answer, batches)], rows)]
    if (more := len(answer.results) - SHOWN_MACHINES) > 0:
        lines.append(f"… and {counted(more, 'more machine')}")
    lines += [
        "",
        *([cheapest_words(answer)] if cheapest_words(answer) else []),
        *(f"- {note}" for note in notes(study, answer)),
    ]
    return in_lines(lines)


def shown_batches(answer: FleetAnswer) -> tuple[int, ...]:
    """Return a few of the shared batches, including the smallest and the largest."""
    return evenly(answer.batches, SHOWN_BATCHES)


def columns(answer: FleetAnswer, batches: Sequence[int]) -> list[str]:
    """Return the titles of the columns of :func:`row`."""
    baseline = answer.names[answer.baseline]
    titles = ["Machine", *(f"Step at {batch:,} (ms)" for batch in batches), f"Faster than {baseline}"]
    if len(answer.target_names) > 1:
        titles.append(f"Own crossover, over {answer.target_names[0]}")
    if answer.has_prices:
        titles.append(f"A million samples at {batches[-1]:,}")
    if answer.has_energy:
        titles.append("Energy per sample")
    return titles


def row(answer: FleetAnswer, result: Result, batches: Sequence[int]) -> list[str]:
    """Return one machine as texts, with 95 % intervals."""
    cells = [result.cell(batch) for batch in batches]
    is_baseline = result is answer.results[answer.baseline]
    texts = [result.name, *(_step(cell) for cell in cells), "baseline" if is_baseline else faster_words(result.against)]
    if len(answer.target_names) > 1:
        texts.append(own_words(answer, result))
    if answer.has_prices:
        texts.append(cost_words(result, result.cost(batches[-1])))
    if answer.has_energy:
        texts.append(energy_words(result))
    return texts


def _step(cell: CellStats | None) -> str:
    return "" if cell is None else bounded(cell.step_ms, cell.low_ms, cell.high_ms)


def cost_words(result: Result, cost: Cost | None) -> str:
    """Return ``0.12 EUR (0.11 to 0.13)``; empty if the price or the step time is unknown."""
    if cost is None or result.price is None:
        return ""
    value = f"{number(cost.value)} {result.price.currency}"
    return value if cost.low is None or cost.high is None else f"{value} ({number(cost.low)} to {number(cost.high)})"


def energy_words(result: Result) -> str:
    """Return the energy at the largest batch with windows of the target that counts there, and its source."""
    energies = result.energy
    if not energies:
        return ""
    last = max(energies, key=lambda energy: energy.batch)
    bounds = "" if last.low is None or last.high is None else f" ({joules(last.low)} to {joules(last.high)})"
    what = "CPU packages" if last.source == "package" else "card"
    return f"{joules(last.value)}{bounds} at {last.batch:,}, {what}"


def notes(study: FleetStudy, answer: FleetAnswer) -> list[str]:
    """Return notes for the reader, as sentences."""
    lines = [UNPAIRED]
    if answer.absent:
        lines.append(_absent(answer.absent))
    shorter = [r.name for r in answer.results if len(r.cells) < len(answer.batches)]
    if shorter:
        lines.append(f"Not measured at every batch size, and compared only where measured: {_some(shorter)}.")
    unsteady = [r.name for r in answer.results if any(curve.unstable for curve in r.run.curves)]
    if unsteady:
        lines.append(f"Worker processes disagree on {_some(unsteady)}: those machines were too unsteady to tell much.")
    single = [r.name for r in answer.results if any(c.batches and c.units < MIN_UNITS for c in r.run.curves)]
    if single:
        lines.append(f"On {_some(single)} workers were started too seldom, so intervals allow for processes not seen.")
    return [*lines, *(warning.text for warning in study.warnings)]


def _absent(machines: Sequence[FleetMachine]) -> str:
    if len(machines) == 1:
        reason = f": {machines[0].reason}" if machines[0].reason else "."
        return f"No step times of {machines[0].name}{reason}"
    return f"No step times of {_some([machine.name for machine in machines])}; the table of machines says why."


def _some(names: Sequence[str]) -> str:
    """Return ``a, b and c``, or ``a, b and 7 more``."""
    if len(names) <= 3:
        *others, last = names
        return f"{', '.join(others)} and {last}" if others else last
    return f"{', '.join(names[:2])} and {len(names) - 2:,} more"


def own_words(answer: FleetAnswer, result: Result) -> str:
    """Describe where the other targets of a machine are faster than its first, the plan's baseline."""
    if len(result.run.own) == 1:
        return result.run.own[0].words
    return "; ".join(f"{answer.target_names[own.target]} {own.words}" for own in result.run.own)


def cheapest_words(answer: FleetAnswer) -> str:
    """Describe in one sentence whose sample is the cheapest at which batch; empty if unknown."""
    if answer.cheapest is None or not answer.has_interval:
        return ""
    parts = bands_words(answer.names, answer.cheapest, answer.margin, "cheapest")
    return f"Cheapest sample, at your prices: {'; '.join(parts[:SHOWN_BANDS])}."
