"""A described field gives its limits, units and refusals, for models and dataclasses alike."""

from dataclasses import dataclass
from typing import Annotated

import pytest
from pydantic import Field

from core.base.fields import MISSING, About, fields_of
from core.base.schema import Frozen, UserError

Size = Annotated[int, Field(ge=1, le=100)]


class Plan(Frozen):
    budget_s: Annotated[float, Field(ge=2, le=5000), About("Budget", "For all of it.", "seconds", step=30)] = 60.0
    batch: Annotated[Size, Field(ge=4), About("Reference batch")] = 64
    width: Annotated[float, Field(gt=0, le=1), About("Interval", unit="%", scale=0.01, step=5.0)] = 0.25
    rate: Annotated[Annotated[float, Field(gt=0, le=100)] | None, About("Learning rate", empty="Keras's")] = None
    trace: Annotated[bool, About("Traces", "Profiler traces.")] = True
    limit_bytes: Annotated[int, Field(ge=10**8, le=10**14), About("Memory limit", unit="GB", scale=1e9)]
    name: str = ""


@dataclass(frozen=True)
class Choices:
    budget_s: Annotated[float, Field(ge=10, le=20), About("Budget")] = 12.0


PLAN = fields_of(Plan)


def test_only_described_fields_count_and_a_dataclass_has_them_too() -> None:
    assert list(PLAN) == ["budget_s", "batch", "width", "rate", "trace", "limit_bytes"]
    budget = fields_of(Choices)["budget_s"]
    assert (budget.low, budget.high, budget.default) == (10, 20, 12.0)


def test_names_leave_the_unit_out_and_switches_that_are_on_are_switched_off() -> None:
    assert [field.key for field in PLAN.values()] == ["budget", "batch", "width", "rate", "trace", "limit"]
    assert [PLAN[name].flag for name in ("budget_s", "trace", "limit_bytes")] == ["--budget", "--no-trace", "--limit"]
    assert PLAN["limit_bytes"].default is MISSING


@pytest.mark.parametrize(
    ("name", "limits"),
    [
        ("budget_s", "2 to 5,000"),
        ("batch", "4 to 100"),
        ("width", "above 0, at most 100"),
        ("limit_bytes", "0.1 to 100,000"),
        ("trace", ""),
    ],
)
def test_the_narrowest_limits_are_shown_in_the_unit_of_the_page(name: str, limits: str) -> None:
    assert PLAN[name].limits == limits


def test_values_are_converted_between_page_and_plan() -> None:
    assert [PLAN["width"].on_page(0.25), PLAN["width"].of_plan(25.0)] == [25.0, 0.25]
    assert [PLAN["budget_s"].on_page(60.0), PLAN["limit_bytes"].of_plan(1.5)] == [60, 1_500_000_000]
    assert PLAN["rate"].of_plan(None) is None


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("budget_s", 1, "The budget must lie between 2 and 5,000 seconds."),
        ("budget_s", None, "The budget must lie between 2 and 5,000 seconds."),
        ("batch", 3, "The reference batch must lie between 4 and 100."),
        ("width", 0.0, "The interval must be above 0 and at most 100 %."),
        ("rate", 101.0, "The learning rate must be above 0 and at most 100; leave it empty for the usual one."),
    ],
)
def test_a_refusal_says_what_is_accepted(name: str, value: float | None, sentence: str) -> None:
    with pytest.raises(UserError) as error:
        PLAN[name].of_plan(value)
    assert str(error.value) == sentence
