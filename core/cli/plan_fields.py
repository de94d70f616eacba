"""Options of commands made from the descriptions of plans' fields, and the document that lists them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Literal, get_args, get_origin

import click

from core.base.fields import MISSING, PlanField, fields_of
from core.cli.files import refusing

HEAD = """# Fields of plans

Made from the plans: the field of a page and the flag of a command are one, and so are their limits, in the unit of the
page.
"""


class PlanOption(click.Option):
    """The option of a plan's field."""

    field: PlanField

    def get_help_extra(self, ctx: click.Context) -> Any:
        """Return the default and the like; one in words goes without the parentheses that click adds."""
        extra = super().get_help_extra(ctx)
        return {**extra, "default": self.show_default} if isinstance(self.show_default, str) else extra


def plan_options(plan: type, *names: str, **look: Any) -> Callable[[Any], Any]:
    """Return a decorator with an option for each named field of a plan.

    ``look`` replaces arguments of :func:`click.option`, such as the default of a flag that may be left out.
    """

    def decorate(function: Any) -> Any:
        for name in reversed(names):
            function = field_option(fields_of(plan)[name], **look)(function)
        return function

    return decorate


def field_option(field: PlanField, flag: str = "", **look: Any) -> Callable[[Any], Any]:
    """Return the decorator with the option of one field; a value of the plan's own types, or text to be parsed.

    The parameter has the name of the field, or of another ``flag``.
    """
    is_shown = isinstance(field.default, int | float | str) and not isinstance(field.default, bool)
    values: dict[str, Any] = {"help": _help(field), "default": field.default if is_shown else None}
    if field.type is bool:
        values |= {"is_flag": True, "default": False}
        values |= {"default": True, "flag_value": False} if field.default is True else {}
    elif get_origin(field.type) is Literal:
        values["type"] = click.Choice(get_args(field.type))
    elif field.type in (int, float):
        values |= {"type": field.type, "callback": partial(_checked, field)}
    values |= look
    if field.type is not bool:
        values.setdefault("show_default", True if values["default"] is not None else _usual(field) or False)
    option = click.option(*((flag,) if flag else (field.flag, field.name)), cls=PlanOption, **values)

    def decorate(function: Any) -> Any:
        made = option(function)
        made.__click_params__[-1].field = field
        return made

    return decorate


def _checked(field: PlanField, _context: click.Context, option: click.Parameter, value: Any) -> Any:
    """Return a flag's number. Raises BadInput outside the field's limits."""
    with refusing():
        return value if value is None or option.type is click.STRING else field.checked(value)


def _usual(field: PlanField) -> str:
    """Return what stands for a flag that is left out."""
    return field.about.empty or ("" if field.default in (None, MISSING) else f"{field.default:g}")


def _help(field: PlanField) -> str:
    """Return the help: name, unit and meaning."""
    about = field.about
    if field.default is True:
        return f"Leave out: {about.help[0].lower()}{about.help[1:]}"
    name = field.label if about.scale == 1 else about.label
    share = ", as a share (0.05 for 5 %)" if about.unit == "%" else ""
    return f"{name}{share}. {about.help}".rstrip()


def document(commands: Mapping[str, click.Command]) -> str:
    """Return docs/fields.md: one table per command that takes fields of a plan."""
    lines = [HEAD]
    for name, command in sorted(commands.items()):
        if options := [option for option in command.params if isinstance(option, PlanOption)]:
            lines += [f"## `{name}`", "", *_table(options), ""]
    return "\n".join(lines).rstrip("\n") + "\n"


def _table(options: Iterable[PlanOption]) -> list[str]:
    head = ["| flag | on a page | limits | default | meaning |", "| --- | --- | --- | --- | --- |"]
    return head + [
        f"| `{option.opts[0]}` | {field.label} | {field.limits} | {_default(option)} | {field.about.help} |"
        for option in options
        for field in (option.field,)
    ]


def _default(option: PlanOption) -> str:
    """Return the default of a flag, in the unit of the page."""
    if isinstance(option.show_default, str):
        return option.show_default
    if isinstance(option.default, bool):
        return "yes" if option.default else "no"
    return "" if option.default is None else str(option.field.on_page(option.default))
