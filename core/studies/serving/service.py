"""The service that is asked for: a latency limit, the share of requests that keeps it, and the batcher's settings."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from core.base.fields import About
from core.base.schema import Frozen
from core.rounds.run import Run

Percentile = Literal["50", "90", "99"]


class Service(Frozen):
    """A promised latency behind a batcher. ``percentile`` names the share of requests, in percent, that keeps it."""

    limit_ms: Annotated[
        float,
        Field(gt=0, le=600_000),
        About("Latency limit", "From a request's arrival to the end of its batch.", unit="ms", step=1.0),
    ] = 50.0
    percentile: Annotated[
        Percentile, About("Percentile", "Percentage of requests that must keep the limit: 99 is p99.")
    ] = "99"
    max_batch: Annotated[
        int, Field(ge=1, le=1024), About("Largest batch", "Most requests that the server computes at once.")
    ] = 32
    max_delay_ms: Annotated[
        float,
        Field(ge=0, le=60_000),
        About(
            "Largest delay",
            "Time that the oldest request may wait for others while the server is free.",
            unit="ms",
            step=1.0,
        ),
    ] = 0.0
    instances: Annotated[
        int,
        Field(ge=1, le=256),
        About("Instances", "Copies of the model that share one queue. They are taken not to slow each other."),
    ] = 1
    burstiness: Annotated[
        float,
        Field(ge=0, le=100),
        About(
            "Burstiness",
            "Squared coefficient of variation of the time between requests: 1 for requests that come independently "
            "(Poisson), above it for bursts, 0 for even ones.",
            step=0.5,
        ),
    ] = 1.0
    pads: Annotated[
        bool,
        About("Pad batches", "A batch is computed at the next power of two, as servers of compiled models do."),
    ] = False
    rate_per_s: Annotated[
        Annotated[float, Field(gt=0, le=1e9)] | None,
        About("Your rate", "Requests that come per second.", unit="requests/s", empty="none", step=10.0, flag="--rate"),
    ] = None

    @classmethod
    def of(cls, run: Run) -> Service:
        """Return the usual service of a run, with no larger batch than it measured."""
        return cls(max_batch=min(cls().max_batch, max(run.batches, default=1)))

    @property
    def sizes(self) -> tuple[int, ...]:
        """The batch sizes that are computed where batches are padded: powers of two, and the largest batch."""
        powers = (2**power for power in range(self.max_batch.bit_length()))
        return tuple(sorted({*powers, self.max_batch}))

    @property
    def level(self) -> float:
        return int(self.percentile) / 100

    @property
    def promise(self) -> str:
        """The promise, as in ``p99 ≤ 50 ms``."""
        return f"p{self.percentile} ≤ {self.limit_ms:g} ms"
