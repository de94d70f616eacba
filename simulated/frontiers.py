"""Frontier studies on a simulated machine with known truth, and the errors of their contour."""

import math
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from core.analysis.numerics import zeros
from core.analysis.statistics import Array
from core.base.evidence import Block
from core.networks.families.mlp import Mlp
from core.studies.frontier.answer import FrontierAnswer
from core.studies.frontier.record import AXES, Axis, FrontierPlan, FrontierRound, FrontierStudy, Setting, log_spaced
from core.studies.frontier.run import ROUNDS, run_frontier
from core.studies.frontier.surface import units_of
from core.studies.progress import Progress
from core.worker.protocol import Prepare, RunBlock
from core.workload.spec import Pipeline, Target
from simulated.runs import make_environment
from simulated.simulation import Curve, Machine, NoiseModel
from simulated.tools import tools_for

FIRST, SECOND = Target(threads=1), Target()
UNUSED = (Curve(1.0, 0.01), Curve(1.0, 0.01))  # the law gives the step time
INPUTS, CLASSES = 784, 10
FINE = 129
Mean = Callable[[Axis, Array], Array]
"""Log2 speed-up along an axis at places (m × 3)."""


@dataclass(frozen=True)
class Side:
    """One target: fixed cost, cost per layer (ms), and memory and arithmetic rates (parameters and FLOPs per ms)."""

    floor_ms: float
    layer_ms: float
    parameters_per_ms: float
    flops_per_ms: float


@dataclass(frozen=True)
class Truth:
    """T = (floor^q + (slope·batch)^q)^(1/q), with floor and slope from depth and width.

    A ``kink`` slows the first target by that many powers of two where its parameters outgrow a cache of 2^17.
    """

    sides: tuple[Side, Side]
    q: float
    kink: float = 0.0

    def step_ms(self, target: int, depth: float, width: float, batch: float) -> float:
        side = self.sides[target]
        parameters = INPUTS * width + (depth - 1) * width * width + CLASSES * width
        floor_ms = side.floor_ms + side.layer_ms * depth + parameters / side.parameters_per_ms
        slope_ms = 6 * parameters / side.flops_per_ms
        step_ms = float((floor_ms**self.q + (slope_ms * batch) ** self.q) ** (1 / self.q))
        if target == 0 and self.kink:
            step_ms *= 2 ** (self.kink / (1 + math.exp(-2 * (math.log2(parameters) - 17))))
        return step_ms

    def log2_speed_up(self, places: Array) -> Array:
        return np.array([math.log2(self.step_ms(0, *place) / self.step_ms(1, *place)) for place in places])

    def law(self, request: Prepare, target: Target) -> float:
        network = request.workload.network
        assert isinstance(network, Mlp)
        return self.step_ms(0 if target == FIRST else 1, len(network.hidden), network.hidden[0], request.batch)


def random_truth(seed: int, kink: bool = False) -> Truth:
    """Return a host-like target against a device-like one; they tie somewhere inside :func:`make_plan`'s map."""
    rng = np.random.default_rng(seed)
    host = Side(rng.uniform(0.15, 0.4), rng.uniform(0.05, 0.12), rng.uniform(3e6, 8e6), rng.uniform(8e6, 20e6))
    device = Side(rng.uniform(0.5, 1.5), rng.uniform(0.08, 0.25), rng.uniform(30e6, 80e6), rng.uniform(80e6, 600e6))
    return Truth((host, device), rng.uniform(1.3, 3.0), rng.uniform(0.3, 0.8) if kink else 0.0)


def make_plan(**changes: Any) -> FrontierPlan:
    """Return a plan of 8 × 8 × 8 settings."""
    values: dict[str, Any] = {
        "depths": tuple(range(1, 9)), "widths": log_spaced(16, 1024, 8), "batches": log_spaced(1, 1024, 8),
        "targets": (FIRST, SECOND), "budget_s": 240.0,
    }  # fmt: skip
    return FrontierPlan.model_validate(values | changes)


SMALL: dict[str, Any] = {"depths": (2, 4), "widths": (16, 64, 256, 1024), "batches": (1, 8, 64, 512), "budget_s": 60.0}


def machine(truth: Truth, seed: int = 0, noise: NoiseModel | None = None, **options: Any) -> Machine:
    return Machine(UNUSED, noise or NoiseModel(), seed=seed, law=truth.law, **options)


def measure(
    made: Machine,
    plan: FrontierPlan,
    cancel: threading.Event | None = None,
    report: Callable[[Progress], None] = lambda _: None,
) -> FrontierStudy:
    return run_frontier(tools_for(made, report, cancel), plan)


def make_study(seed: int = 0, **changes: Any) -> FrontierStudy:
    """Return a small finished study with a break-even inside its map, labelled recorded: nothing here was measured."""
    study = measure(machine(random_truth(seed), seed), make_plan(**SMALL | {"point": (2, 256, 8)} | changes))
    fixed = {"label": "recorded", "environment": make_environment(), "created_at": "2026-01-05T09:00:00+00:00"}
    return study.model_copy(update=fixed)


