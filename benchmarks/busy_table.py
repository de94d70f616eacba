"""The tables of ``benchmarks.busy``, from the lines of its finished sweeps."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

Line = dict[str, Any]
MOST_FALSE, MOST_FALSE_BESIDE_ONE = 6 / 200, 3 / 30
LOOKS = ("live", "cancelled", "end", "prolonged")


def print_table(lines: Iterable[Line]) -> None:
    """Print one table per kind of sweep, and the number of failures."""
    by_kind: dict[str, list[Line]] = defaultdict(list)
    for line in lines:
        by_kind["failed" if "failed" in line else line["what"]].append(line)
    for kind, show in (("aa", _equal), ("power", _power), ("reference", _reference), ("precision", _precision)):
        if by_kind[kind]:
            show(by_kind[kind])
    if by_kind["failed"]:
        print(f"{len(by_kind['failed'])} sweeps failed: {by_kind['failed'][0]['failed']}")


def _grouped(lines: Iterable[Line], key: Callable[[Line], tuple[Any, ...]]) -> list[tuple[tuple[Any, ...], list[Line]]]:
    groups: dict[tuple[Any, ...], list[Line]] = defaultdict(list)
    for line in lines:
        groups[key(line)].append(line)
    return sorted(groups.items())


def _median(lines: Iterable[Line], name: str, scale: float = 1.0, unit: str = "") -> str:
    values = [line[name] for line in lines if line[name] is not None]
    return f"{scale * statistics.median(values):.3g}{unit}" if values else "–"


def _rows(header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    print(f"| {' | '.join(header)} |")
    print(f"|{' --- |' * len(header)}")
    for row in rows:
        print(f"| {' | '.join(map(str, row))} |")
    print()


def _equal(lines: list[Line]) -> None:
    """Print how many sweeps of equal targets claimed a difference, and at which looks."""
    header = (
        "neighbour",
        "targets",
        "budget",
        "sweeps",
        "false",
        *LOOKS,
        "resolution",
        "starts",
        "rounds",
        "disturbed",
    )
    groups = _grouped(lines, lambda line: (line["neighbour"], line["pair"], line["budget_s"]))
    rows = [(k[0], k[1], f"{k[2]:.0f} s", *_equal_row(group)) for k, group in groups]
    totals = _grouped(lines, lambda line: (line["neighbour"],))
    rows += [(f"**{k[0]}**", "all", "all", *_equal_row(group)) for k, group in totals]
    _rows(header, [*rows, ("**all**", "all", "all", *_equal_row(lines))])
    worst = max(_false_share(group) for _, group in totals)
    met = _false_share(lines) <= MOST_FALSE and worst <= MOST_FALSE_BESIDE_ONE
    print(f"False: {_false_share(lines):.1%} of {len(lines)}, {worst:.0%} beside the worst neighbour; goal "
          f"{MOST_FALSE:.0%} and {MOST_FALSE_BESIDE_ONE:.0%}: {'met' if met else 'not met'}\n")  # fmt: skip


def _false_share(lines: Sequence[Line]) -> float:
    return sum(line["false"] for line in lines) / len(lines)


def _equal_row(lines: Sequence[Line]) -> tuple[object, ...]:
    looks = []
    for look in LOOKS:
        seen = [line["claims"][look] for line in lines if look in line["claims"]]
        false = sum(any(claim != "equivalent" for claim in claims) for claims in seen)
        looks.append(false if len(seen) == len(lines) else f"{false} of {len(seen)}")
    numbers = _median(lines, "resolution", 100, " %"), _median(lines, "starts"), _median(lines, "rounds")
    return (len(lines), sum(line["false"] for line in lines), *looks, *numbers, _median(lines, "disturbed", 100, " %"))


def _power(lines: list[Line]) -> None:
    """Print how often unlike targets got an answer, and how far their crossovers scatter between sweeps."""
    rows = []
    for key, group in _grouped(lines, lambda line: (line["pair"], line["neighbour"], line["budget_s"])):
        first = [line["crossovers"][0][0] for line in group if line["crossovers"]]
        apart = f"{statistics.stdev(map(math.log2, first)):.2f} octaves" if len(first) > 1 else "–"
        middle = f"{statistics.median(first):.0f}" if first else "–"
        share = sum(line["answered"] for line in group) / len(group)
        rows.append((key[0], key[1], f"{key[2]:.0f} s", len(group), f"{share:.0%}", len(first), middle, apart,
                     _median(group, "resolution", 100, " %")))  # fmt: skip
    header = (
        "pair",
        "neighbour",
        "budget",
        "sweeps",
        "with an answer",
        "crossovers",
        "median",
        "apart (sd)",
        "resolution",
    )
    _rows(header, rows)


def _reference(lines: list[Line]) -> None:
    """Print how many claimed crossover intervals contain the crossover of their reference."""
    rows = []
    for key, group in _grouped(lines, lambda line: (line["pair"], line["neighbour"])):
        claimed = [
            (tuple(crossing), line) for line in group for crossing in line["crossovers"] if crossing[1] is not None
        ]
        matched = [(crossing, _nearest(crossing, line["reference"])) for crossing, line in claimed]
        scored = [(crossing, other) for crossing, other in matched if other is not None]
        held = sum(crossing[1] <= other[0] <= crossing[2] for crossing, other in scored)
        agree = sum(_agrees(crossing, other) for crossing, other in scored)
        against = sum(
            other is None and line["reference_kind"] == "ahead"
            for (_, line), (_, other) in zip(claimed, matched, strict=True)
        )
        count = len(scored) + against
        width = f"{statistics.median(crossing[2] / crossing[1] for crossing, _ in claimed):.2f}" if claimed else "–"
        shares = (f"{held / count:.0%}", f"{agree / count:.0%}") if count else ("–", "–")
        rows.append((*key, len(group), len(claimed), count, *shares, width))
    header = ("pair", "neighbour", "sweeps", "claimed", "with a reference", "hold its estimate",
              "agree, its interval counted", "median high / low")  # fmt: skip
    _rows(header, rows)


def _nearest(crossing: tuple[Any, ...], others: Sequence[Sequence[Any]]) -> Sequence[Any] | None:
    """Return the nearest crossover of the reference to the same target; None without one."""
    alike = [other for other in others if other[3] == crossing[3]]
    return min(alike, key=lambda other: abs(math.log(other[0] / crossing[0])), default=None)


def _agrees(crossing: Sequence[Any], other: Sequence[Any]) -> bool:
    """Check that two crossovers differ by no more than their intervals allow, added in quadrature."""
    before, after = sorted((crossing, other), key=lambda each: float(each[0]))
    if before[2] is None or after[1] is None:
        return True
    reach = math.hypot(math.log(before[2] / before[0]), math.log(after[0] / after[1]))
    return math.log(after[0] / before[0]) <= reach


def _precision(lines: list[Line]) -> None:
    """Print the seconds until a pair of equal targets was known to 3 %; sweeps that never reached it are last."""
    rows = []
    for key, group in _grouped(lines, lambda line: (line["pair"], line["neighbour"])):
        for batch in group[0]["precise_s"]:
            took = sorted(line["precise_s"][batch] or math.inf for line in group)
            middle = took[len(took) // 2]
            reached = sum(math.isfinite(seconds) for seconds in took)
            shown = f"{middle:.0f} s" if math.isfinite(middle) else f"over {group[0]['budget_s']:.0f} s"
            rows.append((*key, batch, len(group), reached, shown))
    _rows(("targets", "neighbour", "batch", "sweeps", "reached 3 %", "median"), rows)
