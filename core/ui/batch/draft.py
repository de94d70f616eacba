"""Plans and prices from the forms of the Batch page, with one sentence beside each invalid field. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from core.base.numbers import byte_size
from core.base.schema import MAX_PER_HOUR
from core.networks.families.code import refuse_code
from core.rounds.run import Run
from core.studies.batch.shapes import MAX_EPOCH_SAMPLES, Price
from core.studies.memory.record import MemoryPlan
from core.studies.noise.record import NoisePlan
from core.ui.checks import Checks, Outcome, checked_path
from core.userdata.arrays import DataError
from core.userdata.source import RANDOM_LABELS, Source
from core.workload.spec import Target, Workload, refuse_lengths_of

NO_GRADIENTS = "This run is of inference: it has no gradients, so no gradient noise scale. Throughput and cost count."
NO_PLAN = "Only points were imported for this run. Without its plan there is no workload to train or to build."
STILL_RUNNING = "This sweep is still running; wait until it has ended."


@dataclass(frozen=True, kw_only=True)
class MemoryOutcome(Outcome[MemoryPlan]):
    """Outcome of a memory form; ``limit_bytes`` is None if the limit is invalid."""

    limit_bytes: int | None


@dataclass(frozen=True)
class PriceDraft:
    """The price form's current values; ``amounts`` per hour by target name, None without a price."""

    amounts: Mapping[str, float | None]
    currency: str
    dated: str
    epoch_samples: int | None


@dataclass(frozen=True)
class PriceOutcome:
    """Outcome of a price form; ``prices`` is empty if any of them is invalid."""

    prices: tuple[Price, ...]
    epoch_samples: int | None
    errors: dict[str, str]


def noise_refusal(run: Run) -> str | None:
    """Return why no noise scale can be measured for this run, or None. It depends on no machine."""
    if run.plan is None:
        return NO_PLAN
    if not run.plan.workload.training:
        return NO_GRADIENTS
    return _refusal(run, run.plan.workload, "the noise scale is measured")


def memory_refusal(run: Run) -> str | None:
    """Return why the largest batch cannot be confirmed here for this run, or None."""
    if run.plan is None:
        return NO_PLAN
    if run.label != "measured":
        return (
            f"This run is {run.label}: its targets are of another machine, and so is their memory. Measure the same "
            "plan here first, then confirm the largest batch for that run."
        )
    return _refusal(run, run.plan.workload, "the largest batch size is searched")


def _refusal(run: Run, workload: Workload, what: str) -> str | None:
    if run.status == "running":
        return STILL_RUNNING
    try:
        refuse_code(workload.network)
        refuse_lengths_of(workload, what)
    except ValueError as error:
        return str(error)
    return None


def build_noise_plan(run: Run, inputs: Mapping[str, Any], look: Callable[[str], Source]) -> Outcome[NoisePlan]:
    """Return the plan of the form's values, by field. ``run`` must have a plan that trains.

    Beside the plan's fields ``inputs`` holds the ``device``, and in ``own`` if the user's data train. ``look`` inspects
    the data at a path, as :func:`core.userdata.source.check_labelled` does.
    """
    assert run.plan is not None
    checks = Checks()
    source = checks.attempt("data", lambda: _source(inputs["data"], look)) if inputs["own"] else None
    values = checks.fields(NoisePlan, inputs) | {
        "workload": run.plan.workload,
        "target": Target(device=inputs["device"]),
        "data": None if source is None else source.path,
        "run_id": run.id,
    }
    return checks.outcome("plan", lambda: NoisePlan.model_validate(values), source)


def build_memory_plan(
    run: Run,
    target: int,
    limit_gb: float | None,
    budget_s: float | None,
    free_bytes: int | None,
    limited: str = "",
) -> MemoryOutcome:
    """Return the plan of a search from its limit and budget. ``run`` must have a plan.

    ``free_bytes`` is this machine's free memory, None if the target is not on its CPU; ``limited`` names its limit.
    """
    assert run.plan is not None
    checks = Checks()
    values = checks.fields(MemoryPlan, {"limit_bytes": limit_gb, "budget_s": budget_s})
    values |= {"workload": run.plan.workload, "target": run.plan.targets[target], "run_id": run.id}
    limit = values["limit_bytes"]
    if limit is not None and free_bytes is not None and limit > free_bytes:
        checks.errors["limit_bytes"] = (
            f"The limit is {byte_size(limit)}, but only {byte_size(free_bytes)} are free on this machine now{limited}; "
            "choose less, or close other programs."
        )
    outcome = checks.outcome("limit_bytes", lambda: MemoryPlan.model_validate(values))
    return MemoryOutcome(plan=outcome.plan, errors=outcome.errors, limit_bytes=limit)


def build_prices(draft: PriceDraft) -> PriceOutcome:
    """Validate prices. Fields: every target's name, dated, epoch."""
    checks, prices = Checks(), []
    for name, amount in draft.amounts.items():
        if amount is None or checks.errors:
            continue
        values = {"target": name, "currency": draft.currency, "dated": draft.dated, "per_hour": amount}
        if not 0 < amount <= MAX_PER_HOUR:
            checks.errors[name] = (
                f"A price per hour must be above 0 and at most {MAX_PER_HOUR:,.0f}; leave it empty for none."
            )
        elif (price := checks.attempt("dated", partial(Price.model_validate, values))) is not None:
            prices.append(price)
    epoch = draft.epoch_samples
    if epoch is not None and not 1 <= epoch <= MAX_EPOCH_SAMPLES:
        checks.errors["epoch"] = f"An epoch must hold 1 to {MAX_EPOCH_SAMPLES:,} samples."
        epoch = None
    return PriceOutcome(() if checks.errors else tuple(prices), epoch, checks.errors)


def _source(text: str, look: Callable[[str], Source]) -> Source:
    if not (path := checked_path(text)):
        raise DataError(f"Give a path to your labelled data, or take the labels of a teacher network. {RANDOM_LABELS}")
    return look(path)


def target_order(names: Sequence[str], known: Sequence[str]) -> int:
    """Return the index of the first target with a measurement, else of the last one."""
    return next((index for index, name in enumerate(names) if name in known), len(names) - 1)
