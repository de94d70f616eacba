"""Robustness of the project to faults and hostile inputs, which are made from a seed and counted.

    python -m benchmarks.faults [--seed 1] [--only CLASS[:INDEX]] [--group simulated|real|hostile] [--share 1.0]
                                [--jobs 2] [--out FILE.md] [--out FILE.json]

Simulated faults strike studies of every kind on a virtual clock; real ones worker processes, commands, a server, the
disk and memory of this machine; hostile inputs go through the commands and the functions that pages import with. Each
case is played in a process of its own. Violations are counted; all counts have to be zero, and each case that failed is
named as soon as it ends, with the command that replays it. About 25 minutes on two cores; close everything else.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.faults.cases import COUNTS, GROUPS, CaseClass, Findings

SHOWN = 3  # failing cases per class listed below the table; --out FILE.json holds all of them


def classes() -> tuple[CaseClass, ...]:
    """Return all classes of cases, and load what they need."""
    from benchmarks.faults import hostile, kept, real, simulated

    return (*simulated.CLASSES, *kept.CLASSES, *real.CLASSES, *hostile.CLASSES)


@dataclass
class Row:
    """Counts of one class: the ``cases`` played, and for each count the cases that violated it."""

    of: CaseClass
    cases: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    failed: dict[int, Findings] = field(default_factory=dict)

    def add(self, index: int, findings: Findings) -> None:
        self.cases += 1
        self.counts.update({count for count, _ in findings.violations})
        if findings.violations:
            self.failed[index] = findings


Chosen = list[tuple[CaseClass, Sequence[int]]]


def campaign(chosen: Chosen, seed: int, jobs: int = 2) -> list[Row]:
    """Play these cases of these classes, real ones one at a time, and count."""
    from benchmarks.faults.children import play

    rows, wanted = {of.name: Row(of) for of, _ in chosen}, Counter(of.name for of, indices in chosen for _ in indices)
    for group in GROUPS:
        cases = [(of, index) for of, indices in chosen if of.group == group for index in indices]
        for of, index, findings in play(cases, seed, 1 if group == "real" else jobs):
            row = rows[of.name]
            row.add(index, findings)
            if findings.violations:
                print(*told(of, index, findings, seed), sep="\n", file=sys.stderr, flush=True)
            if row.cases == wanted[of.name]:
                print(f"{of.name}: {row.cases} cases, {len(row.failed)} failed", file=sys.stderr, flush=True)
    return list(rows.values())


def choose(only: Sequence[str], groups: Sequence[str], share: float) -> Chosen:
    """Choose classes by name or group, with all their cases or the named one.

    Raises:
        ValueError: No class has the name.
    """
    known = {of.name: of for of in classes()}
    if not only:
        return [(of, range(max(1, round(share * of.cases)))) for of in known.values() if of.group in groups]
    chosen: Chosen = []
    for text in only:
        name, colon, index = text.rpartition(":")
        name = name if colon else text
        if name not in known:
            raise ValueError(f"there is no class “{name}”; there are {', '.join(known)}")
        chosen.append((known[name], [int(index)] if colon else range(max(1, round(share * known[name].cases)))))
    return chosen


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    more: dict[str, Any] = {"action": "append", "default": []}
    parser.add_argument("--only", metavar="CLASS[:INDEX]", help="a class, or one case of it; may be repeated", **more)
    parser.add_argument("--group", choices=GROUPS, help="a group of classes; may be repeated", **more)
    parser.add_argument("--share", type=float, default=1.0, help="of each class's cases")
    parser.add_argument("--jobs", type=int, default=2, help="cases side by side (real faults are alone)")
    parser.add_argument(
        "--out", type=Path, help="write the table as Markdown, or everything as .json; may be repeated", **more
    )
    options = parser.parse_args(arguments)
    try:
        chosen = choose(options.only, options.group or GROUPS, options.share)
    except ValueError as error:
        parser.error(str(error))
    if any(of.group == "hostile" for of, _ in chosen):
        from benchmarks.faults.hostile import warm

        warm()
    begin_s, load = time.monotonic(), os.getloadavg()[0]
    rows = campaign(chosen, options.seed, options.jobs)
    took = f"{(time.monotonic() - begin_s) / 60:.0f} min on {os.cpu_count()} cores, whose load was {load:.1f} before"
    text = f"{markdown(rows)}\n\nSeed {options.seed}, {took}."
    for path in options.out:
        data = json.dumps(as_data(rows, options.seed), indent=1) if path.suffix == ".json" else text
        path.write_text(data + "\n", encoding="utf-8")
    print(text, *failures(rows, options.seed), sep="\n")
    return int(any(row.failed for row in rows))


def markdown(rows: Sequence[Row]) -> str:
    """Return one line per class, grouped, each group with its sum."""
    lines = [f"| injected | cases | {' | '.join(COUNTS)} |", f"|---|{'---:|' * (1 + len(COUNTS))}"]
    for group in GROUPS:
        own = [row for row in rows if row.of.group == group]
        lines += [_line(row.of.name, row.cases, row.counts) for row in own]
        if own:
            total = sum((row.counts for row in own), Counter[str]())
            lines.append(_line(f"**{group}, all**", sum(row.cases for row in own), total))
    return "\n".join(lines)


def _line(name: str, cases: int, counts: Counter[str]) -> str:
    return f"| {name} | {cases:,} | {' | '.join(str(counts[count]) for count in COUNTS)} |"


def failures(rows: Sequence[Row], seed: int) -> list[str]:
    """Describe the violations in the first cases of each class, and how to replay them."""
    lines = []
    for row in rows:
        for index in sorted(row.failed)[:SHOWN]:
            lines += told(row.of, index, row.failed[index], seed)
        if len(row.failed) > SHOWN:
            lines.append(f"    and {len(row.failed) - SHOWN} more of “{row.of.name}”")
    return lines


def told(of: CaseClass, index: int, findings: Findings, seed: int) -> list[str]:
    """Describe the violations in one case, and how to replay it."""
    again = f"\n--seed {seed} --only {of.name!r}:{index}  {findings.case}"
    return [again, *(f"    {count}: {words}" for count, words in findings.violations)]


def as_data(rows: Sequence[Row], seed: int) -> dict[str, Any]:
    return {
        "seed": seed,
        "classes": [
            {
                "class": row.of.name,
                "group": row.of.group,
                "cases": row.cases,
                "counts": {count: row.counts[count] for count in COUNTS},
                "failed": [
                    {"index": index, "case": findings.case, "found": findings.violations}
                    for index, findings in sorted(row.failed.items())
                ],
            }
            for row in rows
        ],
    }
