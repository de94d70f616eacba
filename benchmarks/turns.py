"""The best way for targets to take turns on a CPU: cores, length, and detection of a disturbed turn.

    python -m benchmarks.turns blocks [--targets cpu,threads=1 cpu,threads=1] [--batch 8] [--seconds 150] [--json FILE]
    python -m benchmarks.turns neighbours [--targets …] [--batch 8] [--seconds 150] [--json FILE]
    python -m benchmarks.turns waking --targets cpu,threads=1 cpu,threads=2 [--batch 8] [--seconds 150] [--json FILE]
    python -m benchmarks.turns pauses [--targets …] [--inference] [--batch 1] [--seconds 60] [--json FILE]

Linux only. Two real workers time blocks in turn, A B, B A and so on; everything is measured with the same two processes
and the same two prepared cells, since two processes of equal targets differ by some percent.

*blocks*: windows of half a second in random order, each with blocks of another length, with or without an untimed step
before each, with the workers bound to as many cores as each has threads or to none. Printed for each are the scatter of
the windows' median log ratios (lower is more precision in the same time), and both median steps and their ratio over
those of all windows, which must not move; all that once more for the undisturbed windows.

*neighbours*: visits of eight rounds and more, as in a sweep, bound or not, while nothing, one program, bursts of 0.2 to
2 s of one program, or as many programs as there are cores run beside it. Printed for each are the quantiles of the
interference sampler's readings in a visit, and the mean ratio of all visits and of the undisturbed ones.

*waking*: the second target's steps by the time since its turn began, after the first one's turn, a pause or its own
work, in random order. Printed for each are the median step over that of 0.2 to 0.4 s after its own work, and the cores
that it used.

*pauses*: single steps of either target, each after a pause of some length in random order, less those in a row.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import math
import multiprocessing
import os
import random
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from core.base.evidence import Interference
from core.machine.cores import bind, spread
from core.machine.interference import InterferenceSampler, read_waits
from core.studies.runner import sampled
from core.worker.process import ProcessWorker
from core.worker.protocol import Prepare, RunBlock
from core.workload.spec import Pipeline, Target, Workload

WAIT_S = 120.0
WINDOW_S, VISIT_S, VISIT_ROUNDS, VISITS_IN_A_ROW = 0.5, 0.15, 8, 4
SAMPLES = 50
FEWEST = 3  # windows needed for a scatter
LENGTHS_MS = (4.0, 10.0, 20.0)
NEIGHBOURS = ("none", "one", "bursts", "all cores")
BURST_S = 0.2, 2.0
PAUSES_MS, PAUSED_STEPS = (0.0, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0), 20
BEFORE_S, AFTER_MS = 0.3, (0.0, 10.0, 30.0, 100.0, 200.0, 400.0)
WORKER = """
from core.machine import cores
from core.worker import cells, server

def block(engine, request, run=cells.CellEngine.block):
    cells.MAX_LEAD_IN_MS = float("inf") if request.slot else 0.0
    engine.turns.end()
    return run(engine, request.model_copy(update={"slot": 0})).model_copy(update={"slot": request.slot})

