"""Data types of “which batch should we train with?”: the user's dated prices, and the answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from core.base.evidence import Label, Warning
from core.base.money import LISTED
from core.base.numbers import byte_size
from core.base.schema import Currency, Frozen, PerHour, PriceDay, UserError, as_user_error
from core.rounds.answer.answer import Verdict
from core.studies.noise.answer import TrainingNoise
from core.workload.names import all_of

PointLabel = Label | Literal["interpolated"]
MAX_EPOCH_SAMPLES = 10**12
Edge = Literal["smallest", "largest", "memory"]
NEAR_BEST = 0.05
"""Batches within 5 % of the best are considered equally good."""


class Price(Frozen):
    """Price of a target per hour. ``target`` is its name in a run; ``currency`` three capital letters, ``dated`` a day
    in ISO 8601.
    """

    target: Annotated[str, Field(min_length=1, max_length=200)]
    per_hour: PerHour
    currency: Currency = LISTED
    dated: PriceDay

    @property
    def amount(self) -> str:
        """The price, as in ``2.5 EUR per hour (2026-11-01)``."""
        return f"{self.per_hour:g} {self.currency} per hour ({self.dated})"

    @classmethod
    def parse(cls, text: str, currency: str, dated: str) -> Price:
        """Return the price written as ``target=amount``, such as ``gpu:0=2.50``. Raises UserError."""
        target, equals, amount = text.strip().rpartition("=")
        if not equals:
            raise UserError(f"Price “{text[:80]}” is not understood; write a target and its price per hour: cpu=0.20.")
        with as_user_error(f"Price “{text[:80]}”: "):
            return cls.model_validate({"target": target, "per_hour": amount, "currency": currency, "dated": dated})


def check_prices(prices: Sequence[Price], target_names: Sequence[str]) -> None:
    """Raise UserError for an unknown target, two prices of one target, or two currencies."""
    for price in prices:
        if price.target not in target_names:
            raise UserError(f"“{price.target}” is no target of this run; it has {all_of(target_names)}.")
    if len({price.target for price in prices}) < len(prices):
        raise UserError("A target has two prices; give one for each.")
    if len({price.currency for price in prices}) > 1:
        raise UserError("The prices are in different currencies; give all in one.")


@dataclass(frozen=True)
class Quantity:
    """A value with its 95 % interval; bounds are None if the data cannot support one."""

    value: float
    low: float | None
    high: float | None

    def times(self, factor: float) -> Quantity:
        bounds = (None if bound is None else factor * bound for bound in (self.low, self.high))
        return Quantity(factor * self.value, *bounds)

    def inverse(self, factor: float = 1.0) -> Quantity:
        """Return ``factor`` divided by the quantity."""
        bounds = (None if bound is None else factor / bound for bound in (self.high, self.low))
        return Quantity(factor / self.value, *bounds)


@dataclass(frozen=True)
class MemoryLimit:
    """Largest batch that fits a target within ``limit_bytes``, with its interval.

    ``label`` tells if it was predicted or tried.
    """

    largest: int
    low: int | None = None
    high: int | None = None
    label: Label | Literal["predicted"] = "predicted"
    limit_bytes: int | None = None

    @property
    def within(self) -> str:
        """The limit as the end of a clause: “ within 4 GB”, empty if unknown."""
        return "" if self.limit_bytes is None else f" within {byte_size(self.limit_bytes)}"


@dataclass(frozen=True)
class BatchPoint:
    """One target at one batch.

    ``label`` is that of the step time; values predicted from it are labelled ``predicted``. ``steps`` and ``time_s``
    lead to the target loss (None if no loss was reached, or without a noise study); ``relative_time`` is relative to
    this target's best. Costs are in the prices' currency. ``fits`` is None if no memory limit is known.
    """

    batch: int
    label: PointLabel
    step_ms: Quantity
    samples_per_s: Quantity
    us_per_sample: Quantity
    fits: bool | None = None
    steps: Quantity | None = None
    time_s: Quantity | None = None
    relative_time: Quantity | None = None
    cost_per_million: Quantity | None = None
    cost_per_epoch: Quantity | None = None
    cost_to_loss: Quantity | None = None


@dataclass(frozen=True)
class BestBatch:
    """The best batch and, from ``low`` to ``high``, those within 5 % of it.

    ``edge`` is set if the best is at the end of the range: larger or smaller ones might be better (``largest``,
    ``smallest`` measured) or are impossible (``memory``).
    """

    batch: int
    low: int
    high: int
    label: PointLabel
    edge: Edge | None = None


@dataclass(frozen=True)
class TargetBatches:
    """One target: its points by rising batch, measured and in between, with the best batch by each measure.

    ``index`` is its number in the run, ``name`` its notation and ``title`` its display name.
    """

    index: int
    name: str
    title: str
    points: tuple[BatchPoint, ...]
    memory: MemoryLimit | None
    best_throughput: BestBatch | None
    best_time: BestBatch | None
    price: Price | None


@dataclass(frozen=True)
class Choice:
    """The recommended target and batch.

    ``clear``: better by the measure ``by`` at 95 % than every other target at its own best batch; True if there is no
    other. ``target`` is in notation.
    """

    target: str
    batch: int
    by: Literal["time", "throughput"]
    clear: bool


@dataclass(frozen=True)
class LossCrossover:
    """The batch from which ``target`` reaches the loss faster than ``other`` does at *its own best* batch.

    ``until`` is the batch beyond which it no longer does (None: up to the end of its range). ``low`` and ``high`` are
    the 95 % interval of ``batch``, None if outside the range. ``batch`` is None if the target does so nowhere;
    ``sentence`` then gives the reason.
    """

    target: str
    other: str
    other_best: int
    batch: float | None
    low: float | None
    high: float | None
    until: float | None
    sentence: str


@dataclass(frozen=True)
class CostCrossover:
    """A batch at which the target with the cheaper sample changes to ``cheaper_after``, for batches above it."""

    batch: float
    low: float | None
    high: float | None
    cheaper_after: str


@dataclass(frozen=True)
class CostAnswer:
    """Cost comparison of two targets.

    ``dearer`` has the higher hourly price (None: equal prices). ``cheaper`` is set if one target has the cheaper sample
    throughout.
    """

    prices: tuple[Price, Price]
    dearer: str | None
    crossovers: tuple[CostCrossover, ...]
    cheaper: str | None
    sentence: str


@dataclass(frozen=True)
class BatchAnswer:
    """Answer on the batch to train with.

    ``sentences`` begin with the verdict, the wording of ``choice`` (None if no batch fits). ``step_verdict`` is the
    run's own, on step times. ``noise`` and everything derived from it is None without a noise study. ``targets`` are
    those with a measured batch; ``costs`` compare each priced target with the baseline, which is the first.
    """

    targets: tuple[TargetBatches, ...]
    step_verdict: Verdict
    noise: TrainingNoise | None
    loss_crossovers: tuple[LossCrossover, ...]
    costs: tuple[CostAnswer, ...]
    epoch_samples: int | None
    label: Label
    sentences: tuple[str, ...]
    choice: Choice | None = None
    warnings: tuple[Warning, ...] = ()

    @property
    def cost_sentences(self) -> tuple[str, ...]:
        return tuple(cost.sentence for cost in self.costs)

    def target(self, name: str) -> TargetBatches:
        return next(target for target in self.targets if target.name == name)
