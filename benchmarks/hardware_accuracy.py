"""Report how far the hardware model errs on chips and on sources that its constants were not fitted to, and whether its
intervals hold.

Fits on the published measurements (../shared/data/published) without one chip after the other, and without one source
after the other, predicts the steps left out, and prints the errors by card, source, family and what limits the step,
and the share of steps inside 90 % intervals that were made without them. With --write the constants fitted to all go to
core/data/hardware_model.json, hosts to core/data/hosts.json, and the errors' quantiles to
core/data/hardware_errors.json: figures and names of sources, no measurement. Some 7 minutes.

    python -m benchmarks.hardware_accuracy [--write]
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.evidence.keras_notebooks import keras_rows
from benchmarks.evidence.more_cards import MORE_CARDS
from benchmarks.evidence.operations import available
from benchmarks.evidence.recent_networks import recent_rows
from benchmarks.evidence.rows import NetworkRow
from benchmarks.evidence.table import Array
from benchmarks.evidence.vendor_networks import LAMBDA
from benchmarks.hardware_classes import (
    NETWORKS_LIKE,
    REGIONS,
    Judged,
    bounds,
    calibrated,
    classes,
    judged,
    spreads,
    without_own_fold,
)
from benchmarks.hardware_cv import (
    NEVER_FITTED,
    Data,
    by_chip,
    by_source,
    by_year,
    fitted_without,
    held_out,
    load,
    network_rows,
)
from benchmarks.hardware_fit import CACHE_SHARE, CACHE_SPEED, PARAMETERS, SERVER_OP_US, Fitted
from core.hardware import constants, interval
from core.hardware.catalogue import GpuSpec, catalogue
from core.hardware.curve import card_curve
from core.hardware.host import Modelling, costs_of_kind
from core.hardware.interval import ErrorClass, Modelled
from core.workload.execution import expected

WAYS = ("chip", "source")
LARGE = 32
"""Batch from which intervals are to be narrow."""
GOALS: dict[str, float] = {"CNN": 0.25, "transformer": 0.20, "Keras network under fit": 0.30}
FITTED = "fitted to published measurements: benchmarks/hardware_accuracy.py"
FOUND = {
    "exponent": f"{FITTED} (whole networks)",
    "overlap": FITTED,
    "overlap_convolution": FITTED,
    "arithmetic": f"{FITTED}; grouped/tf32 like grouped/half, depthwise without tensor cores, other classes like dense",
    "power_limited": f"{FITTED} (P4, T4, L4): one share of each peak; tf32 like half",
    "sustained_ms": FITTED,
    "bandwidth": f"{FITTED}; convolutions of every kind share one, pooling has that of normalisation",
    "fused_op": FITTED,
    "xla_op": FITTED,
    "fill": FITTED,
    "generations": f"{FITTED}; 1 where nothing of a generation was published",
    "cache_speed": f"{CACHE_SPEED}: V100's is 2.4 times its memory's (Jia et al. 2018); fits with 1 and 2 err alike",
    "cache_share": f"assumed: {CACHE_SHARE}, the rest is other kernels'",
    "transfer_start_us": "gpu-benches, cudaMemcpy to a V100 over PCIe 3: 33 µs for small copies",
}
HOST_SOURCE = (
    "fitted to published steps of whole networks (benchmarks/hardware_accuracy.py); an operation on a server is the "
    "middle of what dense layers took in TensorFlow 1 (5 to 15 µs), other hosts of before 2020 share one, those of "
    "2020 and later have a share of it that is fitted to eager and compiled steps; the spread holds 95 % of "
    "launch-bound steps"
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write what ships")
    write = parser.parse_args().write
    if not available():
        sys.exit("There are no published measurements in ../shared/data/published.")
    data = load()
    start, fitted = fitted_without(data, np.zeros(len(data.evidence), dtype=bool))
    print("Constants fitted to all:")
    for name, value in zip(PARAMETERS, start, strict=True):
        print(f"  {name:30} {value:9.3f}")
    ways = {"chip": by_chip(data), "source": by_source(data)}
    found = judged(data, {way: held_out(data, folds, start, tell) for way, folds in ways.items()})
    wider = calibrated(found)
    low, high = without_own_fold(found, 0.9, wider)
    print_year(data, found, start)
    print_errors(found)
    print_goals(found)
    print_coverage(found, low, high)
    if write:
        write_constants(fitted)
        write_hosts(fitted, spreads(found, 0.95))
        write_errors(data, found, classes(found, wider), low, high)
    print_as_given()


def print_year(data: Data, found: Judged, start: Array) -> None:
    """Print how far steps after 2020 are off by constants and intervals of what was published before."""
    later = judged(data, {"year": held_out(data, by_year(data), start, tell)})
    earlier = found.where(~np.isin(found.source, np.unique(later.source)))
    low, high = bounds(later, classes(earlier, calibrated(earlier)), spreads(earlier, 0.95), 0.95)
    inside = (later.error >= low) & (later.error <= high)
    median, ninety = relative(later.error)
    width = float(np.median(np.exp(high - low)))
    print(f"\nAfter 2020 by what was published before: {len(later.error)} steps, median {median:.1%}, 90th percentile "
          f"{ninety:.0%}, {inside.mean():.1%} inside, high over low {width:.2f}")  # fmt: skip


def tell(fold: str) -> None:
    print(f"  held out: {fold}", flush=True)


def relative(logs: Array) -> tuple[float, float]:
    """Median and 90th percentile of |modelled / measured − 1|."""
    off = np.abs(np.exp(-logs) - 1)
    return float(np.median(off)), float(np.quantile(off, 0.9))


def groups(found: Judged, way: str, by: str) -> Iterable[tuple[tuple[str, str, str], Judged]]:
    """Steps held out one way, by kind, phase and card or source."""
    mine = found.where(found.way == way)
    names = getattr(mine, by)
    keys = sorted(set(zip(mine.kind.tolist(), mine.phase.tolist(), names.tolist(), strict=True)))
    for kind, phase, name in keys:
        yield (kind, phase, name), mine.where((mine.kind == kind) & (mine.phase == phase) & (names == name))


def print_errors(found: Judged) -> None:
    for way, by in (("chip", "gpu"), ("source", "source")):
        print(f"\nErrors with the {way} held out, median / 90th percentile (points):")
        head = "".join(f"{region:>22}" for region in REGIONS)
        print(f"  {'':17} {'phase':6} {by:46}{'all':>22}{head}")
        for (kind, phase, name), mine in groups(found, way, by):
            cells = [mine.error, *(mine.error[mine.region == region] for region in REGIONS)]
            print(f"  {kind:17} {phase:6} {name[:45]:46}" + "".join(f"{_cell(each):>22}" for each in cells))


def _cell(logs: Array) -> str:
    if not len(logs):
        return ""
    median, ninety = relative(logs)
    return f"{median:.1%} / {ninety:.0%} ({len(logs):,})"


def goal_masks(found: Judged) -> dict[str, NDArray[np.bool_]]:
    """Return the steps that each goal is about."""
    return {
        "CNN": (found.kind == "cnn") & ~found.under_fit,
        "transformer": (found.kind == "transformer") & ~found.under_fit,
        "Keras network under fit": found.under_fit,
    }


def goals(found: Judged) -> list[dict[str, Any]]:
    """Return the goals and the errors reached."""
    return [
        {
            "what": what,
            "points": int(mask.sum()) // len(WAYS),
            "goal": GOALS[what],
            **{way: relative(found.error[mask & (found.way == way)])[0] for way in WAYS},
        }
        for what, mask in goal_masks(found).items()
    ]


def print_goals(found: Judged) -> None:
    print("\nMedian error against its goal:")
    for goal in goals(found):
        both = ", ".join(f"{way} held out {goal[way]:.1%}" for way in WAYS)
        print(f"  {goal['what']:26} goal {goal['goal']:.0%}: {both} ({goal['points']} points)")


def coverage(found: Judged, low: Array, high: Array) -> dict[str, dict[str, float]]:
    """Return the coverage by class, and of whole networks by family and batch."""
    inside = (found.error >= low) & (found.error <= high)
    masks = {}
    for family in ("dense", *NETWORKS_LIKE):
        mine = found.family == family
        masks |= {f"{family}/{region}": mine & (found.region == region) for region in REGIONS}
        large = found.batch >= LARGE
        masks[f"{family}, batch {LARGE} and above"] = mine & found.network & large
        masks[f"{family}, batch below {LARGE}"] = mine & found.network & ~large
    return {
        name: {
            "points": int(mask.sum()) // len(WAYS),
            **{way: float(np.mean(inside[mask & (found.way == way)])) for way in WAYS},
            "high_over_low": float(np.median(np.exp(high - low)[mask])),
        }
        for name, mask in masks.items()
        if all((mask & (found.way == way)).any() for way in WAYS)
    }


def print_coverage(found: Judged, low: Array, high: Array) -> None:
    print("\nSteps inside 90 % intervals made without their chip, and without their source; median high over low:")
    for name, row in coverage(found, low, high).items():
        shares = f"{row['chip']:6.1%} {row['source']:6.1%}"
        print(f"  {name:36} {shares}  {row['high_over_low']:5.2f}  ({row['points']:,} points)")
    for level in (0.9, 0.95):
        print(f"  spread of hosts, {level:.0%}: { ({kind: round(f, 2) for kind, f in spreads(found, level).items()}) }")


def print_as_given() -> None:
    """Print how published steps of whole networks lie in the intervals that a user is given by what is shipped: with
    the conditions that the source names, and with none named. The constants know these steps."""
    cards = {**catalogue(), **MORE_CARDS}
    rows = [row for row in network_rows() if row.gpu not in NEVER_FITTED and not row.upper]
    recent = {row.source for row in recent_rows()} | {LAMBDA}
    print("\nIn the 95 % intervals that users are given (shipped constants): inside, median error, high over low")
    for named in (True, False):
        groups_of: dict[tuple[str, str], list[tuple[float, float, float]]] = defaultdict(list)
        withheld = 0
        for row in rows:
            point = _given(row, cards[row.gpu], named=named)
            if point is None:
                withheld += 1
                continue
            printed = (
                row.step_ms + row.resolution_ms >= point.low_ms and row.step_ms - row.resolution_ms <= point.high_ms
            )
            values = (float(printed), abs(point.step_ms / row.step_ms - 1), point.high_ms / point.low_ms)
            kind = "under fit" if row.conditions.under_fit else row.kind
            for group in (kind, "after 2020" if row.source in recent else "to 2020"):
                groups_of[group, row.workload.mode].append(values)
                groups_of[group, "all"].append(values)
        for (group, mode), every in sorted(groups_of.items()):
            inside, off, width = np.array(every).T
            words = "named" if named else "nothing named"
            figures = f"{inside.mean():6.1%} {np.median(off):6.1%} {np.median(width):5.2f}"
            print(f"  {words:14} {group:12} {mode:6} {figures} ({len(every):,} steps)")
        recurrent = sum(row.kind == "recurrent" for row in keras_rows())
        print(f"  without a number: {withheld} of {len(rows):,}, and {recurrent} recurrent ones")


def _given(row: NetworkRow, spec: GpuSpec, *, named: bool) -> Modelled | None:
    conditions = row.conditions if named else replace(row.conditions, build="unnamed")
    execution = expected(row.workload.network, row.conditions.as_built(row.target)).execution
    costs = costs_of_kind(row.host if named else "unnamed", execution)
    (point,) = card_curve(spec, Modelling(row.workload, row.target, costs, conditions), (row.batch,)).points
    return point if isinstance(point, Modelled) else None


def write_constants(fitted: Fitted) -> None:
    shipped = fitted.constants.model_copy(update={"found": FOUND})
    _write(constants.FILE, json.loads(shipped.model_dump_json()))


def write_hosts(fitted: Fitted, spread: Mapping[str, float]) -> None:
    kinds = {}
    for name, host in fitted.hosts.items():
        slower = host.op_ms * 1e3 / SERVER_OP_US
        eager_us = 1e3 * (host.eager_ms or fitted.hosts["kind:server"].eager_ms * slower)
        kinds[name.removeprefix("kind:")] = {
            "step_us": 1e3 * host.step_ms,
            "op_us": 1e3 * host.op_ms,
            # measured on servers alone; other hosts are slower by as much as in graphs
            "eager_op_us": eager_us,
            "xla_call_us": 1e3 * host.xla_ms,
            "fit_us": 1e3 * host.fit_ms,
            "spread": spread[name],
            "source": HOST_SOURCE,
        }
    _write(host.FILE, {"kinds": kinds})


def write_errors(data: Data, found: Judged, made: Mapping[str, ErrorClass], low: Array, high: Array) -> None:
    used = Counter(data.evidence.source[data.usable].tolist())
    _write(
        interval.FILE,
        {
            "dated": datetime.now(UTC).date().isoformat(),
            "gpus": sorted(set(found.gpu.tolist())),
            "sources": [f"{name}: {count:,} points" for name, count in sorted(used.items())],
            "classes": {name: json.loads(each.model_dump_json()) for name, each in made.items()},
            "coverage_90": coverage(found, low, high),
            "goals": goals(found),
            "by_card": [_held_out(key, mine) for key, mine in groups(found, "chip", "gpu")],
            "by_source": [_held_out(key, mine) for key, mine in groups(found, "source", "source")],
        },
    )


def _held_out(key: tuple[str, str, str], mine: Judged) -> dict[str, Any]:
    kind, phase, name = key
    by_region = {
        region: _share(mine.error[mine.region == region]) for region in REGIONS if (mine.region == region).any()
    }
    return {"family": kind, "phase": phase, "name": name, **_share(mine.error), "by_region": by_region}


def _share(logs: Array) -> dict[str, float]:
    median, ninety = relative(logs)
    return {"points": len(logs), "median": median, "ninety": ninety}


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _rounded(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_rounded(each) for each in value]
    return round(value, 4) if isinstance(value, float) else value


def _write(path: Any, data: Any) -> None:
    path.write_text(json.dumps(_rounded(data), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"Written: {path.name}")


if __name__ == "__main__":
    main()