cores.Place.take = lambda *_, **__: False
cells.CellEngine.block = block
server.main()
"""
"""A worker that is bound from here alone, and runs an untimed step only before blocks of slot 1, of the same cell."""


@dataclass(frozen=True)
class Turn:
    """One way to take a turn: on its own cores or any, after an untimed call or not, with a block length."""

    bound: bool
    lead_in: bool
    block_ms: float

    @property
    def words(self) -> str:
        place, lead_in = "bound" if self.bound else "free", "after a step" if self.lead_in else "at once"
        return f"{place:5s} {lead_in:12s} {self.block_ms:3.0f} ms"


class Pair:
    """Two workers, each with a prepared cell."""

    def __init__(self, targets: Sequence[Target], network: str, batch: int, inference: bool, by_cpu_time: bool) -> None:
        self.by_cpu_time = by_cpu_time
        command = (sys.executable, "-c", WORKER)
        self.batch, self.targets = batch, tuple(targets)
        self.cores = sorted(os.sched_getaffinity(0))
        self.workers = [ProcessWorker(target, command=command) for target in self.targets]
        workload = Workload(network=network, mode="infer" if inference else "train")
        request = Prepare(workload=workload, pipeline=Pipeline(), batch=batch, block_ms=20.0)
        for worker in self.workers:
            worker.wait_ready(WAIT_S)
            worker.ask(request, WAIT_S)
        self.step_ms = [statistics.median(self.block(i, 1) for _ in range(50)) for i in (0, 1)]

    def block(self, index: int, steps: int, lead_in: bool = False) -> float:
        """Return the time of a step in ms, by the clock that was chosen."""
        done = self.workers[index].ask(RunBlock(batch=self.batch, steps=steps, slot=int(lead_in)), WAIT_S)
        return (done.cpu_ms or 0.0 if self.by_cpu_time else done.block_ms) / steps

    def place(self, bound: bool) -> None:
        for worker, target in zip(self.workers, self.targets, strict=True):
            cores = spread(self.cores, target.threads or len(self.cores)) if bound else self.cores
            bind(cores, worker.ready.pid)

    def round(self, turn: Turn, number: int) -> tuple[float, float]:
        """Return both targets' steps in ms; the other target is first in every second round."""
        took = [0.0, 0.0]
        for index in (0, 1) if number % 2 == 0 else (1, 0):
            steps = max(1, math.ceil(turn.block_ms / self.step_ms[index]))
            took[index] = self.block(index, steps, turn.lead_in)
        return took[0], took[1]

    def close(self) -> None:
        for worker in self.workers:
            worker.close()


@dataclass(frozen=True)
class Window:
    """One window: ``ratio`` is the median log ratio of its rounds, ``steps_ms`` both median steps."""

    ratio: float
    steps_ms: tuple[float, float]
    rounds: int
    seen: Interference


def take_window(pair: Pair, turn: Turn, sampler: InterferenceSampler, seconds: float, least: int = 1) -> Window:
    """Measure rounds for that many seconds, and at least that many rounds."""
    sampled(sampler, pair.workers)
    rounds, until_s = [], time.monotonic() + seconds
    while len(rounds) < least or time.monotonic() < until_s:
        rounds.append(pair.round(turn, len(rounds)))
    first, second = (statistics.median(column) for column in zip(*rounds, strict=True))
    ratio = statistics.median(math.log(a / b) for a, b in rounds)
    return Window(ratio, (first, second), len(rounds), sampled(sampler, pair.workers))


def compare_blocks(pair: Pair, seconds: float, lengths_ms: Sequence[float]) -> list[dict[str, object]]:
    """Measure windows of all ways to take a turn, until the time is up."""
    turns = [Turn(*way) for way in itertools.product((True, False), (True, False), lengths_ms)]
    windows: dict[Turn, list[Window]] = defaultdict(list)
    with contextlib.closing(InterferenceSampler()) as sampler:
        end_s = time.monotonic() + seconds
        while time.monotonic() < end_s or any(len(windows[turn]) < FEWEST for turn in turns):
            for turn in random.sample(turns, len(turns)):
                pair.place(turn.bound)
                pair.round(turn, 0)
                windows[turn].append(take_window(pair, turn, sampler, WINDOW_S))
    every = [window for turn in turns for window in windows[turn]]
    centre = statistics.median(window.ratio for window in every)
    whole = [statistics.median(window.steps_ms[i] for window in every) for i in (0, 1)]
    for turn in turns:
        clean = [window for window in windows[turn] if not window.seen.disturbed]
        print(
            f"{turn.words}: {_of_windows(windows[turn], centre, whole)}; clean: {_of_windows(clean, centre, whole)}",
            flush=True,
        )
    return [
        asdict(turn) | {"ratio": window.ratio, "steps_ms": window.steps_ms, "wait_pct": window.seen.wait_pct}
        for turn in turns
        for window in windows[turn]
    ]


def _of_windows(windows: Sequence[Window], centre: float, whole: Sequence[float]) -> str:
    if len(windows) < FEWEST:
        return f"{len(windows)} windows"
    ratios = [window.ratio for window in windows]
    steps = [statistics.median(window.steps_ms[i] for window in windows) / whole[i] for i in (0, 1)]
    return (
        f"{len(windows)} windows of {statistics.median(window.rounds for window in windows):.0f} rounds, scatter "
        f"{100 * _scatter(ratios):.1f} %, worst {100 * max(abs(ratio - centre) for ratio in ratios):.0f} %, ratio "
        f"{100 * (statistics.median(ratios) - centre):+.1f} %, steps {steps[0]:.3f} and {steps[1]:.3f}"
    )


