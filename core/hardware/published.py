"""Step times printed by public sources, beside the model of the same steps, for judging the model by eye.

``core/data/published.json`` holds numbers and what was measured, never texts or code of a source: facts, whatever the
licence of the publication, which is stated with them as far as it is known. An entry is included if its network can be
rebuilt as a workload, its card is in the catalogue and its batch sizes are printed; the selection was settled before
any comparison with the model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import median
from typing import Annotated, Self

from pydantic import Field, field_validator, model_validator

from core.base.evidence import Block, Environment, Gpu, PositiveMs, Warning
from core.base.numbers import counted, percent
from core.base.schema import Frozen
from core.hardware.catalogue import GpuSpec, Text, catalogue, find_gpu
from core.hardware.curve import CardCurve, card_curve
from core.hardware.host import (
    Build,
    Conditions,
    Cost,
    FitCost,
    HostCosts,
    HostKind,
    HostOverhead,
    Modelling,
    costs_of_kind,
)
from core.hardware.interval import Modelled
from core.rounds.run import Cell, Round, Run
from core.workload.execution import expected
from core.workload.spec import Batch, Target, Workload

FILE = Path(__file__).parent.parent / "data" / "published.json"
RUN_PREFIX = "published-"
OCTAVES_ABOUT = 3  # on each side of a single batch, so that the model has a curve there

Point = tuple[Batch, PositiveMs]
Points = tuple[Point, ...]


class Published(Frozen):
    """One source's step times of one network by batch, in (batch, ms), on a GPU and, if printed, on a CPU.

    ``source`` is repository@commit:file. ``fitted``: figures of this source are among those to which the model's
    constants were fitted. ``host`` is the kind of machine that holds the GPU; None if the source timed kernels alone.
    """

    id: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{2,40}$")]
    title: Text
    source: Text
    licence: Text
    fitted: bool
    caveats: Annotated[tuple[Text, ...], Field(min_length=1)]
    workload: Workload
    target: Target
    framework: Text
    build: Build
    fed: bool = False
    under_fit: bool = False
    host: HostKind | None
    cpu: Text | None
    gpu: Text
    cpu_points: Points
    gpu_points: Annotated[Points, Field(min_length=1)]

    @field_validator("target", mode="before")
    @classmethod
    def _target(cls, value: object) -> object:
        return Target.parse(value) if isinstance(value, str) else value

    @field_validator("cpu_points", "gpu_points")
    @classmethod
    def _rising(cls, points: Points) -> Points:
        batches = [batch for batch, _ in points]
        if batches != sorted(set(batches)):
            raise ValueError("batches must rise")
        return points

    @model_validator(mode="after")
    def _cpu_named(self) -> Self:
        if bool(self.cpu) != bool(self.cpu_points):
            raise ValueError("a CPU's name and its points go together")
        return self

    @property
    def conditions(self) -> Conditions:
        return Conditions(fed=self.fed, build=self.build, under_fit=self.under_fit)

    @property
    def repository(self) -> str:
        return self.source.partition("@")[0]

    @property
    def is_sweep(self) -> bool:
        """CPU against GPU, with at least two batches that both have."""
        return len({batch for batch, _ in self.cpu_points} & {batch for batch, _ in self.gpu_points}) > 1


class _File(Frozen):
    entries: tuple[Published, ...]


@cache
def gallery() -> tuple[Published, ...]:
    """Return every entry of the file, in its order."""
    return _File.model_validate_json(FILE.read_text(encoding="utf-8")).entries


def host_costs(entry: Published) -> HostCosts:
    """Return the costs of the kind of machine that holds the entry's GPU; zero if kernels alone were timed."""
    execution = expected(entry.workload.network, entry.target).execution
    if entry.host is not None:
        return costs_of_kind(entry.host, execution)
    host = HostOverhead(per_op_us=0.0, xla_call_us=0.0, eager_op_us=0.0, step_us=0.0, label="assumed")
    none, why = Cost(0.0, None, None), "the source timed kernels alone"
    return HostCosts(host, execution, none, none, why, "assumed", FitCost(0.0, None, None, why, "assumed"))


