"""From what a form holds to a plan, with one sentence beside each field that is wrong. Pure: no Streamlit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from pydantic import ValidationError

from core.analysis.memory import check_fits
from core.families import Choice, Network, families
from core.spec import (
    MAX_BUDGET_S,
    MAX_CROSSOVER_WIDTH,
    MIN_BUDGET_S,
    Pipeline,
    SweepPlan,
    Target,
    Workload,
    explain,
    geometric_grid,
    parse_batches,
)

OWN_ARCHITECTURE = "own"
"""The family whose networks come from a file instead of sizes."""

T = TypeVar("T")


@dataclass(frozen=True)
class Draft:
    """A form as it stands. ``preset`` is None for own ``sizes``; None in a number means an emptied field.
    ``architecture`` is a network read from a file, or the sentence that refused the file.

    ``batches`` is ("range", low, high) or ("list", text). Interval widths that are enough, in percent: ``width_pct`` of
    the step time, ``crossover_width_pct`` of the crossover's batch size.
    """

    family: str
    preset: str | None
    sizes: dict[str, int | None]
    mode: str
    optimizer: str
    targets: tuple[dict[str, Any], dict[str, Any]]
    batches: tuple[Any, ...]
    refine: bool
    pipeline: dict[str, Any]
    budget_s: float | None
    crossover_width_pct: float | None
    width_pct: float | None
    architecture: Network | str | None = None


@dataclass(frozen=True)
class Outcome:
    """``plan`` is None while ``errors`` (field: sentence) is not empty; ``workload`` is there as soon as it can be."""

    plan: SweepPlan | None
    workload: Workload | None
    errors: dict[str, str]


def build(draft: Draft, available_bytes: int) -> Outcome:
    """Validate a draft.

    Fields: workload, target 0, target 1, targets, batches, pipeline, budget, crossover width, width.
    """
    errors: dict[str, str] = {}

    def attempt(field: str, make: Callable[[], T]) -> T | None:
        try:
            return make()
        except ValidationError as error:
            errors[field] = explain(error)
        except ValueError as error:
            errors[field] = str(error)
        return None

    chosen = (draft.family, draft.preset, draft.sizes, draft.mode, draft.optimizer, draft.architecture)
    workload = attempt("workload", lambda: make_workload(*chosen))
    targets = [attempt(f"target {i}", partial(Target, **values)) for i, values in enumerate(draft.targets)]
    if targets[0] is not None and targets[0] == targets[1]:
        errors["targets"] = f"Both targets are “{targets[0]}”; choose two that differ."
    batches = attempt("batches", lambda: _batches(draft.batches))
    pipeline = attempt("pipeline", lambda: Pipeline(**draft.pipeline))
    budget_s = attempt("budget", lambda: checked_budget(draft.budget_s))
    crossover_width = attempt("crossover width", lambda: _crossover_width(draft.crossover_width_pct))
    step_width = attempt("width", lambda: _width(draft.width_pct))
    if errors:
        return Outcome(None, workload, errors)
    values = {"workload": workload, "targets": targets, "batches": batches, "pipeline": pipeline}
    widths = {"crossover_width": crossover_width, "step_width": step_width}
    more = {"budget_s": budget_s, "refine": draft.refine, **widths}
    plan = attempt("batches", lambda: SweepPlan.model_validate({**values, **more}))
    if plan is not None:
        fitting = plan
        attempt("memory", lambda: check_fits(fitting, available_bytes))
    return Outcome(None if errors else plan, workload, errors)


def make_workload(
    family: str,
    preset: str | None,
    sizes: Mapping[str, int | None],
    mode: str,
    optimizer: str,
    architecture: Network | str | None = None,
) -> Workload:
    """Workload from a form; ``sizes`` count where there is no ``preset``, ``architecture`` where they are a file's.

    Raises ValueError with a sentence.
    """
    if family == OWN_ARCHITECTURE:
        network = _read_network(architecture)
    elif preset is not None:
        network = families()[family].from_name(preset)
    else:
        network = families()[family].from_choices(checked_sizes(families()[family].choices, sizes))
    return Workload.model_validate({"network": network, "mode": mode, "optimizer": optimizer})


def _read_network(architecture: Network | str | None) -> Network:
    if isinstance(architecture, Network):
        return architecture
    raise ValueError(architecture or "Choose a file with your architecture: Keras JSON or a .keras file.")


def checked_sizes(choices: tuple[Choice, ...], sizes: Mapping[str, int | None]) -> dict[str, int]:
    """The value of every choice. Raises ValueError with a sentence."""
    found: dict[str, int] = {}
    for choice in choices:
        value = sizes.get(choice.name)
        if value is None or not choice.low <= value <= choice.high:
            given = "is empty" if value is None else f"is {value:,}"
            raise ValueError(f"{choice.label} {given}; accepted are {choice.low:,} to {choice.high:,}.")
        found[choice.name] = value
    return found


def _batches(chosen: tuple[Any, ...]) -> tuple[int, ...]:
    kind, *values = chosen
    if kind == "list":
        return parse_batches(values[0])
    low, high = values
    if low is None or high is None:
        raise ValueError("The batch range needs a smallest and a largest batch size.")
    return geometric_grid(low, high)


def checked_budget(value: float | None) -> float:
    """The budget in seconds. Raises ValueError with a sentence."""
    if value is None or not MIN_BUDGET_S <= value <= MAX_BUDGET_S:
        raise ValueError(f"The budget must lie between {MIN_BUDGET_S:g} and {MAX_BUDGET_S:,.0f} seconds.")
    return float(value)


def _crossover_width(value: float | None) -> float:
    if value is None or not 0 < value <= 100 * MAX_CROSSOVER_WIDTH:
        most = 100 * MAX_CROSSOVER_WIDTH
        raise ValueError(f"The crossover's interval width must be above 0 and at most {most:.0f} % of its batch.")
    return value / 100


def _width(value: float | None) -> float:
    if value is None or not 0 < value <= 100:
        raise ValueError("The step time's interval width must be above 0 and at most 100 % of it.")
    return value / 100


def count_words(value: float) -> str:
    """A count in words a person can say: 669 thousand, 4.01 million."""
    for size, word in ((1e12, "trillion"), (1e9, "billion"), (1e6, "million"), (1e4, "thousand")):
        if value >= size:
            scale = 1e3 if word == "thousand" else size
            return f"{value / scale:.3g} {word}"
    return f"{value:,.0f}"


def size_words(size_bytes: float) -> str:
    """Bytes as kB, MB or GB, powers of ten."""
    if size_bytes >= 0.9995e9:  # 999.6 MB would be rounded to 1e+03
        return f"{size_bytes / 1e9:.3g} GB"
    return f"{size_bytes / 1e6:.3g} MB" if size_bytes >= 0.9995e6 else f"{max(size_bytes / 1e3, 0.01):.3g} kB"
