"""The cost of driving a device on a machine's CPU: per step, per operation, and added to a step by the loop of ``fit``.

It is measured (core.hardware.host_study, core.hardware.host_loop) or assumed for a kind of host
(core.hardware.host_kinds).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from core.frameworks import Compiled
from core.hardware.model import HostOverhead

HostKind = Literal["unnamed", "weak", "desktop", "recent_desktop", "server", "recent_server"]
KIND_WORDS: dict[HostKind, str] = {
    "unnamed": "a host that nobody named",
    "weak": "a weak cloud machine",
    "desktop": "a desktop of before 2020",
    "recent_desktop": "a desktop of 2020 or later",
    "server": "a server of before 2020",
    "recent_server": "a server of 2020 or later",
}
NAMED_KINDS: tuple[HostKind, ...] = tuple(kind for kind in get_args(HostKind) if kind != "unnamed")
HostLabel = Literal["measured", "recorded", "assumed"]
COSTS = ("per_op_us", "xla_call_us", "eager_op_us", "step_us", "fit_us")


@dataclass(frozen=True)
class Cost:
    """Microseconds with 95 % bounds; None if there are too few rounds to support them."""

    us: float
    low_us: float | None
    high_us: float | None


@dataclass(frozen=True)
class FitCost(Cost):
    """The cost that the loop of ``fit`` (for inference ``predict``) itself adds to a step, and its source.

    A host study does not measure it.
    """

    source: str
    label: HostLabel


@dataclass(frozen=True)
class HostCosts:
    """The model's view of a host for steps of one execution: costs with their intervals, and their source.

    ``fit`` enters steps under ``fit`` alone. ``kind`` is None for a measured host. ``spread`` is the factor by which
    all costs of a kind may be off together.
    """

    host: HostOverhead
    execution: Compiled
    step: Cost
    op: Cost
    source: str
    label: HostLabel
    fit: FitCost
    kind: HostKind | None = None
    spread: float | None = None

    @property
    def words(self) -> str:
        """The label in words, such as ``assumed, a desktop`` or ``measured``."""
        return self.label if self.kind is None else f"{self.label}, {KIND_WORDS[self.kind]}"

    def bounds(self, *, under_fit: bool = False) -> tuple[tuple[HostOverhead, HostOverhead], ...]:
        """Return the host with one cost at its lower and at its upper bound, for each cost that enters and has bounds,
        or with all costs at once if there is a ``spread``.
        """
        if self.spread is not None:
            return ((self._times(1 / self.spread), self._times(self.spread)),)
        fields = {"step_us": self.step, "eager_op_us" if self.execution == "eager" else "per_op_us": self.op}
        if under_fit:
            fields["fit_us"] = self.fit
        return tuple(
            (self._with(field, cost.low_us - cost.us), self._with(field, cost.high_us - cost.us))
            for field, cost in fields.items()
            if cost.low_us is not None and cost.high_us is not None
        )

    def _times(self, factor: float) -> HostOverhead:
        costs = {name: factor * getattr(self.host, name) for name in COSTS}
        return self.host.model_copy(update=costs)

    def _with(self, field: str, more_us: float) -> HostOverhead:
        return self.host.model_copy(update={field: max(0.0, getattr(self.host, field) + more_us)})
