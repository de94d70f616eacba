"""Plausible runs with a known truth, made from a seed. They are labelled recorded: nothing here was measured."""

import math
import random
from typing import Any

from core.base.evidence import Block, Environment, Gpu, Interference, Label, Process, ProcessUse, Setup, Warning
from core.networks.families import network_from_name
from core.rounds.plan import SweepPlan
from core.rounds.run import Cell, Round, Run, Status
from core.studies.sweep.rotation import order_of_round
from core.workload.spec import Target, Workload

BATCHES = tuple(2**i for i in range(11))
BLOCK_MS = 20.0
Q = 2.0  # the exponent of the true curves


def true_step_ms(floor_ms: float, slope_ms: float, batch: float) -> float:
    """Return T(b) = (floor^q + (slope·b)^q)^(1/q) with q = 2."""
    return float((floor_ms**Q + (slope_ms * batch) ** Q) ** (1 / Q))


def true_crossover(
    floors_ms: tuple[float, float] = (0.3, 0.8), slopes_ms: tuple[float, float] = (0.02, 0.01)
) -> float | None:
    """Return the batch at which both true curves meet, or None if they do not."""
    squared = (floors_ms[1] ** Q - floors_ms[0] ** Q) / (slopes_ms[0] ** Q - slopes_ms[1] ** Q)
    return squared ** (1 / Q) if squared > 0 else None


def make_plan(batches: tuple[int, ...] = BATCHES, count: int = 2) -> SweepPlan:
    """Return a plan for one CPU thread against two (and up to six), training 784-128-10 with Adam."""
    workload = Workload(network=network_from_name("784-128-10"))
    targets = tuple(Target(threads=threads) for threads in range(1, count + 1))
    return SweepPlan(workload=workload, targets=targets, batches=batches, budget_s=60.0)


def make_environment() -> Environment:
    """Return a machine without a GPU."""
    return Environment(
        captured_at="2026-01-05T09:00:00+00:00", hostname_hash="5f2d9c01", os="Linux 6.1 (Debian 12)", python="3.11.2",
        cpu="Example CPU at 2.4 GHz", physical_cores=2, logical_cores=4, usable_cores=4, memory_bytes=16 * 2**30,
        memory_available_bytes=12 * 2**30, load_1min=0.2,
        versions={"tensorflow": "2.21.0", "keras": "3.15.0", "numpy": "2.2.0"},
    )  # fmt: skip


def make_run(
    seed: int = 0,
    batches: tuple[int, ...] = BATCHES,
    processes: int = 3,
    passes: int = 2,
    rounds_per_pass: int = 3,
    floors_ms: tuple[float, ...] = (0.3, 0.8),
    slopes_ms: tuple[float, ...] = (0.02, 0.01),
    noise: float = 0.02,
    status: Status = "finished",
    label: Label = "recorded",
    with_failures: bool = False,
) -> Run:
    """Make a run with true curves from ``floors_ms`` and ``slopes_ms`` (ms, ms per sample), one per target.

    ``passes`` is per process of ``processes``; each process multiplies its target's times by a lognormal offset of half
    of ``noise`` (a relative spread), each block by one of ``noise``. With ``with_failures`` the second target runs out
    of memory at the last but one batch and is skipped at the last one.
    """
    rng = random.Random(seed)
    plan, targets = make_plan(batches, len(floors_ms)), range(len(floors_ms))
    failed = {(1, b) for b in batches[-2:]} if with_failures else set()
    rounds = _rounds(rng, batches, (processes, passes, rounds_per_pass), floors_ms, slopes_ms, noise, failed)
    cells = tuple(_cell(t, b, failed, batches, status) for b in batches for t in targets)
    return Run(
        id=f"20260105-seed{seed:04d}",
        name=f"784-128-10, made from seed {seed}",
        created_at=f"2026-01-05T09:{seed % 60:02d}:00+00:00",
        label=label,
        status=status,
        target_names=plan.target_names,
        plan=plan,
        environment=make_environment(),
        elapsed_s=round(rounds[-1].blocks[-1].at_s + 1.0, 3) if rounds else 0.0,
        processes=tuple(_process(p, t, rng) for p in range(processes) for t in targets),
        setups=tuple(
            _setup(t, b, p, true_step_ms(floors_ms[t], slopes_ms[t], b), rng)
            for p in range(processes)
            for b in batches
            for t in targets
            if (t, b) not in failed
        ),
        cells=cells,
        rounds=rounds,
        warnings=(Warning(code="made_up", text="These numbers were made from a seed for a test."),),
    )


