"""Claims of sweeps beside real neighbours: about equal targets, for which any claim is false, and about unlike ones.

    python -m benchmarks.busy [--what aa power reference precision] [--hours 3] [--neighbours none bursts] [--pairs …]
    python -m benchmarks.busy --table

Real sweeps, on an otherwise idle machine of two cores or more, one after the other, in a random order that visits all
conditions equally often. Each finished one is a line of ``--file``, so that a campaign can be stopped at any time and
resumes when started again; ``--label`` separates campaigns, by default the commit.

- ``aa``: two workers of one target, 30, 45 and 90 s, every fourth then prolonged. A sweep is false if any look at it
  claims a difference: live, cancelled half-way, at the end, prolonged. Goal: at most 3 % of all, 10 % of a neighbour's.
- ``power``: graph against XLA on one thread, and one thread against two, 90 s: how often there is an answer. Goal: 80 %
  of the first pair on the quiet machine, 60 % beside a neighbour on one core.
- ``reference``: the same pairs for 90 s beside a sweep of 180 s, its reference, whose starts alternate with its own
  (:mod:`benchmarks.alternating`). Goal: 93 % of the crossovers' intervals hold the reference.
- ``precision``: two workers of one target at batches 8, 64 and 512: seconds until each is known to 3 %.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import random
import signal
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.alternating import alternating
from benchmarks.busy_table import print_table
from benchmarks.equal_server import sweep_on_page
from benchmarks.neighbours import OPEN_PAGE, SCRIPTS, planted
from benchmarks.real import real_tools
from core.machine.lock import Busy, machine_lock
from core.rounds.answer.analyse import analyse
from core.rounds.answer.more_time import extended
from core.rounds.plan import SweepPlan
from core.rounds.run import Run
from core.studies.progress import Progress
from core.studies.resolution.answer import EQUIVALENT, half_widths
from core.studies.resolution.record import resolution_plan
from core.studies.runner import Cancelled, StudyFailed
from core.studies.sweep.kind import new_run
from core.studies.sweep.supervisor import run_sweep
from core.workload.spec import Target, Workload, parse_batches

ROOT = Path(__file__).parents[1]
WORKLOAD = Workload(network="784-512-512-10")
BATCHES = parse_batches("1:1024")
EQUAL = {"1 thread": "cpu,threads=1,execution=graph", "2 threads": "cpu,threads=2,execution=graph"}
PAIRS = {
    "graph, XLA": ("cpu,threads=1,execution=graph", "cpu,threads=1,execution=xla"),
    "1, 2 threads": ("cpu,threads=1", "cpu,threads=2"),
}
AA_BUDGETS_S, POWER_S, REFERENCE_S, PRECISION_S = (30.0, 45.0, 90.0), 90.0, 180.0, 120.0
FEWER = ("none", "one core", "bursts")
PRECISION_BATCHES, PRECISE = (8, 64, 512), math.log(1.03)
PROLONGED_SHARE, PROLONGED_S = 0.25, 45.0
BUSY_PCT = 25.0  # of a core used by other programs, above which a round counts as disturbed
LOOK_S = 2.0  # interval of the moments at which the state of a run is derived
WAIT_S = 5.0
NEVER = 1e-6


@dataclass(frozen=True)
class Case:
    what: str
    pair: str
    neighbour: str
    budget_s: float


@dataclass
class Looks:
    """The claims that progress reports while a sweep runs, and the time at which each was first seen."""

    first_s: dict[str, float] = field(default_factory=dict)
    looks: int = 0

    def report(self, progress: Progress) -> None:
        if progress.answer is not None and progress.phase != "done":
            self.see(progress.answer.claims, progress.elapsed_s)

    def see(self, claims: Iterable[str], at_s: float) -> None:
        """Note the claims of one look."""
        self.looks += 1
        for claim in claims:
            self.first_s.setdefault(claim, round(at_s, 1))


def is_false(claims: Collection[str]) -> bool:
    """Check that claims about equal targets contain a difference."""
    return any(claim != EQUIVALENT for claim in claims)


def cases(what: Collection[str], neighbours: Collection[str], pairs: Collection[str]) -> list[Case]:
    """Return every condition that the campaign visits."""
    conditions = []
    for neighbour in neighbours:
        conditions += [Case("aa", pair, neighbour, s) for pair in EQUAL for s in AA_BUDGETS_S]
        if neighbour in FEWER:
            conditions += [Case("power", pair, neighbour, POWER_S) for pair in PAIRS]
            conditions += [Case("reference", pair, neighbour, POWER_S) for pair in PAIRS]
            conditions += [Case("precision", pair, neighbour, PRECISION_S) for pair in EQUAL]
    return [case for case in conditions if case.what in what and case.pair in pairs]


def next_case(wanted: list[Case], done: Counter[Case]) -> Case:
    """Return a random condition among those measured least often."""
    least = min(done[case] for case in wanted)
    return random.choice([case for case in wanted if done[case] == least])


def plan_of(case: Case) -> SweepPlan:
    """Return the sweep plan of that condition."""
    if case.what == "precision":
        return resolution_plan(WORKLOAD, Target.parse(EQUAL[case.pair]), PRECISION_BATCHES, case.budget_s)
    if case.what == "aa":
        target = Target.parse(EQUAL[case.pair])
        widths = {name: SweepPlan.model_fields[name].default for name in ("step_width", "crossover_width")}
        ordinary = {"refine": True, "trace": True, **widths}
        return resolution_plan(WORKLOAD, target, BATCHES, case.budget_s).model_copy(update=ordinary)
    targets = tuple(Target.parse(text) for text in PAIRS[case.pair])
    return SweepPlan(workload=WORKLOAD, targets=targets, batches=BATCHES, budget_s=case.budget_s)


def measure(run: Run) -> tuple[Run, Looks]:
    """Measure a run, or continue one that has rounds, and collect its claims meanwhile."""
    looks = Looks()
    assert run.plan is not None
    with real_tools(*run.plan.targets, report=looks.report) as tools:
        return run_sweep(tools, run), looks


def measured_case(case: Case) -> tuple[Run, Looks]:
    """Measure a condition, from a page if an open page is its neighbour; the looks of a page are derived afterwards."""
    plan = plan_of(case)
    if case.neighbour != OPEN_PAGE:
        return measure(new_run(plan))
    run, looks = sweep_on_page(plan), Looks()
    for look in range(1, math.ceil(run.elapsed_s / LOOK_S)):
        looks.see(claims_in(cut(run, look * LOOK_S)), look * LOOK_S)
    return run, looks


def cut(run: Run, until_s: float) -> Run:
    """Return the run as if it had been cancelled at that time."""
    rounds = tuple(item for item in run.rounds if max(block.at_s for block in item.blocks) <= until_s)
    cells = {(block.target, block.process, item.batch) for item in rounds for block in item.blocks}
    starts, batches = {(t, p) for t, p, _ in cells}, {(t, b) for t, _, b in cells}
    changes = {
        "status": "cancelled",
        "elapsed_s": until_s,
        "rounds": rounds,
        "processes": tuple(p for p in run.processes if (p.target, p.index) in starts),
        "setups": tuple(s for s in run.setups if (s.target, s.process, s.batch) in cells),
        "cells": tuple(c for c in run.cells if (c.target, c.batch) in batches),
        "traces": (),
        "energy": (),
        "loops": (),
    }
    return run.model_copy(update=changes)


def claims_in(run: Run) -> list[str]:
    """Return the claims of a run; empty without a round."""
    return list(analyse(run).claims) if run.rounds else []


def described(run: Run) -> dict[str, Any]:
    """Return the part of a line that is common to all runs."""
    halves = half_widths(run).values()
    known = [half for half in halves if math.isfinite(half)]
    other = [r.interference.other_cpu_pct for r in run.rounds if r.interference.other_cpu_pct is not None]
    return {
        "elapsed_s": round(run.elapsed_s, 1),
        "rounds": len(run.rounds),
        "starts": len({item.process for item in run.rounds}),
        "batches": len(run.batches),
        "resolution": round(math.expm1(statistics.median(halves)), 4) if len(known) * 2 > len(halves) else None,
        "disturbed": round(sum(pct > BUSY_PCT for pct in other) / len(other), 3) if other else None,
    }


def equal_line(case: Case, run: Run, looks: Looks) -> tuple[dict[str, Any], Run]:
    """Return the claims of a sweep of equal targets at each look, and the run at its end."""
    claims = {"live": list(looks.first_s), "cancelled": claims_in(cut(run, run.elapsed_s / 2)), "end": claims_in(run)}
    line = {**described(run), "looks": looks.looks, "first_s": looks.first_s}
    if case.what == "aa" and case.neighbour != OPEN_PAGE and random.random() < PROLONGED_SHARE:
        run, later = measure(extended(run.model_copy(update={"status": "cancelled"}), PROLONGED_S))
        claims["prolonged"] = sorted({*later.first_s, *claims_in(run)})
    if case.what == "precision":
        line["precise_s"] = seconds_to_precise(run)
    return {**line, "claims": claims, "false": any(map(is_false, claims.values()))}, run


def seconds_to_precise(run: Run) -> dict[int, float | None]:
    """Return the seconds after which each batch stayed within the required precision, at looks every ``LOOK_S``."""
    precise_from_s: dict[int, float | None] = dict.fromkeys(PRECISION_BATCHES)
    for look in range(1, math.ceil(run.elapsed_s / LOOK_S) + 1):
        part = cut(run, look * LOOK_S)
        halves = half_widths(part) if part.rounds else {}
        for batch, since_s in precise_from_s.items():
            if halves.get(batch, math.inf) > PRECISE:
                precise_from_s[batch] = None
            elif since_s is None:
                precise_from_s[batch] = look * LOOK_S
    return precise_from_s


def crossovers_in(run: Run) -> list[tuple[float, float | None, float | None, str]]:
    """Return each crossover that a run claims, with its interval and the target ahead after it."""
    if not run.rounds:
        return []
    return [(c.batch, c.low, c.high, c.ahead_after) for c in analyse(run).verdict.crossovers]


def unlike_line(run: Run, looks: Looks) -> dict[str, Any]:
    """Return the line of a sweep of unlike targets."""
    verdict = analyse(run).verdict
    answered = verdict.has_interval and (verdict.kind in ("crossover", "ahead", "tie") or verdict.lead is not None)
    return {**described(run), "claims": {"live": list(looks.first_s), "end": claims_in(run)}, "answered": answered,
            "kind": verdict.kind, "sentence": verdict.sentence, "crossovers": crossovers_in(run)}  # fmt: skip


def with_reference(run: Run) -> tuple[Run, Looks, Run]:
    """Measure a new run and its reference, whose starts alternate with its own; return run, looks and reference."""
    looks, plan = Looks(), run.plan
    assert plan is not None
    whole = {"step_width": NEVER, "crossover_width": NEVER, "trace": False}  # as many starts as the budget allows
    other = new_run(plan.model_copy(update={"budget_s": REFERENCE_S, **whole}))
    with real_tools(*plan.targets, report=looks.report) as tools, real_tools(*plan.targets) as more:
        run, other = alternating((tools, more), (run, other))
    return run, looks, other


def reference_line(run: Run) -> dict[str, Any]:
    """Return the part of a line that tells the reference."""
    verdict = analyse(run).verdict
    line = {"id": run.id, "starts": described(run)["starts"], "kind": verdict.kind, "sentence": verdict.sentence}
    return {"reference": crossovers_in(run), **{f"reference_{name}": value for name, value in line.items()}}


def measured_line(case: Case) -> tuple[dict[str, Any], tuple[Run, ...]]:
    """Measure a condition once and return its line and its runs."""
    if case.what == "reference":
        run, looks, reference = with_reference(new_run(plan_of(case)))
        return {**unlike_line(run, looks), **reference_line(reference)}, (run, reference)
    run, looks = measured_case(case)
    if case.what == "power":
        return unlike_line(run, looks), (run,)
    line, run = equal_line(case, run, looks)
    return line, (run,)


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """Hold the machine's lock, after waiting for any other measurement."""
    while True:
        with contextlib.suppress(Busy), machine_lock("benchmarks/busy.py"):
            yield
            return
        time.sleep(WAIT_S)


