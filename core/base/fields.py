"""One description of a plan's field, from which come a page's widget, a command's option and a line of a document.

Type, limits and default stand in the plan already; :class:`About` adds what people read, in ``Annotated[...]``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from functools import cache
from types import MappingProxyType, NoneType
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from annotated_types import Ge, Gt, Le
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from core.base.numbers import table_number
from core.base.schema import UserError

MISSING: Any = object()
UNITS = ("_per_s", "_s", "_ms", "_bytes")
"""Endings of names that flags and addresses leave out."""


@dataclasses.dataclass(frozen=True)
class About:
    """Words about a field for pages, commands and documents.

    Attributes:
        label: Name on a page, without the unit.
        help: Meaning, in sentences.
        unit: Unit of the number on a page.
        empty: What stands for no value.
        scale: The plan's value per unit on the page, 0.01 for percent.
        step: Step of the page's number field.
        flag: Flag of the command, if it is not the field's name.
    """

    label: str
    help: str = ""
    unit: str = ""
    empty: str = ""
    scale: float = 1.0
    step: float = 1
    flag: str = ""


@dataclasses.dataclass(frozen=True)
class PlanField:
    """A field of a plan; ``low``, ``above`` and ``high`` are its limits, the last two included, in the plan's unit."""

    name: str
    about: About
    type: Any = int
    default: Any = MISSING
    low: float | None = None
    above: float | None = None
    high: float | None = None

    @property
    def key(self) -> str:
        """Name in addresses and keys of widgets: ``budget`` for budget_s."""
        return next((self.name.removesuffix(unit) for unit in UNITS if self.name.endswith(unit)), self.name)

    @property
    def flag(self) -> str:
        """Flag of a command; a switch that is on by default is switched off."""
        off = "no-" if self.default is True else ""
        return self.about.flag or f"--{off}{self.key.replace('_', '-')}"

    @property
    def label(self) -> str:
        """Label on a page, with the unit."""
        return f"{self.about.label} ({self.about.unit})" if self.about.unit else self.about.label

    @property
    def limits(self) -> str:
        """Limits in the page's unit, in words; empty without any."""
        high = self._shown(self.high)
        if self.above is not None:
            return f"above {self._shown(self.above)}, at most {high}"
        return f"{self._shown(self.low)} to {high}" if self.low is not None and high else ""

    def with_default(self, default: Any) -> PlanField:
        return dataclasses.replace(self, default=default)

    def of_plan(self, shown: Any) -> Any:
        """Return the plan's value of a page's. Raises UserError outside the limits, which None is without a default."""
        if shown is None and self.default is None:
            return None
        return self.checked(None if shown is None else shown * self.about.scale)

    def checked(self, value: float | None) -> int | float:
        """Return a value of the plan, in its type. Raises UserError outside the limits."""
        if value is None or not self._allows(value):
            raise UserError(self._accepted())
        return round(value) if self.type is int else float(value)

    def on_page(self, value: Any) -> Any:
        """Return a page's value of the plan's; whole where the field's steps are."""
        if value is None or not isinstance(value, int | float) or isinstance(value, bool):
            return value
        shown = value / self.about.scale
        return round(shown) if isinstance(self.about.step, int) else round(shown, 9)

    def _allows(self, value: float) -> bool:
        if self.above is not None and value <= self.above:
            return False
        return (self.low is None or value >= self.low) and (self.high is None or value <= self.high)

    def _accepted(self) -> str:
        what = f"The {self.about.label[0].lower()}{self.about.label[1:]} must"
        unit = f" {self.about.unit}" if self.about.unit else ""
        if self.above is None:
            return f"{what} lie between {self._shown(self.low)} and {self._shown(self.high)}{unit}."
        empty = "; leave it empty for the usual one" if self.default is None else ""
        return f"{what} be above {self._shown(self.above)} and at most {self._shown(self.high)}{unit}{empty}."

    def _shown(self, limit: float | None) -> str:
        return "" if limit is None else table_number(limit / self.about.scale)


@cache
def fields_of(plan: type) -> Mapping[str, PlanField]:
    """Return the described fields of a plan, a model or a dataclass, by name."""
    defaults = _defaults(plan)
    return MappingProxyType(
        {
            name: _field(name, hint, defaults.get(name, MISSING))
            for name, hint in get_type_hints(plan, include_extras=True).items()
            if any(isinstance(item, About) for item in _metadata(hint))
        }
    )


def _defaults(plan: type) -> dict[str, Any]:
    if issubclass(plan, BaseModel):
        return {name: field.default for name, field in plan.model_fields.items() if not field.is_required()}
    fields = dataclasses.fields(plan)  # type: ignore[arg-type]
    return {field.name: field.default for field in fields if field.default is not dataclasses.MISSING}


def _field(name: str, hint: Any, default: Any) -> PlanField:
    """Return a field; of several limits the narrowest counts."""
    known = list(_metadata(hint))
    about = next(item for item in known if isinstance(item, About))
    rules = [rule for item in known if isinstance(item, FieldInfo) for rule in item.metadata]
    low: list[Any] = [rule.ge for rule in rules if isinstance(rule, Ge)]
    above: list[Any] = [rule.gt for rule in rules if isinstance(rule, Gt)]
    high: list[Any] = [rule.le for rule in rules if isinstance(rule, Le)]
    return PlanField(
        name, about, next(_types(hint)), default, max(low, default=None), max(above, default=None),
        min(high, default=None),
    )  # fmt: skip


def _metadata(hint: Any) -> Iterator[Any]:
    """Yield what is annotated to a type and to the members of a union."""
    if get_origin(hint) is Annotated:
        yield from hint.__metadata__
        yield from _metadata(hint.__origin__)
    elif get_origin(hint) not in (None, Literal, tuple):
        for member in get_args(hint):
            yield from _metadata(member)


def _types(hint: Any) -> Iterator[Any]:
    """Yield the plain types of a hint, without None; a choice of words keeps its Literal."""
    if get_origin(hint) is Annotated:
        yield from _types(hint.__origin__)
    elif get_origin(hint) in (None, Literal, tuple):
        if hint is not NoneType:
            yield hint
    else:
        for member in get_args(hint):
            yield from _types(member)
