"""Runs made of chosen step times, for tests of inference: the test sets the truth."""

from collections.abc import Callable, Sequence

import numpy as np

from core.base.evidence import Block, Process
from core.rounds.run import Round, Run

NAMES = ("first", "second", "third", "fourth", "fifth", "sixth")


def run_of(
    ratio: Callable[[int], float],
    batches: Sequence[int] = (1, 2, 4, 8, 16, 32, 64),
    *,
    processes: int = 6,
    passes: int = 1,
    rounds: int = 3,
    noise: float = 0.01,
    process_noise: float = 0.0,
    seed: int = 0,
    measured_here: bool = False,
) -> Run:
    """Make a run whose true t_first / t_second at a batch is ``ratio(batch)``; noise is in log step time."""
    steps_ms = (ratio, lambda _: 1.0)
    return run_of_steps(
        steps_ms, batches, processes=processes, passes=passes, rounds=rounds, noise=noise,
        process_noise=(process_noise, 0.0), seed=seed, measured_here=measured_here,
    )  # fmt: skip


def run_of_steps(
    steps_ms: Sequence[Callable[[int], float]],
    batches: Sequence[int] = (1, 2, 4, 8, 16, 32, 64),
    *,
    processes: int = 6,
    passes: int = 1,
    rounds: int = 3,
    noise: float = 0.01,
    process_noise: Sequence[float] = (),
    seed: int = 0,
    measured_here: bool = False,
) -> Run:
    """Make a run of one to six targets with these true step times by batch; noise is in log step time.

    ``process_noise`` is the deviation of each target's processes.
    """
    rng = np.random.default_rng(seed)
    deviations = [*process_noise, *[0.0] * (len(steps_ms) - len(process_noise))]
    found: list[Round] = []
    for process in range(processes):
        offsets = [rng.normal(0, deviation) if deviation else 0.0 for deviation in deviations]
        for pass_index in range(passes):
            for batch in batches:
                for _ in range(rounds):
                    times = [
                        step_ms(batch) * np.exp(offset + noise * rng.normal())
                        for step_ms, offset in zip(steps_ms, offsets, strict=True)
                    ]
                    blocks = tuple(
                        Block(target=target, process=process, steps=1, step_ms=float(step_ms))
                        for target, step_ms in enumerate(times)
                    )
                    at = process * passes + pass_index
                    found.append(Round(index=len(found), pass_index=at, batch=batch, blocks=blocks))
    started = (
        tuple(
            Process(index=p, target=t, pid=1, startup_ms=1.0, device="cpu")
            for p in range(processes)
            for t in range(len(steps_ms))
        )
        if measured_here
        else ()
    )
    return Run(
        id="test-0001", name="points", created_at="2026-01-01T00:00:00+00:00", label="recorded", status="finished",
        target_names=NAMES[: len(steps_ms)], processes=started, rounds=tuple(found),
    )  # fmt: skip