def _scatter(values: Sequence[float]) -> float:
    """Return the standard deviation of a normal distribution with the same median absolute deviation."""
    centre = statistics.median(values)
    return 1.4826 * statistics.median(abs(value - centre) for value in values)


def _burn(bursts: bool) -> None:
    while True:
        until_s = time.monotonic() + (random.uniform(*BURST_S) if bursts else 1.0)
        while time.monotonic() < until_s:
            pass
        if bursts:
            time.sleep(random.uniform(*BURST_S))


@contextlib.contextmanager
def neighbour(kind: str, cores: int) -> Iterator[None]:
    """Run programs that compute beside the workers."""
    count = {"none": 0, "one": 1, "bursts": 1, "all cores": cores}[kind]
    context = multiprocessing.get_context("spawn")
    programs = [context.Process(target=_burn, args=(kind == "bursts",), daemon=True) for _ in range(count)]
    for program in programs:
        program.start()
    if programs:
        time.sleep(0.3)
    try:
        yield
    finally:
        for program in programs:
            program.kill()
            program.join()


def watch_neighbours(pair: Pair, seconds: float) -> list[dict[str, object]]:
    """Measure visits beside each kind of neighbour, in turn until the time is up."""
    visits: dict[tuple[str, bool], list[Window]] = defaultdict(list)
    with contextlib.closing(InterferenceSampler()) as sampler:
        end_s = time.monotonic() + seconds
        while time.monotonic() < end_s:
            for kind, bound in random.sample(list(itertools.product(NEIGHBOURS, (True, False))), 2 * len(NEIGHBOURS)):
                turn = Turn(bound, True, 4.0)
                pair.place(bound)
                with neighbour(kind, len(pair.cores)):
                    pair.round(turn, 0)
                    for _ in range(VISITS_IN_A_ROW):
                        visits[kind, bound].append(take_window(pair, turn, sampler, VISIT_S, VISIT_ROUNDS))
        begin_ns = time.perf_counter_ns()
        for _ in range(SAMPLES):
            read_waits(worker.ready.pid for worker in pair.workers)
        sample_ms = (time.perf_counter_ns() - begin_ns) * 1e-6 / SAMPLES
    centre = statistics.median(visit.ratio for bound in (True, False) for visit in visits["none", bound])
    for (kind, bound), seen in sorted(visits.items()):
        waits = sorted(visit.seen.wait_pct or 0.0 for visit in seen)
        others = sorted(visit.seen.other_cpu_pct or 0.0 for visit in seen)
        ratios = [visit.ratio - centre for visit in seen]
        clean = [ratio for ratio, visit in zip(ratios, seen, strict=True) if not visit.seen.disturbed]
        print(
            f"{kind:9s} {'bound' if bound else 'free':5s}: {len(seen)} visits, waited % of a core {_quantiles(waits)}, "
            f"others {_quantiles(others)}; ratio of all {_mean(ratios)}; of {len(clean)} "
            f"clean {_mean(clean)}",
            flush=True,
        )
    print(f"reading the waits takes {sample_ms:.2f} ms")
    return [
        {"neighbour": kind, "bound": bound, "ratio": visit.ratio - centre, "steps_ms": visit.steps_ms}
        | {"wait_pct": visit.seen.wait_pct, "other_pct": visit.seen.other_cpu_pct, "steal_pct": visit.seen.steal_pct}
        for (kind, bound), seen in visits.items()
        for visit in seen
    ]


