"""Record of a host study: the framework's own cost on this machine, per step and per operation. Immutable.

The networks are so small that arithmetic hardly counts, in several depths: their step time rises with the number of
operations, and the intercept is the cost of a step. It takes a few seconds, and belongs to a machine, not to a run.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from core.base.evidence import Interference, PositiveMs, StoredInterference
from core.base.frameworks import Compiled
from core.base.schema import Frozen
from core.networks.families.mlp import Mlp
from core.rounds.study import Study
from core.workload.spec import MAX_THREADS, Mode, Target, Workload

WIDTH, OUTPUTS = 8, 2
MAX_DEPTH, MAX_CELLS, MAX_HOST_ROUNDS = 64, 64, 1_000
DEPTHS: dict[Compiled, tuple[int, ...]] = {"graph": (2, 8, 20), "xla": (2, 12), "eager": (2, 6)}
"""Hidden layers, far apart so that the slope stands out; XLA compiles deep networks slowly."""


class HostCell(Frozen):
    """Network of ``depth`` hidden layers of eight units, batch 1, data resident."""

    execution: Compiled
    mode: Mode
    depth: Annotated[int, Field(ge=1, le=MAX_DEPTH)]

    @property
    def workload(self) -> Workload:
        network = Mlp(inputs=WIDTH, hidden=(WIDTH,) * self.depth, outputs=OUTPUTS)
        return Workload(network=network, mode=self.mode, optimizer="adam")

    @property
    def title(self) -> str:
        return f"{self.workload.title}, {self.execution}"


class HostBlock(Frozen):
    """``steps`` consecutive steps of one cell, closed by one synchronisation. ``cell`` is an index into ``cells``."""

    cell: Annotated[int, Field(ge=0, lt=MAX_CELLS)]
    process: Annotated[int, Field(ge=0)]
    steps: Annotated[int, Field(ge=1)]
    step_ms: PositiveMs


class HostRound(Frozen):
    """One block of each cell, in the order they ran."""

    index: Annotated[int, Field(ge=0)]
    blocks: Annotated[tuple[HostBlock, ...], Field(min_length=1, max_length=MAX_CELLS)]
    interference: StoredInterference = Interference()

    def step_ms(self, cell: int) -> float | None:
        return next((block.step_ms for block in self.blocks if block.cell == cell), None)


class HostStudy(Study):
    """Measurements on one machine; :mod:`core.hardware.host` derives the costs each time."""

    noun: ClassVar[str] = "host study"

    threads: Annotated[int, Field(ge=1, le=MAX_THREADS)] | None
    cells: Annotated[tuple[HostCell, ...], Field(min_length=1, max_length=MAX_CELLS)]
    rounds: Annotated[tuple[HostRound, ...], Field(max_length=MAX_HOST_ROUNDS)] = ()

    @property
    def title(self) -> str:
        where = self.environment.cpu if self.environment is not None and self.environment.cpu else "a machine"
        return f"Host overhead of {where}"


def host_cells() -> tuple[HostCell, ...]:
    """Return every cell of a study, training first: most predictions need the costs of graphs."""
    modes: tuple[Mode, ...] = ("train", "infer")
    return tuple(
        HostCell(execution=execution, mode=mode, depth=depth)
        for execution, depths in DEPTHS.items()
        for mode in modes
        for depth in depths
    )


def host_target(threads: int | None, execution: Compiled = "graph") -> Target:
    return Target(device="cpu", threads=threads, execution=execution)
