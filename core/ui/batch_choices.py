"""From what the forms of the Batch page hold to plans and prices, with one sentence beside each wrong field. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from pydantic import ValidationError

from core.datasource import DataError, Source
from core.families.code import refuse_code
from core.memory_study import MAX_LIMIT_BYTES, MIN_LIMIT_BYTES, MemoryPlan
from core.noise_study import MIN_BATCH_TRAINED, MIN_NOISE_BUDGET_S, RANDOM_LABELS, NoisePlan
from core.prices import MAX_EPOCH_SAMPLES, MAX_PER_HOUR, Price
from core.results import Run
from core.spec import MAX_BATCH, MAX_BUDGET_S, Target, Workload, explain
from core.ui.choices import checked_budget

T = TypeVar("T")
GB = 1e9
NO_GRADIENTS = "This run is of inference: it has no gradients, so no gradient noise scale. Throughput and cost count."
NO_PLAN = "Only points were imported for this run. Without its plan there is no workload to train or to build."
STILL_RUNNING = "This sweep is still running; wait until it has ended."


@dataclass(frozen=True)
class NoiseDraft:
    """The form as it stands; None in a number is an emptied field. ``own``: the person's data at the path ``data``."""

    own: bool
    data: str
    device: str
    batch: int | None
    learning_rate: float | None
    target_loss: float | None
    budget_s: float | None


@dataclass(frozen=True)
class NoiseOutcome:
    """``plan`` is None while ``errors`` (field: sentence) is not empty; ``source`` describes own data that fit."""

    plan: NoisePlan | None
    source: Source | None
    errors: dict[str, str]


@dataclass(frozen=True)
class MemoryOutcome:
    """``limit_bytes`` is None where the limit is not possible, ``plan`` while anything is not."""

    plan: MemoryPlan | None
    limit_bytes: int | None
    errors: dict[str, str]


@dataclass(frozen=True)
class PriceDraft:
    """``amounts`` an hour by target name, None where there is none."""

    amounts: Mapping[str, float | None]
    currency: str
    dated: str
    epoch_samples: int | None


@dataclass(frozen=True)
class PriceOutcome:
    """``prices`` is empty while anything is wrong with them."""

    prices: tuple[Price, ...]
    epoch_samples: int | None
    errors: dict[str, str]


def noise_refusal(run: Run) -> str | None:
    """Why no noise scale can be measured for this run, or None. It is of network and data, not of a machine."""
    if run.plan is None:
        return NO_PLAN
    if not run.plan.workload.training:
        return NO_GRADIENTS
    return _refusal(run, run.plan.workload)


def memory_refusal(run: Run) -> str | None:
    """Why the largest batch cannot be confirmed here for this run, or None."""
    if run.plan is None:
        return NO_PLAN
    if run.label != "measured":
        return (
            f"This run is {run.label}: its targets are of another machine, and so is their memory. Measure the same "
            "plan here first, then confirm the largest batch for that run."
        )
    return _refusal(run, run.plan.workload)


def _refusal(run: Run, workload: Workload) -> str | None:
    if run.status == "running":
        return STILL_RUNNING
    try:
        refuse_code(workload.network)
    except ValueError as error:
        return str(error)
    return None


def build_noise_plan(run: Run, draft: NoiseDraft, look: Callable[[str], Source]) -> NoiseOutcome:
    """Validate a draft. Fields: data, batch, rate, loss, budget, plan. ``run`` must have a plan that trains.

    ``look`` says what lies at a path, as :func:`core.noise_study.check_labelled` does.
    """
    assert run.plan is not None
    errors: dict[str, str] = {}
    source = _attempt(errors, "data", lambda: _source(draft, look))
    batch = _attempt(errors, "batch", lambda: _whole("The reference batch", draft.batch, MIN_BATCH_TRAINED, MAX_BATCH))
    rate = _attempt(errors, "rate", lambda: _above_zero("The learning rate", draft.learning_rate, 100.0))
    loss = _attempt(errors, "loss", lambda: _above_zero("The loss to reach", draft.target_loss, 1e6))
    budget_s = _attempt(errors, "budget", lambda: _budget(draft.budget_s))
    if errors:
        return NoiseOutcome(None, source, errors)
    values = {
        "workload": run.plan.workload,
        "target": Target(device=draft.device),
        "data": None if source is None else source.path,
        "batch": batch,
        "learning_rate": rate,
        "target_loss": loss,
        "budget_s": budget_s,
        "run_id": run.id,
    }
    plan = _attempt(errors, "plan", lambda: NoisePlan.model_validate(values))
    return NoiseOutcome(plan, source, errors)


