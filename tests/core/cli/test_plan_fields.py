"""Options made from a plan's fields, and the document that lists them."""

from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from core.cli import all_commands
from core.cli.plan_fields import PlanOption, document, plan_options
from tests.core.base.test_fields import Plan

DOCUMENT = Path(__file__).parents[3] / "docs" / "fields.md"


@click.command()
@plan_options(Plan, "budget_s", "batch", "trace")
@plan_options(Plan, "rate")
def command(**given: Any) -> None:
    click.echo(repr(given))


@pytest.mark.parametrize(
    ("arguments", "given"),
    [
        ((), {"budget_s": 60.0, "batch": 64, "trace": True, "rate": None}),
        (("--budget", "9", "--batch", "8", "--no-trace", "--rate", "0.1"),
         {"budget_s": 9.0, "batch": 8, "trace": False, "rate": 0.1}),
    ],
)  # fmt: skip
def test_flags_give_the_fields_of_the_plan(arguments: tuple[str, ...], given: dict[str, Any]) -> None:
    result = CliRunner().invoke(command, arguments)
    assert result.output == f"{given!r}\n"


def test_a_number_outside_the_limits_is_refused_in_the_sentence_of_the_page() -> None:
    result = CliRunner().invoke(command, ("--budget", "1"))
    assert (result.exit_code, result.output.splitlines()[-1]) == (
        2, "Error: The budget must lie between 2 and 5,000 seconds.",
    )  # fmt: skip


def test_the_help_has_unit_default_and_what_an_omitted_flag_means() -> None:
    text = " ".join(CliRunner().invoke(command, "--help").output.split())
    assert "--budget FLOAT Budget (seconds). For all of it. [default: 60.0]" in text
    assert "--rate FLOAT Learning rate. [default: Keras's]" in text


def test_the_document_is_made_from_the_plans() -> None:
    assert DOCUMENT.read_text(encoding="utf-8") == document(all_commands())


def test_every_measuring_command_has_fields_of_its_plan() -> None:
    described = {
        name for name, made in all_commands().items() if any(isinstance(option, PlanOption) for option in made.params)
    }
    kinds_here = {"sweep", "check", "resolution", "fleet", "diagnose", "pipeline", "frontier", "scaling", "memory"}
    assert described >= kinds_here | {"batch"}
