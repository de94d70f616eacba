"""Network families, discovered in this package: adding a module adds a family."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from typing import Any, cast

from pydantic import ValidationError

from core.base.schema import UserError
from core.networks.architecture.counts import LayerCount
from core.networks.families.base import Choice, Network

__all__ = ["Choice", "LayerCount", "Network", "families", "network_from_dict", "network_from_name"]


@cache
def families() -> dict[str, type[Network]]:
    """Return every family by name, in alphabetical order of their modules."""
    by_name: dict[str, type[Network]] = {}
    for info in pkgutil.iter_modules(__path__):
        module = importlib.import_module(f"{__name__}.{info.name}")
        for value in vars(module).values():
            if isinstance(value, type) and issubclass(value, Network) and "family" in value.model_fields:
                by_name[cast(str, value.model_fields["family"].default)] = value
    return by_name


def network_from_dict(data: dict[str, Any]) -> Network:
    """Return a validated network from JSON data; ``family`` selects the class. Raises UserError or ValidationError."""
    family = data.get("family")
    known = families()
    if not isinstance(family, str) or family not in known:
        raise UserError(f"Network family {family!r} is unknown; accepted are {', '.join(sorted(known))}.")
    return known[family].model_validate(data)


def network_from_name(name: str, family: str | None = None) -> Network:
    """Return a network by its short name, such as 784-512-512-10, in that family, or the first that knows the name.

    Raises UserError, or pydantic's ValidationError if a name is understood but its sizes are not accepted.
    """
    known = families()
    if family is not None:
        if family not in known:
            raise UserError(f"Network family “{family}” is unknown; accepted are {', '.join(sorted(known))}.")
        return known[family].from_name(name)
    outside_limits: ValidationError | None = None
    for kind in known.values():
        try:
            return kind.from_name(name)
        except ValidationError as error:
            outside_limits = error
        except ValueError:
            continue
    if outside_limits is not None:
        raise outside_limits
    examples = ", ".join(kind.presets[0] for kind in known.values() if kind.presets)
    raise UserError(f"“{name[:60]}” is no network of any family; write it as in {examples}.")
