"""Does the adaptive map find the break-even contour of the full grid with a quarter of its cells?

On two real CPU targets (one thread with XLA against two threads, whose lead changes clearly): the adaptive map with at
most a quarter of the settings' visits, then the whole grid, each setting once with the same rounds. It prints visits,
seconds, and the distance between the two contours on every line of the map that both cross, in octaves, beside the
distance that the intervals allow. Targets that nearly tie have an ill-conditioned contour, so a second adaptive map,
measured the same way, shows how far two measurements of the same thing lie apart.

    python -m benchmarks.frontier [--side 5] [--targets A B] [--batches 4 1024] [--adaptive-only] [--json out.json]
    python -m benchmarks.frontier --simulate 40

With ``--side 8`` whole numbers leave 6 × 8 × 8 settings, which take some 25 minutes. ``--simulate`` measures nothing:
on machines with known truth it prints the contour's error, adaptive and full grid, and the coverage of its band.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

import core.studies.frontier.run as engine
from benchmarks.real import real_tools
from core.base.evidence import Block
from core.machine.lock import machine_lock
from core.studies.frontier.answer import FrontierAnswer, band_of, frontier_answer, reading
from core.studies.frontier.record import AXES, FrontierPlan, FrontierRound, FrontierStudy, Setting, log_spaced
from core.studies.frontier.surface import units_of
from core.worker.clock import WallClock
from core.worker.process import launch_processes
from core.worker.protocol import Prepare, Release, RunBlock
from core.workload.spec import Pipeline, Target
from simulated.frontiers import (
    full_grid,
    held,
    interpolated,
    machine,
    make_plan,
    measure,
    position_errors,
    random_truth,
    surface,
    true_ties,
    widths,
    wrongly_sure,
)
from simulated.simulation import NoiseModel

NOISY = NoiseModel(tail=0.04, own_drift=0.03, process=0.035, cell=0.02)
STARTS = 3  # for the full grid
DEADLINE_S = 300.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--side", type=int, default=5, help="values on each axis")
    parser.add_argument("--targets", nargs=2, default=("cpu,threads=1,execution=xla", "cpu,threads=2"))
    parser.add_argument("--batches", nargs=2, type=int, default=(4, 1024), metavar=("LOW", "HIGH"))
    parser.add_argument("--adaptive-only", action="store_true", help="one adaptive map, nothing to compare it with")
    parser.add_argument("--simulate", type=int, default=0, metavar="N")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.simulate:
        data = simulated(options.simulate)
    else:
        first, second = (Target.parse(text) for text in options.targets)
        with machine_lock("benchmarks/frontier.py"):
            data = measured(grid(options.side, (first, second), *options.batches), options.adaptive_only)
    for line in data:
        print("  ".join(f"{key} {value}" for key, value in line.items()))
    if options.json is not None:
        options.json.write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")


def grid(side: int, targets: tuple[Target, Target], low: int, high: int) -> FrontierPlan:
    return FrontierPlan(
        depths=log_spaced(1, 8, side),
        widths=log_spaced(32, 512, side),
        batches=log_spaced(low, high, side),
        targets=targets,
        budget_s=3600.0,
    )


def measured(plan: FrontierPlan, adaptive_only: bool) -> list[dict[str, Any]]:
    """Measure adaptive, full, adaptive again, so that drift of the machine favours neither."""
    answers = [adaptive(plan)]
    if not adaptive_only:
        answers += [whole(plan), adaptive(plan)]
    names = ("adaptive", "full grid", "adaptive again")
    lines = [summary(name, answer) for name, answer in zip(names, answers, strict=False)]
    for a, b in ((0, 1), (2, 1), (0, 2)):
        if not adaptive_only:
            lines.append({"contours of": f"{names[a]} and {names[b]}:"} | apart(answers[a], answers[b]))
    return lines


def adaptive(plan: FrontierPlan) -> FrontierAnswer:
    engine.MAX_VISITS = len(plan.grid) // 4
    # budget of a quarter of the grid at some 2 s per visit, so that starts share it
    budget_s = 2.0 * engine.MAX_VISITS + 30.0
    with real_tools(*plan.targets) as tools:
        return frontier_answer(engine.run_frontier(tools, plan.model_copy(update={"budget_s": budget_s})))


def whole(plan: FrontierPlan) -> FrontierAnswer:
    """Measure every setting once, in random order, spread over the starts, with the rounds of a visit."""
    clock, rounds = WallClock(), []
    begin_s = clock.now_s()
    order = np.random.default_rng(0).permutation(len(plan.grid))
    for start, part in enumerate(np.array_split(order, STARTS)):
        workers = launch_processes(plan.targets, DEADLINE_S)
        try:
            for index in part.tolist():
                rounds += visit(plan, index, start, workers, len(rounds), begin_s)
        finally:
            for worker in workers:
                worker.close()
    study = FrontierStudy(plan=plan, rounds=tuple(rounds), elapsed_s=clock.now_s() - begin_s)
    return frontier_answer(study)


def visit(plan: FrontierPlan, index: int, start: int, workers: Any, number: int, begin_s: float) -> list[FrontierRound]:
    setting, clock = plan.grid[index], WallClock()
    request = Prepare(
        workload=plan.workload(setting),
        pipeline=Pipeline(),
        batch=setting.batch,
        warmup_ms=engine.WARMUP_MS,
        latency_samples=3,
    )
    steps = [worker.ask(request, DEADLINE_S).steps_per_block for worker in workers]
    rounds = []
    for i in range(engine.ROUNDS):
        blocks = []
        for target in (0, 1) if i % 2 == 0 else (1, 0):
            at_s = clock.now_s() - begin_s
            done = workers[target].ask(RunBlock(batch=setting.batch, steps=steps[target]), DEADLINE_S)
            step_ms = done.block_ms / steps[target]
            blocks.append(Block(target=target, process=start, steps=steps[target], step_ms=step_ms, at_s=at_s))
        rounds.append(FrontierRound(index=number + i, setting=index, blocks=tuple(blocks)))
    for worker in workers:
        worker.ask(Release(batch=setting.batch), DEADLINE_S)
    return rounds


def summary(name: str, answer: FrontierAnswer) -> dict[str, Any]:
    study = answer.study
    return {
        "map": name,
        "settings": f"{len(study.measured)} of {len(study.plan.grid)}",
        "visits": len(units_of(study.rounds)),
        "starts": study.starts,
        "seconds": round(study.elapsed_s),
        "verdict": answer.sentence,
    }


def apart(first: FrontierAnswer, second: FrontierAnswer) -> dict[str, Any]:
    """Return the distances of two contours along width and batch, and on how many lines their intervals overlap."""
    plan, octaves, overlap = first.study.plan, [], []
    for axis in ("width", "batch"):
        held_low = plan.values(axis)[0]
        others = {setting._replace(**{axis: held_low}) for setting in plan.grid}
        for place in sorted(others):
            a, b = reading(first, axis, Setting(*place)), reading(second, axis, Setting(*place))
            if a.value is None or b.value is None:
                continue
            octaves.append(abs(float(np.log2(a.value / b.value))))
            overlap.append((a.low or 0) <= (b.high or np.inf) and (b.low or 0) <= (a.high or np.inf))
    cells = zip(first.cells, second.cells, strict=True)
    sure = [(a.mean > 0) == (b.mean > 0) for a, b in cells if min(a.second_ahead, 1 - a.second_ahead) < 0.025]
    return {
        "lines": f"{len(octaves)} of {sum(len(plan.grid) // len(plan.values(axis)) for axis in AXES[1:])}",
        "median octaves": round(float(np.median(octaves)), 3) if octaves else None,
        "90 %": round(float(np.quantile(octaves, 0.9)), 3) if octaves else None,
        "intervals overlap": f"{sum(overlap)} of {len(overlap)}",
        "sure cells alike": f"{sum(sure)} of {len(sure)}",
    }


def simulated(count: int) -> list[dict[str, Any]]:
    """Return errors in octaves and coverage, on usual and noisy machines, with and without a kink, and a short
    budget.
    """
    lines = []
    for name, noise, kink, budget_s in (
        ("usual", NoiseModel(), False, 240.0),
        ("usual, kink", NoiseModel(), True, 240.0),
        ("noisy, kink", NOISY, True, 240.0),
        ("usual, kink, 60 s", NoiseModel(), True, 60.0),
    ):
        results = [one_simulated(seed, noise, kink, budget_s) for seed in range(count)]
        visits, adaptive_, full, inside, wide, wrong, wrong_alone = zip(*results, strict=True)
        lines.append(
            {
                "machine": name,
                "visits": round(float(np.mean(visits)), 1),
                "adaptive median": round(float(np.median(np.concatenate(adaptive_))), 3),
                "90 %": round(float(np.quantile(np.concatenate(adaptive_), 0.9)), 3),
                "full grid median": round(float(np.median(np.concatenate(full))), 3),
                "full 90 %": round(float(np.quantile(np.concatenate(full), 0.9)), 3),
                "band holds": round(float(np.mean(inside)), 3),
                "band width": round(float(np.mean(wide)), 2),
                "maps wrongly sure somewhere": round(float(np.mean(wrong)), 3),
                "with each setting's own band": round(float(np.mean(wrong_alone)), 3),
            }
        )
    return lines


def one_simulated(seed: int, noise: NoiseModel, kink: bool, budget_s: float) -> tuple[Any, ...]:
    truth, plan = random_truth(seed, kink), make_plan(budget_s=budget_s)
    ties = list(true_ties(truth, plan))
    study = measure(machine(truth, seed, noise), plan)
    answer, everything = frontier_answer(study), full_grid(machine(truth, seed, noise), plan)
    return (
        len(units_of(study.rounds)),
        position_errors(ties, surface(answer)),
        position_errors(ties, interpolated(everything)),
        float(np.mean(held(ties, answer))),
        float(np.median(widths(ties, answer))),
        wrongly_sure(truth, answer) > 0,
        wrongly_sure(truth, answer, band_of(study)) > 0,
    )


if __name__ == "__main__":
    main()