def modelled_curve(entry: Published, cards: Mapping[str, GpuSpec] | None = None) -> CardCurve:
    """Model the entry's card at the published batches; around a single batch also at octaves below and above."""
    spec = find_gpu(entry.gpu, cards or catalogue())
    batches = {batch for batch, _ in entry.gpu_points}
    if len(batches) == 1:
        (only,) = batches
        batches |= {only << octave for octave in range(1, OCTAVES_ABOUT + 1)}
        batches |= {only >> octave for octave in range(1, OCTAVES_ABOUT + 1) if only >> octave}
    how = Modelling(entry.workload, entry.target, host_costs(entry), entry.conditions)
    return card_curve(spec, how, sorted(batches))


@dataclass(frozen=True)
class Agreement:
    """Agreement of published and modelled GPU times.

    ``points`` have a modelled time, ``inside`` of them lie in its 95 % interval; ``error`` is the median of |modelled /
    published − 1| (None without points), ``longer`` counts modelled times longer than published ones, and ``withheld``
    published times for which the model gives no number.
    """

    points: int
    inside: int
    error: float | None
    longer: int
    withheld: int = 0

    @property
    def sentence(self) -> str:
        """The agreement in one sentence."""
        if self.error is None:
            return "The model gives no number for any of these batches."
        head = f"{self.inside} of {counted(self.points, 'published GPU time')} inside the modelled 95 % interval"
        left = f"; {self.withheld} more without a modelled number" if self.withheld else ""
        return f"{head}; median error of the model {percent(self.error)}, {self._lean}{left}."

    @property
    def _lean(self) -> str:
        """The direction in which the model errs."""
        shorter = self.points - self.longer
        if self.longer == shorter:
            return "too long as often as too short"
        often = "" if self.points == 1 else "always " if not self.longer or not shorter else "mostly "
        return often + ("too long" if self.longer > shorter else "too short")


def agreement(*pairs: tuple[Published, CardCurve]) -> Agreement:
    """Summarise the agreement of the entries' GPU points with their modelled curves, over all of them."""
    compared, withheld = [], 0
    for entry, curve in pairs:
        known = {point.batch: point for point in curve.known if isinstance(point, Modelled)}
        withheld += sum(batch not in known for batch, _ in entry.gpu_points)
        compared += [(known[batch], ms) for batch, ms in entry.gpu_points if batch in known]
    inside = sum(point.low_ms <= ms <= point.high_ms for point, ms in compared)
    errors = [abs(point.step_ms / ms - 1) for point, ms in compared]
    longer = sum(point.step_ms > ms for point, ms in compared)
    return Agreement(len(compared), inside, median(errors) if errors else None, longer, withheld)


def published_run(run_id: str) -> Run | None:
    """Return a sweep of the gallery by its id as a run without a plan, like imported points; None if there is none.

    It is built on demand and stored nowhere. Each batch has one round, since the source printed no more.
    """
    entry = next((each for each in gallery() if each.is_sweep and RUN_PREFIX + each.id == run_id), None)
    if entry is None or entry.cpu is None:
        return None
    curves = (dict(entry.cpu_points), dict(entry.gpu_points))
    batches = sorted({*curves[0], *curves[1]})
    cells = [Cell(target=i, batch=b, outcome="measured") for b in batches for i in (0, 1) if b in curves[i]]
    rounds = tuple(_round(index, batch, curves) for index, batch in enumerate(batches))
    words = " ".join([f"Published by {entry.source} ({entry.framework}); nothing was measured here.", *entry.caveats])
    return Run(
        id=run_id, name=f"{entry.title} ({entry.repository})", created_at="", label="published", status="finished",
        target_names=(entry.cpu, entry.gpu), cells=tuple(cells), rounds=rounds,
        environment=Environment(captured_at="", cpu=entry.cpu, gpus=(Gpu(name=entry.gpu),)),
        warnings=(Warning(code="published", text=words),),
    )  # fmt: skip


def _round(index: int, batch: int, curves: tuple[dict[int, float], dict[int, float]]) -> Round:
    blocks = (
        Block(target=target, process=0, steps=1, step_ms=curve[batch])
        for target, curve in enumerate(curves)
        if batch in curve
    )
    return Round(index=index, batch=batch, blocks=tuple(blocks))
