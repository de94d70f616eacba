"""Finished frontier studies with a known truth, made from a seed. Labelled recorded: nothing here was measured."""

import math
import random
from collections.abc import Callable, Sequence

from core.base.evidence import Block
from core.studies.frontier.record import FrontierOutcome, FrontierPlan, FrontierRound, FrontierStudy, Setting
from core.workload.spec import Target
from simulated.runs import make_environment

SECOND_MS = 2.0
Truth = Callable[[Setting], float]


def make_frontier_plan(**changes: object) -> FrontierPlan:
    values: dict[str, object] = {
        "depths": (1, 2, 4), "widths": (32, 64, 128, 256, 512), "batches": (1, 4, 16, 64, 256),
        "targets": (Target(threads=1), Target(threads=2)), "point": Setting(2, 128, 32), "budget_s": 120.0,
    }  # fmt: skip
    return FrontierPlan.model_validate(values | changes)


def log2_speed_up(setting: Setting) -> float:
    """Return the true log2 speed-up.

    The targets tie where width × batch is 2048 at depth 1, along a straight line in log2 width and log2 batch.
    """
    return 0.5 * math.log2(setting.width * setting.batch / 2048) + 0.3 * math.log2(setting.depth)


def make_frontier_study(
    plan: FrontierPlan | None = None,
    seed: int = 0,
    truth: Truth = log2_speed_up,
    settings: Sequence[int] | None = None,
    starts: int = 3,
    rounds: int = 4,
    noise: float = 0.01,
    failed: dict[int, str] | None = None,
    **changes: object,
) -> FrontierStudy:
    """Make a study of every third setting and the operating point, with ``rounds`` per start.

    ``failed`` is setting: reason.
    """
    rng, plan = random.Random(seed), plan or make_frontier_plan()
    lost = failed or {}
    chosen = [*range(0, len(plan.grid), 3), *range(len(plan.grid), len(plan.settings))]
    chosen = [index for index in (settings if settings is not None else chosen) if index not in lost]
    found: list[FrontierRound] = []
    for process in range(starts):
        for setting in chosen:
            first_ms = SECOND_MS * 2 ** truth(plan.settings[setting])
            for _ in range(rounds):
                times = (first_ms * rng.lognormvariate(0, noise), SECOND_MS * rng.lognormvariate(0, noise))
                blocks = tuple(Block(target=t, process=process, steps=10, step_ms=ms) for t, ms in enumerate(times))
                found.append(FrontierRound(index=len(found), setting=setting, blocks=blocks))
    made = FrontierStudy(
        plan=plan, rounds=tuple(found), label="recorded", created_at="2026-01-05T09:00:00+00:00", elapsed_s=118.0,
        outcomes=tuple(
            FrontierOutcome(setting=index, target=0, outcome="out_of_memory", reason=why) for index, why in lost.items()
        ),
        environment=make_environment(),
    )  # fmt: skip
    return made.model_copy(update=changes)
