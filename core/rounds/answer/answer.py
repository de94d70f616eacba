"""Data classes of an answer, shared by analysis, figures, export, pages and the command line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from core.base.claims import Claim
from core.base.evidence import Warning

Kind = Literal["crossover", "ahead", "tie", "inconclusive", "single", "fastest"]
"""``single``: one target; ``fastest``: three or more targets, whose answer is a :class:`Fastest`."""


@dataclass(frozen=True)
class CellStats:
    """Step time of one target at one batch, with 95 % bounds ``low_ms`` and ``high_ms`` (None: no interval).

    ``starts``: number of replicates behind it (None: unknown).
    """

    target: int
    batch: int
    rounds: int
    step_ms: float
    low_ms: float | None
    high_ms: float | None
    starts: int | None = None

    @property
    def samples_per_s(self) -> float:
        return 1000.0 * self.batch / self.step_ms

    @property
    def us_per_sample(self) -> float:
        return 1000.0 * self.step_ms / self.batch


@dataclass(frozen=True)
class SpeedUp:
    """Speed-up of the second target over the first at a batch: t_first / t_second, with 95 % bounds.

    ``starts``: number of replicates behind it (None: unknown).
    """

    batch: int
    ratio: float
    low: float | None
    high: float | None
    starts: int | None = None


@dataclass(frozen=True)
class Crossover:
    """A batch at which the faster target changes; ``ahead_after`` is the target that wins above it."""

    batch: float
    low: float | None
    high: float | None
    ahead_after: str


@dataclass(frozen=True)
class Lead:
    """The batch from which ``target`` is ahead by at least ``margin`` up to the end of the measured range."""

    target: str
    margin: float
    from_batch: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Machine:
    """State of the machine that a verdict holds for.

    ``quiet``: rounds disturbed by other programs were left out, or there were none. Otherwise most were disturbed, and
    the verdict holds beside programs that use ``others_cores`` cores (None: unknown). ``unstable``: replicates disagree
    too much. ``starts_ended``: at least one start was completed, without which nothing can be claimed.
    """

    quiet: bool = True
    others_cores: float | None = None
    unstable: bool = False
    starts_ended: bool = True


CLAIMS_BY_KIND: dict[Kind, Claim] = {
    "crossover": Claim.CROSSOVER,
    "ahead": Claim.AHEAD,
    "tie": Claim.EQUIVALENT,
}
CLAIMS_BY_REASON = {
    "straddles_at_largest": Claim.AHEAD_IN_PART,
    "straddles_at_smallest": Claim.AHEAD_IN_PART,
    "straddles_within": Claim.AHEAD_IN_PART,
    "within_margin": Claim.EQUIVALENT,
    "floor_and_slope": Claim.FIXED_COST,
}


@dataclass(frozen=True)
class Verdict:
    """Conclusion that the rounds support: ``reason`` is a stable code, ``sentence`` is for people."""

    kind: Kind
    targets: tuple[str, ...]
    reason: str
    sentence: str
    ahead: str | None = None
    crossovers: tuple[Crossover, ...] = ()
    lead: Lead | None = None
    warnings: tuple[Warning, ...] = ()
    next_batch: int | None = None
    machine: Machine = Machine()

    @property
    def has_interval(self) -> bool:
        """Tell whether the verdict rests on replicates; without them it describes the values and claims nothing."""
        return not self.reason.endswith(("_without_replicates", "no_interval"))

    @property
    def wants_replicates(self) -> bool:
        """Tell whether the verdict is open because too few starts were measured, so that nothing may be built on it."""
        few = any(warning.code in ("few_replicates", "no_replicates") for warning in self.warnings)
        is_open = self.reason == "not_distinguishable" or (self.kind == "inconclusive" and not self.claims)
        return not self.has_interval or (few and is_open)

    @property
    def claims(self) -> tuple[Claim, ...]:
        """Return the claims of the verdict; none without an interval."""
        if not self.has_interval:
            return ()
        named = CLAIMS_BY_KIND.get(self.kind) or CLAIMS_BY_REASON.get(self.reason)
        claims = () if named is None else (named,)
        return claims if self.lead is None else (*claims, Claim.LEAD)


@dataclass(frozen=True)
class Band:
    """Range of batches at which one target is the fastest, or one of several ``targets`` (indices) that the data cannot
    separate.

    ``level``: these are shown to be within the margin of each other at every measured batch of the band.
    """

    from_batch: float
    to_batch: float
    targets: tuple[int, ...]
    level: bool = False


@dataclass(frozen=True)
class Boundary:
    """Batch between two bands, with its 95 % interval, which holds for all boundaries simultaneously.

    Up to ``low`` the fastest is one of ``before``, from ``high`` on one of ``after``. It has no bounds without
    replicates, nor if the bands share a target: then the evidence ends there, not a lead.
    """

    batch: float
    low: float | None
    high: float | None
    before: tuple[int, ...]
    after: tuple[int, ...]


@dataclass(frozen=True)
class Fastest:
    """The fastest of three or more targets at and between all measured batches: contiguous bands in rising order.

    All statements hold simultaneously with 95 % (family-wise error over targets and batches).
    """

    bands: tuple[Band, ...]
    boundaries: tuple[Boundary, ...]
    has_interval: bool = True


@dataclass(frozen=True)
class Against:
    """Comparison of one target with the baseline (the first target), as if the two had run alone."""

    target: int
    verdict: Verdict
    speed_ups: tuple[SpeedUp, ...]


@dataclass(frozen=True)
class Fit:
    """Floor and slope of one target: T(b) = (floor^q + (slope·b)^q)^(1/q), with 95 % bounds (None: not supported)."""

    target: int
    floor_ms: float
    floor_low_ms: float | None
    floor_high_ms: float | None
    slope_ms: float
    slope_low_ms: float | None
    slope_high_ms: float | None
    q: float
    half_overhead_batch: float | None
    half_overhead_low: float | None
    half_overhead_high: float | None
    median_error: float
    trusted: bool
    note: str = ""

    def step_ms(self, batch: float) -> float:
        return float((self.floor_ms**self.q + (self.slope_ms * batch) ** self.q) ** (1 / self.q))

    def overhead_share(self, batch: float) -> float:
        """Return the fitted share of fixed cost, 1 − slope·b / T(b) (docs/design.md, Overhead share)."""
        return 1.0 - self.slope_ms * batch / self.step_ms(batch)

    def overhead_bounds(self, batch: float) -> tuple[float, float] | None:
        """Return the 95 % interval of the overhead share, or None if the half-overhead batch has none.

        Both depend on floor over slope alone, so the bounds of one give those of the other.
        """
        if self.half_overhead_low is None or self.half_overhead_high is None:
            return None
        return self._share(self.half_overhead_low, batch), self._share(self.half_overhead_high, batch)

    def _share(self, half: float, batch: float) -> float:
        work = batch / half / (2**self.q - 1) ** (1 / self.q)  # slope·b / floor; at ``half`` slope·b is half of T
        return 1.0 - float(work / (1 + work**self.q) ** (1 / self.q))


@dataclass(frozen=True)
class Answer:
    """Everything derived from the rounds of one run. ``fits[i]`` is None if target i has too few batches.

    ``against`` compares each other target with the first. ``fastest`` is set for three or more targets.
    """

    verdict: Verdict
    cells: tuple[CellStats, ...]
    against: tuple[Against, ...]
    fits: tuple[Fit | None, ...]
    fastest: Fastest | None = None

    @property
    def claims(self) -> tuple[Claim, ...]:
        """Return all claims of the answer, each once."""
        verdicts = (self.verdict, *(pair.verdict for pair in self.against))
        claims = [claim for verdict in verdicts for claim in verdict.claims]
        if self.fastest is not None and self.fastest.has_interval:
            everyone = len(self.verdict.targets)
            claims += [Claim.FASTEST for band in self.fastest.bands if len(band.targets) < everyone]
        return tuple(dict.fromkeys(claims))

    @property
    def speed_ups(self) -> tuple[SpeedUp, ...]:
        """Speed-ups of the second target over the first; empty for a single target."""
        return self.against[0].speed_ups if self.against else ()

    def cell(self, target: int, batch: int) -> CellStats | None:
        return next((c for c in self.cells if c.target == target and c.batch == batch), None)


BUSY, UNSTEADY = "busy machine", "unsteady machine"


def machine_badge(machine: Machine) -> str:
    """Return the text of the badge; empty for a quiet and steady machine."""
    return BUSY if not machine.quiet else UNSTEADY if machine.unstable else ""


def machine_line(machine: Machine) -> tuple[str, ...]:
    """Return the badge with its reason, as a line under a picture; none for a quiet and steady machine."""
    if not machine.quiet:
        used = "" if machine.others_cores is None else f" and used {machine.others_cores:.1f} cores"
        return (f"Busy machine: other programs disturbed most rounds{used}.",)
    return ("Unsteady machine: separate starts of the workers disagree.",) if machine.unstable else ()