def full_grid(made: Machine, plan: FrontierPlan, starts: int = 4) -> FrontierStudy:
    """Measure every setting once, in random order, with the rounds of a visit each, spread over the starts."""
    order = np.random.default_rng(made.seed).permutation(len(plan.grid))
    rounds: list[FrontierRound] = []
    for start, part in enumerate(np.array_split(order, starts)):
        workers = made.launch(plan.targets, 100.0)
        for index in part.tolist():
            setting = plan.grid[index]
            request = Prepare(workload=plan.workload(setting), pipeline=Pipeline(), batch=setting.batch)
            steps = [worker.ask(request, 100.0).steps_per_block for worker in workers]
            for number in range(ROUNDS):
                blocks = []
                for target in (0, 1) if number % 2 == 0 else (1, 0):
                    at_s = made.clock.now_s()
                    done = workers[target].ask(RunBlock(batch=setting.batch, steps=steps[target]), 1e6)
                    step_ms = done.block_ms / steps[target]
                    blocks.append(Block(target=target, process=start, steps=steps[target], step_ms=step_ms, at_s=at_s))
                rounds.append(FrontierRound(index=len(rounds), setting=index, blocks=tuple(blocks)))
        for worker in workers:
            worker.close()
    return FrontierStudy(plan=plan, rounds=tuple(rounds))


def interpolated(study: FrontierStudy) -> Mean:
    """Return the log2 speed-up interpolated between a full grid's settings, linear along the axis in log2: no model."""
    values = {unit.setting: unit.value for unit in units_of(study.rounds)}
    index = {setting: i for i, setting in enumerate(study.plan.grid)}

    def mean(axis: Axis, places: Array) -> Array:
        own = Setting(*(round(value) for value in places[0]))
        known = [values[index[own._replace(**{axis: value})]] for value in study.plan.values(axis)]
        return np.interp(np.log2(places[:, AXES.index(axis)]), np.log2(study.plan.values(axis)), known)

    return mean


def surface(answer: FrontierAnswer) -> Mean:
    return lambda _, places: answer.surface.at(places)[0]


@dataclass(frozen=True)
class Tie:
    """A place on one line of the map where the true log2 speed-up is zero; ``x`` is log2 along the axis."""

    axis: Axis
    places: Array
    x: float


def true_ties(truth: Truth, plan: FrontierPlan) -> Iterator[Tie]:
    """Yield the tie on each line along width and along batch that has exactly one."""
    axes: tuple[Axis, ...] = ("width", "batch")
    for axis in axes:
        others = [other for other in AXES if other != axis]
        low, high = plan.values(axis)[0], plan.values(axis)[-1]
        for values in product(*(plan.values(other) for other in others)):
            columns = dict(zip(others, values, strict=True))
            along = np.geomspace(low, high, FINE)
            places = np.stack([along if a == axis else np.full(FINE, columns[a]) for a in AXES], axis=1)
            crossings = zeros(np.log2(along), truth.log2_speed_up(places))
            if len(crossings) == 1:
                yield Tie(axis, places, crossings[0])


def position_errors(ties: list[Tie], mean: Mean) -> Array:
    """Return the contour's distance from each true tie, in octaves; from the map's nearer edge without a contour."""
    errors = []
    for tie in ties:
        x = np.log2(tie.places[:, AXES.index(tie.axis)])
        positions = zeros(x, mean(tie.axis, tie.places)) or [float(x[0]), float(x[-1])]
        errors.append(min(abs(at - tie.x) for at in positions))
    return np.array(errors)


def held(ties: list[Tie], answer: FrontierAnswer) -> list[bool]:
    """Return whether the band around the contour contains each true tie."""
    inside = []
    for tie in ties:
        place = np.array([tie.places[0]])
        place[0, AXES.index(tie.axis)] = 2.0**tie.x
        mean, sd = answer.surface.at(place)
        inside.append(bool(abs(mean[0]) <= answer.band * sd[0]))
    return inside


def wrongly_sure(truth: Truth, answer: FrontierAnswer, band: float | None = None) -> int:
    """Return the number of the map's settings whose faster target is called, and wrong."""
    faster = truth.log2_speed_up(np.array([cell.setting for cell in answer.cells], dtype=float))
    band = answer.band if band is None else band
    sure = np.array([cell.mean if abs(cell.mean) > band * cell.sd else 0.0 for cell in answer.cells])
    return int(np.sum(sure * faster < 0))


def widths(ties: list[Tie], answer: FrontierAnswer) -> Array:
    """Return the band's width on each line with a tie, in octaves."""
    octaves = []
    for tie in ties:
        mean, sd = answer.surface.at(tie.places)
        x = np.log2(tie.places[:, AXES.index(tie.axis)])
        octaves.append(float(np.mean(np.abs(mean) <= answer.band * sd) * (x[-1] - x[0])))
    return np.array(octaves)