def watch_waking(pair: Pair, seconds: float) -> list[dict[str, object]]:
    """Measure turns of the second target after different things, until the time is up."""
    pair.place(True)
    before: dict[str, Callable[[], object]] = {
        "the other target": lambda: pair.block(0, math.ceil(1000 * BEFORE_S / pair.step_ms[0])),
        "a pause": lambda: time.sleep(BEFORE_S),
        "its own work": lambda: pair.block(1, math.ceil(1000 * BEFORE_S / pair.step_ms[1])),
    }
    steps = max(1, math.ceil(LENGTHS_MS[0] / pair.step_ms[1]))
    rows, end_s = list[dict[str, Any]](), time.monotonic() + seconds
    while time.monotonic() < end_s:
        for name in random.sample(list(before), len(before)):
            before[name]()
            begin_s = time.monotonic()
            while (at_ms := 1000 * (time.monotonic() - begin_s)) < AFTER_MS[-1]:
                done = pair.workers[1].ask(RunBlock(batch=pair.batch, steps=steps), WAIT_S)
                cores = (done.cpu_ms or 0.0) / done.block_ms
                rows.append({"after": name, "at_ms": at_ms, "step_ms": done.block_ms / steps, "cores": cores})

    def median_of(name: str, stretch: tuple[float, float], what: str) -> float:
        return statistics.median(
            row[what] for row in rows if row["after"] == name and stretch[0] <= row["at_ms"] < stretch[1]
        )

    stretches = list(itertools.pairwise(AFTER_MS))
    usual_ms = median_of("its own work", stretches[-1], "step_ms")
    for name in before:
        seen = ", ".join(
            f"to {stretch[1]:.0f} ms {median_of(name, stretch, 'step_ms') / usual_ms:.2f} "
            f"({median_of(name, stretch, 'cores'):.2f} cores)"
            for stretch in stretches
        )
        print(f"after {name:16s}: {seen}", flush=True)
    return rows


def watch_pauses(pair: Pair, seconds: float) -> list[dict[str, object]]:
    """Measure single steps after pauses, until the time is up."""
    pair.place(True)
    rows, end_s = list[dict[str, Any]](), time.monotonic() + seconds
    while time.monotonic() < end_s:
        for index, pause_ms in random.sample(list(itertools.product((0, 1), PAUSES_MS)), 2 * len(PAUSES_MS)):
            pair.block(index, math.ceil(1000 * BEFORE_S / pair.step_ms[index]))
            in_row_ms = pair.block(index, PAUSED_STEPS)
            for _ in range(PAUSED_STEPS):
                time.sleep(pause_ms / 1000)
                rows.append({"target": index, "pause_ms": pause_ms, "added_ms": pair.block(index, 1) - in_row_ms})
    for index, target in enumerate(pair.targets):
        added = [
            statistics.median(row["added_ms"] for row in rows if (row["target"], row["pause_ms"]) == (index, pause_ms))
            for pause_ms in PAUSES_MS
        ]
        shown = ", ".join(f"{pause_ms:g}: {ms:+.2f}" for pause_ms, ms in zip(PAUSES_MS, added, strict=True))
        print(f"{target}: ms added after a pause of ms {shown}", flush=True)
    return rows


def _quantiles(values: Sequence[float]) -> str:
    places = (0.1, 0.5, 0.9, 1.0)
    return " / ".join(f"{values[min(len(values) - 1, int(place * len(values)))]:.0f}" for place in places)


def _mean(values: Sequence[float]) -> str:
    """Format the mean with its standard error, and the standard deviation."""
    if len(values) < 2:
        return "-"
    sd = statistics.stdev(values)
    return f"{100 * statistics.fmean(values):+.1f} ± {100 * sd / math.sqrt(len(values)):.1f} % (sd {100 * sd:.1f})"


def main() -> None:
    """Measure one of the parts and print it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=("blocks", "neighbours", "waking", "pauses"))
    parser.add_argument("--targets", nargs=2, default=["cpu,threads=1"] * 2, type=Target.parse, metavar="TARGET")
    parser.add_argument("--network", default="784-512-512-10")
    parser.add_argument("--inference", action="store_true")
    parser.add_argument("--lengths", nargs="+", type=float, default=LENGTHS_MS, metavar="MS", help="of blocks")
    parser.add_argument("--cpu-time", action="store_true", help="by CPU time, which tells on a busy machine, too")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=150.0)
    parser.add_argument("--json", type=Path, metavar="FILE")
    arguments = parser.parse_args()
    targets = [Target.parse(target) if isinstance(target, str) else target for target in arguments.targets]
    pair = Pair(targets, arguments.network, arguments.batch, arguments.inference, arguments.cpu_time)
    try:
        both = " and ".join(f"{target}: {ms:.2f} ms" for target, ms in zip(targets, pair.step_ms, strict=True))
        print(f"batch {arguments.batch}, {both}")
        if arguments.part == "blocks":
            rows = compare_blocks(pair, arguments.seconds, arguments.lengths)
        elif arguments.part == "waking":
            rows = watch_waking(pair, arguments.seconds)
        elif arguments.part == "pauses":
            rows = watch_pauses(pair, arguments.seconds)
        else:
            rows = watch_neighbours(pair, arguments.seconds)
    finally:
        pair.close()
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