def planned(record: Any, **changes: Any) -> Any:
    """Return a run or study with its plan changed, and a run's target names with it."""
    plan = record.plan.model_copy(update=changes)
    names = {"target_names": plan.target_names} if "targets" in changes else {}
    return record.model_copy(update={"plan": plan, **names})


def on_card(run: Run, name: str = "Tesla T4", **changes: Any) -> Any:
    """Return a run of a CPU against a GPU of that name, both measured."""
    run = planned(run, **{"targets": (Target(threads=1), Target(device="gpu:0"))} | changes)
    gpus = (Gpu(name=name),) if name else ()
    processes = tuple(p.model_copy(update={"device_name": name if p.target else ""}) for p in run.processes)
    assert run.environment is not None
    environment = run.environment.model_copy(update={"gpus": gpus})
    return run.model_copy(update={"environment": environment, "processes": processes})


def _rounds(
    rng: random.Random,
    batches: tuple[int, ...],
    repeats: tuple[int, int, int],
    floors_ms: tuple[float, ...],
    slopes_ms: tuple[float, ...],
    noise: float,
    failed: set[tuple[int, int]],
) -> tuple[Round, ...]:
    processes, passes, rounds_per_pass = repeats
    rounds: list[Round] = []
    at_s = 8.0  # start-up of the first processes
    for process in range(processes):
        offset = [rng.lognormvariate(0.0, noise / 2) for _ in floors_ms]
        for turn in range(passes):
            for batch in batches:
                for _ in range(rounds_per_pass):
                    blocks: list[Block] = []
                    order = order_of_round(len(rounds), range(len(floors_ms)))
                    for target in (t for t in order if (t, batch) not in failed):
                        truth_ms = true_step_ms(floors_ms[target], slopes_ms[target], batch)
                        step_ms = truth_ms * offset[target] * rng.lognormvariate(0.0, noise)
                        steps = max(1, math.ceil(BLOCK_MS / truth_ms))
                        blocks.append(
                            Block(target=target, process=process, steps=steps, step_ms=step_ms, at_s=round(at_s, 4))
                        )
                        at_s += steps * step_ms / 1000
                    busy = rng.random() < 0.1
                    others = (ProcessUse(name="backup", cpu_pct=33.0),) if busy else ()
                    used = 35.0 if busy else 2.0
                    noise_of = Interference(other_cpu_pct=used, busiest=others, steal_pct=0.0, cpu_mhz=2400.0)
                    at = {"index": len(rounds), "pass_index": process * passes + turn, "batch": batch}
                    rounds.append(Round(**at, blocks=tuple(blocks), interference=noise_of))
    return tuple(rounds)


def _cell(target: int, batch: int, failed: set[tuple[int, int]], batches: tuple[int, ...], status: Status) -> Cell:
    if (target, batch) in failed:
        if batch == batches[-1]:
            return Cell(target=target, batch=batch, outcome="skipped", reason="A smaller batch ran out of memory.")
        return Cell(target=target, batch=batch, outcome="out_of_memory", reason="The worker ran out of memory.")
    stop = "precise" if status == "finished" else "cancelled"
    return Cell(target=target, batch=batch, outcome="measured", stop_reason=stop)


def _process(index: int, target: int, rng: random.Random) -> Process:
    return Process(
        index=index, target=target, pid=1000 + 2 * index + target, startup_ms=rng.uniform(3500.0, 4500.0),
        device="/device:CPU:0", device_name="Example CPU at 2.4 GHz", threads=target + 1,
        versions={"tensorflow": "2.21.0", "keras": "3.15.0"},
    )  # fmt: skip


def _setup(target: int, batch: int, process: int, step_ms: float, rng: random.Random) -> Setup:
    return Setup(
        target=target, batch=batch, process=process, build_ms=rng.uniform(20.0, 40.0),
        first_call_ms=rng.uniform(200.0, 400.0), warmup_steps=40, warmup_ms=40 * step_ms, warmup_steady=True,
        steps_per_block=max(1, math.ceil(BLOCK_MS / step_ms)),
        latency_ms=tuple(1.1 * step_ms * rng.lognormvariate(0.0, 0.05) for _ in range(9)),
        memory_peak_bytes=300 * 2**20 + 4096 * batch, placement=("/device:CPU:0",),
    )  # fmt: skip