def build_memory_plan(
    run: Run, target: int, limit_gb: float | None, budget_s: float | None, free_bytes: int | None
) -> MemoryOutcome:
    """Validate the limit and budget of a search. Fields: limit, budget. ``run`` must have a plan.

    ``free_bytes`` is what this machine has free now, None where the target is not on its CPU.
    """
    assert run.plan is not None
    errors: dict[str, str] = {}
    limit = _attempt(errors, "limit", lambda: _limit_bytes(limit_gb))
    budget = _attempt(errors, "budget", lambda: checked_budget(budget_s))
    if limit is not None and free_bytes is not None and limit > free_bytes:
        errors["limit"] = (
            f"The limit is {limit / GB:.3g} GB, but only {free_bytes / GB:.3g} GB are free on this machine now; choose "
            "less, or close other programs."
        )
    if errors:
        return MemoryOutcome(None, limit, errors)
    values = {
        "workload": run.plan.workload,
        "target": run.plan.targets[target],
        "limit_bytes": limit,
        "budget_s": budget,
        "run_id": run.id,
    }
    plan = _attempt(errors, "limit", lambda: MemoryPlan.model_validate(values))
    return MemoryOutcome(plan, limit, errors)


def build_prices(draft: PriceDraft) -> PriceOutcome:
    """Validate prices. Fields: every target's name, currency, dated, epoch."""
    errors: dict[str, str] = {}
    currency = draft.currency.strip().upper()
    if not (len(currency) == 3 and currency.isascii() and currency.isalpha()):
        errors["currency"] = "A currency is three letters, such as EUR."
    prices = []
    for name, amount in draft.amounts.items():
        if amount is None or errors:
            continue
        values = {"target": name, "currency": currency, "dated": draft.dated, "per_hour": amount}
        if not 0 < amount <= MAX_PER_HOUR:
            errors[name] = f"A price an hour must be above 0 and at most {MAX_PER_HOUR:,.0f}; leave it empty for none."
        elif (price := _attempt(errors, "dated", lambda values=values: Price.model_validate(values))) is not None:  # type: ignore[misc]
            prices.append(price)
    epoch = draft.epoch_samples
    if epoch is not None and not 1 <= epoch <= MAX_EPOCH_SAMPLES:
        errors["epoch"] = f"An epoch must hold 1 to {MAX_EPOCH_SAMPLES:,} samples."
        epoch = None
    return PriceOutcome(() if errors else tuple(prices), epoch, errors)


def _attempt(errors: dict[str, str], field: str, make: Callable[[], T]) -> T | None:
    """What ``make`` makes; None with a sentence in ``errors`` where it refuses."""
    try:
        return make()
    except ValidationError as error:
        errors[field] = explain(error)
    except ValueError as error:
        errors[field] = str(error)
    return None


def _source(draft: NoiseDraft, look: Callable[[str], Source]) -> Source | None:
    if not draft.own:
        return None
    path = draft.data.strip()
    if not path:
        raise DataError(f"Give a path to your labelled data, or take the labels of a teacher network. {RANDOM_LABELS}")
    if not path.isprintable():
        raise DataError("The path holds characters that cannot be shown; type it anew.")
    return look(path)


def _whole(name: str, value: int | None, low: int, high: int) -> int:
    if value is None or not low <= value <= high:
        raise ValueError(f"{name} must lie between {low:,} and {high:,}.")
    return value


def _above_zero(name: str, value: float | None, most: float) -> float | None:
    if value is not None and not 0 < value <= most:
        raise ValueError(f"{name} must be above 0 and at most {most:,.0f}; leave it empty for the usual one.")
    return value


def _budget(value: float | None) -> float:
    if value is None or not MIN_NOISE_BUDGET_S <= value <= MAX_BUDGET_S:
        raise ValueError(f"The budget must lie between {MIN_NOISE_BUDGET_S:.0f} and {MAX_BUDGET_S:,.0f} seconds.")
    return value


def _limit_bytes(limit_gb: float | None) -> int:
    low, high = MIN_LIMIT_BYTES / GB, MAX_LIMIT_BYTES / GB
    if limit_gb is None or not low <= limit_gb <= high:
        raise ValueError(f"The memory limit must lie between {low:g} and {high:,.0f} GB.")
    return round(limit_gb * GB)


def target_order(names: Sequence[str], known: Sequence[str]) -> int:
    """The index of the first target of which something was measured, else of the second one."""
    return next((index for index, name in enumerate(names) if name in known), len(names) - 1)