def one_sweep(case: Case, keep: Path | None) -> dict[str, Any]:
    """Measure one condition once and return its line; its runs are written to ``keep``."""
    load = os.getloadavg()[0]
    try:
        with planted(case.neighbour):
            line, runs = measured_line(case)
    except (StudyFailed, Cancelled) as error:
        return {"failed": str(error)}
    for run in runs if keep is not None else ():
        keep.mkdir(parents=True, exist_ok=True)
        bare = run.model_copy(update={"plan": None, "name": f"{case.what}, {case.pair}, {case.neighbour}"})
        (keep / f"{run.id}.json").write_text(bare.to_json(), encoding="utf-8")
    return {"id": runs[0].id, "load": round(load, 2), **line}


def read_lines(file: Path) -> list[dict[str, Any]]:
    """Return the lines of finished sweeps, without a last line that was cut off by a kill."""
    lines = []
    for text in file.read_text(encoding="utf-8").splitlines() if file.exists() else ():
        with contextlib.suppress(json.JSONDecodeError):
            lines.append(json.loads(text))
    return lines


def case_of(line: dict[str, Any]) -> Case:
    """Return the condition of a line."""
    return Case(*(line[name] for name in Case.__dataclass_fields__))


def campaign(options: argparse.Namespace) -> None:
    """Measure until the time is up, and append each sweep's line."""
    end_s = time.monotonic() + 3600 * options.hours
    wanted = cases(options.what, options.neighbours, options.pairs)
    done = Counter(case_of(line) for line in read_lines(options.file) if line["label"] == options.label)
    while time.monotonic() < end_s:
        case = next_case(wanted, done)
        with alone():
            line = one_sweep(case, options.keep)
        done[case] += 1
        line = {"label": options.label, "at": time.strftime("%Y-%m-%dT%H:%M:%S"), **asdict(case), **line}
        with options.file.open("a", encoding="utf-8") as out:
            out.write(json.dumps(line) + "\n")
        seen = line.get("failed") or line.get("sentence") or ("FALSE" if line["false"] else "nothing false")
        print(f"{case.what}, {case.pair}, {case.neighbour}, {case.budget_s:.0f} s: {seen}", flush=True)


def commit() -> str:
    """Return the short hash of this checkout's commit."""
    command = ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"]
    return subprocess.run(command, capture_output=True, text=True).stdout.strip() or "unknown"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    kinds = ("aa", "power", "reference", "precision")
    parser.add_argument("--what", nargs="+", choices=kinds, default=["aa"])
    parser.add_argument("--hours", type=float, default=1.0, help="no sweep is begun later")
    parser.add_argument("--neighbours", nargs="+", choices=list(SCRIPTS), default=list(SCRIPTS))
    parser.add_argument("--pairs", nargs="+", choices=[*EQUAL, *PAIRS], default=[*EQUAL, *PAIRS])
    parser.add_argument("--label", default=commit())
    parser.add_argument("--file", type=Path, default=ROOT / "benchmarks" / "busy.jsonl")
    parser.add_argument("--keep", type=Path, help="a folder for the runs themselves")
    parser.add_argument("--table", action="store_true", help="only print what was measured so far")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # ends neighbours and workers, too
    try:
        if not options.table:
            campaign(options)
    except KeyboardInterrupt:
        print("Stopped; the sweep that ran is left out.", file=sys.stderr)
    print_table([line for line in read_lines(options.file) if line["label"] == options.label])


if __name__ == "__main__":
    main()
