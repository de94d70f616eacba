"""Record of a frontier study."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache
from itertools import product
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self

from pydantic import Field, ValidationInfo, field_validator, model_validator

from core.base.evidence import Block, Interference, Outcome, StoredInterference, TargetIndex
from core.base.schema import Frozen, UserError, as_user_error
from core.networks.families import Network, families
from core.rounds.study import Study
from core.workload.execution import refuse_same
from core.workload.names import shown_names
from core.workload.spec import Batch, Budget, Mode, Optimizer, Target, Workload, refuse_call, seconds, usual_mode

MAX_VALUES = 16  # per axis; 4096 settings at most
MAX_ROUNDS = 100_000
NEAR = 64  # largest shift of a width to one that the family can build
AXES: tuple[Axis, ...] = ("depth", "width", "batch")

Axis = Literal["depth", "width", "batch"]
Size = Annotated[int, Field(ge=1, le=1_000_000)]


class Setting(NamedTuple):
    """One point of the map. Its fields are the axes, in the order of ``AXES``."""

    depth: int
    width: int
    batch: int

    @property
    def words(self) -> str:
        return f"depth {self.depth:,}, width {self.width:,}, batch {self.batch:,}"


class FrontierPlan(Frozen):
    """Settings of a frontier study.

    ``family`` is one whose choices include depth and width; ``sizes`` hold its other choices as (name, value), with the
    family's defaults for those left out. Axes rise; a single depth makes the map two-dimensional. ``point`` is the
    user's operating point; it is measured even if it is not on the grid.
    """

    schema_version: Literal[1] = 1
    family: str = "mlp"
    sizes: tuple[tuple[str, int], ...] = ()
    depths: Annotated[tuple[Size, ...], Field(min_length=1, max_length=MAX_VALUES)]
    widths: Annotated[tuple[Size, ...], Field(min_length=1, max_length=MAX_VALUES)]
    batches: Annotated[tuple[Batch, ...], Field(min_length=1, max_length=MAX_VALUES)]
    mode: Annotated[Mode, Field(validate_default=True)] = None  # type: ignore[assignment]  # the family's usual one
    optimizer: Optimizer = "adam"
    targets: tuple[Target, Target]
    point: Setting | None = None
    budget_s: Annotated[
        Budget,
        seconds(
            "For the whole study. Workers are started up to four times, so that intervals can be given; a longer "
            "budget measures more settings.",
            60,
        ),
    ] = 240.0

    @field_validator("family")
    @classmethod
    def _grows(cls, value: str) -> str:
        if value not in (known := growing_families()):
            raise ValueError(f"family “{value[:40]}” has no depth and width to vary; accepted are {', '.join(known)}")
        return value

    @field_validator("mode", mode="before")
    @classmethod
    def _usual_mode(cls, value: Any, info: ValidationInfo) -> Any:
        family = families().get(info.data.get("family", ""))
        return value if value is not None or family is None else usual_mode(family)

    @field_validator("depths", "widths", "batches")
    @classmethod
    def _rising(cls, value: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(sorted(set(value)))

    @model_validator(mode="before")
    @classmethod
    def _all_sizes(cls, data: Any) -> Any:
        """Fill in defaults for omitted sizes, so that a record states what was measured."""
        if not isinstance(data, dict):
            return data
        try:
            family = families().get(data.get("family", "mlp"))
            sizes = dict(data.get("sizes", ()))
        except (TypeError, ValueError):
            return data
        if family is None:
            return data
        fixed = {choice.name: choice.default for choice in family.choices if choice.name not in ("depth", "width")}
        if unknown := [name for name in sizes if name not in fixed]:
            raise ValueError(f"“{str(unknown[0])[:40]}” is no fixed size here; accepted are {', '.join(fixed)}")
        return data | {"sizes": tuple((fixed | sizes).items())}

    @model_validator(mode="after")
    def _can_be_built(self) -> Self:
        if len(self.grid) < 2:
            raise ValueError("one setting makes no map; give at least one axis two values")
        if self.point is not None:
            self._check_inside(self.point)
        for setting in {(s.depth, s.width): s for s in self.settings}.values():
            self.network(setting)
        refuse_same(self.workload(self.settings[0]), *self.targets)
        for target in self.targets:
            refuse_call(target, "a map of networks is measured")
        return self

    def _check_inside(self, point: Setting) -> None:
        for axis, value in zip(AXES, point, strict=True):
            low, high = self.values(axis)[0], self.values(axis)[-1]
            if not low <= value <= high:
                raise ValueError(f"the operating point's {axis} is {value:,}; the map goes from {low:,} to {high:,}")

    def values(self, axis: Axis) -> tuple[int, ...]:
        return {"depth": self.depths, "width": self.widths, "batch": self.batches}[axis]

    @property
    def grid(self) -> tuple[Setting, ...]:
        """All settings of the map: batch varies fastest, depth slowest."""
        return _grid(self.depths, self.widths, self.batches)

    @property
    def settings(self) -> tuple[Setting, ...]:
        """Settings in the order of their indices: the grid, then the operating point if it is not on the grid."""
        return self.grid if self.point is None or self.point in self.grid else (*self.grid, self.point)

    @property
    def target_names(self) -> tuple[str, str]:
        return str(self.targets[0]), str(self.targets[1])

    @property
    def names(self) -> tuple[str, str]:
        """Targets as people read them; ``target_names`` are their notation."""
        first, second = shown_names(self.targets)
        return first, second

    def name_of(self, target: str) -> str:
        """Return the readable name of the target with that notation."""
        return dict(zip(self.target_names, self.names, strict=True))[target]

    @property
    def free_axes(self) -> tuple[Axis, ...]:
        """Axes with more than one value."""
        return tuple(axis for axis in AXES if len(self.values(axis)) > 1)

    @property
    def held_axis(self) -> Axis:
        """Axis that a map of the two others holds by default: one with a single value, else depth."""
        return next((axis for axis in AXES if len(self.values(axis)) == 1), "depth")

    @property
    def title(self) -> str:
        doing = f"training, {self.optimizer}" if self.mode == "train" else "inference"
        family = families()[self.family].title
        return f"{family} ({doing}) over depth, width and batch: {' against '.join(self.names)}"

    def network(self, setting: Setting) -> Network:
        """Build the network of a setting. Raises UserError if the family has none."""
        with as_user_error(f"depth {setting.depth:,} with width {setting.width:,} cannot be built: "):
            return families()[self.family].from_choices(
                dict(self.sizes) | {"depth": setting.depth, "width": setting.width}
            )

    def workload(self, setting: Setting) -> Workload:
        return Workload(network=self.network(setting), mode=self.mode, optimizer=self.optimizer)


@cache
def _grid(depths: tuple[int, ...], widths: tuple[int, ...], batches: tuple[int, ...]) -> tuple[Setting, ...]:
    return tuple(Setting(*values) for values in product(depths, widths, batches))


def growing_families() -> tuple[str, ...]:
    """Return the families with choices named depth and width."""
    return tuple(
        sorted(name for name, f in families().items() if {"depth", "width"} <= {choice.name for choice in f.choices})
    )


def log_spaced(low: int, high: int, count: int) -> tuple[int, ...]:
    """Return up to ``count`` integers from ``low`` to ``high``, both included, evenly spaced in their logarithm.

    Fewer if rounding makes two of them equal. Raises UserError for an impossible range.
    """
    if not 1 <= low <= high:
        raise UserError(f"The range {low:,} to {high:,} is not possible; it must rise, from 1 at least.")
    if not 1 <= count <= MAX_VALUES:
        raise UserError(f"An axis has 1 to {MAX_VALUES} values, not {count:,}.")
    if count == 1 or low == high:
        return (low,)
    ratio = math.log(high / low) / (count - 1)
    return tuple(sorted({low, high} | {round(low * math.exp(i * ratio)) for i in range(1, count - 1)}))


def buildable_widths(family: str, sizes: Mapping[str, int], depth: int, widths: tuple[int, ...]) -> tuple[int, ...]:
    """Return each width, or the nearest one inside the range that the family can build, such as a multiple of the
    heads.

    ``sizes`` are all of the family's other choices. Without such a width nearby it stays, and is refused later.
    """
    kind = families()[family]

    def can(width: int) -> bool:
        try:
            kind.from_choices({**sizes, "depth": depth, "width": width})
        except ValueError:
            return False
        return True

    def near(width: int) -> int:
        beside = [width + step for away in range(NEAR + 1) for step in (-away, away)]
        return next((w for w in beside if widths[0] <= w <= widths[-1] and can(w)), width)

    return tuple(sorted({near(width) for width in widths}))


def parse_values(text: str, axis: Axis) -> tuple[int, ...]:
    """Parse ``1:1024`` (a doubling grid), ``1:1024:2`` (two per doubling) or ``1,8,64``. Raises UserError."""
    try:
        if ":" not in text:
            return tuple(int(part) for part in text.split(","))
        low, high, *rest = text.split(":")
        if len(rest) > 1:
            raise TypeError
        bounds, per_octave = (int(low), int(high)), float(rest[0]) if rest else 1.0
    except (TypeError, ValueError):
        raise UserError(
            f"The {axis} values “{text[:40]}” are not understood; write a range (1:1024) or a list (1,8,64)."
        ) from None
    if not 1 <= bounds[0] <= bounds[1]:
        raise UserError(f"The {axis} range {text[:40]} is not possible; it must rise, from 1 at least.")
    if not 0.25 <= per_octave <= 8:
        raise UserError(f"The {axis} range {text[:40]} is not possible; it has 0.25 to 8 values per doubling.")
    count = round(math.log2(bounds[1] / bounds[0]) * per_octave) + 1
    if count > MAX_VALUES:
        raise UserError(f"The {axis} range {text[:40]} has {count:,} values; at most {MAX_VALUES} are accepted.")
    return log_spaced(*bounds, max(count, 2))


class FrontierRound(Frozen):
    """One block of each target at one setting, in the order they ran. ``setting`` is an index into ``plan.settings``.

    ``process`` in blocks counts starts of the workers.
    """

    index: Annotated[int, Field(ge=0)]
    setting: Annotated[int, Field(ge=0)]
    blocks: Annotated[tuple[Block, ...], Field(min_length=2, max_length=2)]
    interference: StoredInterference = Interference()

    def step_ms(self, target: int) -> float:
        return next(block.step_ms for block in self.blocks if block.target == target)

    @model_validator(mode="after")
    def _both_targets(self) -> Self:
        if {block.target for block in self.blocks} != {0, 1}:
            raise ValueError("a round holds one block of each target")
        return self


class FrontierOutcome(Frozen):
    """Reason why a setting has no (more) rounds; ``target`` is the one that failed, None if neither did."""

    setting: Annotated[int, Field(ge=0)]
    target: TargetIndex | None = None
    outcome: Outcome
    reason: str = ""


class FrontierStudy(Study):
    """Measurements of a frontier study. Every statistic is derived from the rounds, each time."""

    noun: ClassVar[str] = "frontier study"

    plan: FrontierPlan
    rounds: Annotated[tuple[FrontierRound, ...], Field(max_length=MAX_ROUNDS)] = ()
    outcomes: tuple[FrontierOutcome, ...] = ()

    @model_validator(mode="after")
    def _settings_exist(self) -> Self:
        count = len(self.plan.settings)
        if max((*(r.setting for r in self.rounds), *(o.setting for o in self.outcomes)), default=0) >= count:
            raise ValueError(f"a round or outcome names a setting beyond the plan's {count:,}")
        return self

    @property
    def measured(self) -> tuple[int, ...]:
        """Indices of the settings that have a round, rising."""
        return tuple(sorted({item.setting for item in self.rounds}))

    @property
    def starts(self) -> int:
        """Number of starts of the workers that have a round."""
        return len({item.blocks[0].process for item in self.rounds})

    @property
    def title(self) -> str:
        return self.plan.title
