"""The model's constants, read from ``core/data/hardware_model.json``, each with how it was found."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from core.schema import Frozen

FILE = Path(__file__).parent.parent / "data" / "hardware_model.json"

Peak = Literal["fp32", "tf32", "half"]
Share = Annotated[float, Field(gt=0, le=1)]


class Constants(Frozen):
    """``arithmetic`` holds the reachable share of the peak rate by op class and peak (“dense/half”), and
    ``power_limited`` that of cards whose power budget binds in long arithmetic; a class that is missing uses “other”.
    ``bandwidth`` is the reachable share of the memory bandwidth by op class. ``exponent`` is q, with which host and
    device time join, ``overlap`` p, with which arithmetic and traffic of one operation do. ``sustained_ms`` says how
    much arithmetic is long. ``transfer_start_us`` is what a copy over the link costs however small. ``found`` says of
    each constant where it comes from.
    """

    exponent: Annotated[float, Field(ge=1, le=10)]
    overlap: Annotated[float, Field(ge=1, le=10)]
    arithmetic: Mapping[str, Share]
    power_limited: Mapping[str, Share]
    sustained_ms: Annotated[float, Field(gt=0)]
    bandwidth: Mapping[str, Share]
    transfer_start_us: Annotated[float, Field(ge=0)]
    found: Mapping[str, str]

    def arithmetic_share(self, kind: str, peak: Peak) -> float:
        """Share of the peak rate that kernels of this class reach."""
        return self.arithmetic.get(f"{kind}/{peak}") or self.arithmetic[f"other/{peak}"]

    def limited_share(self, kind: str, peak: Peak) -> float:
        """The same in long arithmetic on a card whose power budget binds, never more than the class's own share."""
        limited = self.power_limited.get(f"{kind}/{peak}") or self.power_limited[f"other/{peak}"]
        return min(limited, self.arithmetic_share(kind, peak))

    def bandwidth_share(self, kind: str) -> float:
        """Share of the memory bandwidth that kernels of this class reach."""
        return self.bandwidth.get(kind, self.bandwidth["other"])


@cache
def constants() -> Constants:
    """The constants that Breakeven ships."""
    return Constants.model_validate_json(FILE.read_text(encoding="utf-8"))
