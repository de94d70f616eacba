"""Hosts that need not be measured: a weak cloud machine (2 virtual cores, as in free notebooks), a desktop, a server.

The figures are what published steps of small networks leave for the host (benchmarks/hardware_accuracy.py). Machines of
one kind differ, which the bounds cover. A host study or a self-check of the machine itself is far better.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Annotated

from pydantic import Field

from core.frameworks import Compiled
from core.hardware.host import KIND_WORDS, Cost, FitCost, HostCosts, HostKind
from core.hardware.model import HostOverhead
from core.schema import Frozen

FILE = Path(__file__).parent.parent / "data" / "hosts.json"

Microseconds = Annotated[float, Field(ge=0)]
Spread = Annotated[float, Field(ge=1)]


class KindCosts(Frozen):
    """Microseconds of one kind of host. ``spread``: factor up and down that covers 95 % of its machines."""

    step_us: Microseconds
    op_us: Microseconds
    eager_op_us: Microseconds
    xla_call_us: Microseconds
    fit_us: Microseconds
    spread: Spread
    source: str


@cache
def kinds() -> Mapping[HostKind, KindCosts]:
    """Return the kinds that Breakeven ships."""
    return _Kinds.model_validate_json(FILE.read_text(encoding="utf-8")).kinds


class _Kinds(Frozen):
    kinds: Mapping[HostKind, KindCosts]


USUAL_KIND: HostKind = "unnamed"
FILL_IN_KIND: HostKind = "recent_desktop"
"""The kind that stands in for what a measured host's study does not measure."""


WEAK_CORES = 2
_SERVER = re.compile(r"xeon|epyc|graviton|neoverse", re.IGNORECASE)
_RECENT = re.compile(
    r"core.* i\d-1\d{4}|core.* ultra|ryzen .*[5-9]\d{3}|threadripper .*[5-9]\d{3}"
    r"|epyc (7\d\d3|[489]\d{3})|xeon.* (w\d?-?[23]|\w* ?\d[3-6]\d\d)|graviton[3-9]",
    re.IGNORECASE,
)
"""Names of CPUs of 2020 and later: Core from the tenth generation, Ryzen and Threadripper from 5000, EPYC from Milan,
Xeon from Ice Lake."""
_DESKTOP = re.compile(r"core|ryzen|threadripper", re.IGNORECASE)


def kind_of(cpu: str, cores: int | None) -> HostKind:
    """Return the kind of host that a machine with this CPU is; :data:`USUAL_KIND` where its name does not say."""
    if cores is not None and cores <= WEAK_CORES:
        return "weak"
    if _SERVER.search(cpu):
        return "recent_server" if _RECENT.search(cpu) else "server" if re.search(r"\d{4}", cpu) else USUAL_KIND
    if _DESKTOP.search(cpu):
        return "recent_desktop" if _RECENT.search(cpu) else "desktop"
    return USUAL_KIND


def costs_of_kind(kind: HostKind, execution: Compiled) -> HostCosts:
    """Return the costs of a host of that kind for steps of that execution, labelled assumed."""
    own = _any_kind() if kind == "unnamed" else kinds()[kind]
    host = HostOverhead(
        per_op_us=own.op_us,
        xla_call_us=own.xla_call_us,
        eager_op_us=own.eager_op_us,
        step_us=own.step_us,
        fit_us=own.fit_us,
        label="assumed",
    )
    source = f"Assumed for {KIND_WORDS[kind]}: {own.source}"
    op = _spread(own.eager_op_us if execution == "eager" else own.op_us, own.spread)
    fit = _spread(own.fit_us, own.spread)
    return HostCosts(
        host, execution, _spread(own.step_us, own.spread), op, source, "assumed",
        FitCost(fit.us, fit.low_us, fit.high_us, source, "assumed"), kind, own.spread,
    )  # fmt: skip


@cache
def _any_kind() -> KindCosts:
    """Return the geometric means over all kinds, with a spread that covers the spread of each kind around them."""
    every = list(kinds().values())
    costs = {
        name: math.exp(fmean(math.log(max(getattr(each, name), 1.0)) for each in every))
        for name in ("step_us", "op_us", "eager_op_us", "xla_call_us", "fit_us")
    }
    spread = max(each.spread * max(each.op_us / costs["op_us"], costs["op_us"] / each.op_us) for each in every)
    return KindCosts(**costs, spread=spread, source="the middle of all kinds of hosts that published steps tell of")


def _spread(us: float, spread: float) -> Cost:
    return Cost(us, us / spread, us * spread)
