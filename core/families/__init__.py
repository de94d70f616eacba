"""Network families, found by looking through this package: adding a module adds a family."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from typing import Any, cast

from core.families.base import Choice, LayerCount, Network

__all__ = ["Choice", "LayerCount", "Network", "families", "network_from_dict", "network_from_name"]


@cache
def families() -> dict[str, type[Network]]:
    """Every family by name, in alphabetical order of their modules."""
    found: dict[str, type[Network]] = {}
    for info in pkgutil.iter_modules(__path__):
        module = importlib.import_module(f"{__name__}.{info.name}")
        for value in vars(module).values():
            if isinstance(value, type) and issubclass(value, Network) and "family" in value.model_fields:
                found[cast(str, value.model_fields["family"].default)] = value
    return found


def network_from_dict(data: dict[str, Any]) -> Network:
    """Validated network from JSON data; ``family`` chooses the class. Raises ValueError with a sentence."""
    family = data.get("family")
    known = families()
    if not isinstance(family, str) or family not in known:
        raise ValueError(f"Network family {family!r} is unknown; accepted are {', '.join(sorted(known))}.")
    return known[family].model_validate(data)


def network_from_name(name: str, family: str = "mlp") -> Network:
    """Network by its short name, such as 784-512-512-10. Raises ValueError with a sentence."""
    known = families()
    if family not in known:
        raise ValueError(f"Network family “{family}” is unknown; accepted are {', '.join(sorted(known))}.")
    return known[family].from_name(name)
