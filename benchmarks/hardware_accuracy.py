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
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import hardware_given
from benchmarks.evidence.operations import available
from benchmarks.evidence.table import Array
from benchmarks.hardware_classes import (
    NETWORKS_LIKE,
    REGIONS,
    UNDER_FIT,
    Judged,
    bounds,
    calibrated,
    classes,
    judged,
    spreads,
    without_own_fold,
)
from benchmarks.hardware_cv import (
    Data,
    by_chip,
    by_source,
    by_year,
    fitted_without,
    held_out,
    load,
)
from benchmarks.hardware_fit import CACHE_SHARE, CACHE_SPEED, PARAMETERS, SERVER_OP_US, Fitted
from core.hardware import constants, host, interval

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
    "power": f"{FITTED}: watts by process; tf32 twice half's",
    "sustained_ms": FITTED,
    "bandwidth": f"{FITTED}; convolutions of every kind share one, pooling has that of normalisation",
    "fused_op": FITTED,
    "xla_op": FITTED,
    "keras_xla_op": f"{FITTED}, and to a real H200 (benchmarks/evidence/measured_here.py)",
    "fill": FITTED,
    "channels_first": FITTED,
    "generations": f"{FITTED}; each as a share of the one before it",
    "cache_speed": f"{CACHE_SPEED}: V100's is 2.4 times its memory's (Jia et al. 2018); fits with 1 and 2 err alike",
    "cache_share": f"assumed: {CACHE_SHARE}, the rest is other kernels'",
    "feed_gb_s": "measured: core/data/example_gpu.json, NumPy batches through Keras's own step to an H200",
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
    errors = judged(data, {way: held_out(data, folds, start, tell) for way, folds in ways.items()})
    wider = calibrated(errors)
    low, high = without_own_fold(errors, 0.9, wider)
    print_year(data, errors, start)
    print_errors(errors)
    print_goals(errors)
    print_coverage(errors, low, high)
    if write:
        write_constants(fitted)
        write_hosts(fitted, spreads(errors, 0.95))
        write_errors(data, errors, wider, low, high)
    hardware_given.report()


def print_year(data: Data, errors: Judged, start: Array) -> None:
    """Print how far steps after 2020 are off by constants and intervals of what was published before."""
    later = judged(data, {"year": held_out(data, by_year(data), start, tell)})
    earlier = errors.where(~np.isin(errors.source, np.unique(later.source)))
    wider = calibrated(earlier)
    low, high = bounds(later, classes(earlier, wider), spreads(earlier, 0.95), 0.95, wider[UNDER_FIT])
    inside = (later.error >= low) & (later.error <= high)
    median, ninety = relative(later.error)
    width = float(np.median(np.exp(high - low)))
    print(f"\nAfter 2020 by what was published before: {len(later.error)} steps, median {median:.1%}, 90th percentile "
          f"{ninety:.0%}, {inside.mean():.1%} inside, high over low {width:.2f}")  # fmt: skip


def tell(fold: str) -> None:
    print(f"  held out: {fold}", flush=True)


def relative(logs: Array) -> tuple[float, float]:
    """Return the median and 90th percentile of |modelled / measured − 1|."""
    off = np.abs(np.exp(-logs) - 1)
    return float(np.median(off)), float(np.quantile(off, 0.9))


def groups(errors: Judged, way: str, by: str) -> Iterable[tuple[tuple[str, str, str], Judged]]:
    """Yield the steps held out one way, by kind, phase and card or source."""
    mine = errors.where(errors.way == way)
    names = getattr(mine, by)
    keys = sorted(set(zip(mine.kind.tolist(), mine.phase.tolist(), names.tolist(), strict=True)))
    for kind, phase, name in keys:
        yield (kind, phase, name), mine.where((mine.kind == kind) & (mine.phase == phase) & (names == name))


def print_errors(errors: Judged) -> None:
    for way, by in (("chip", "gpu"), ("source", "source")):
        print(f"\nErrors with the {way} held out, median / 90th percentile (points):")
        head = "".join(f"{region:>22}" for region in REGIONS)
        print(f"  {'':17} {'phase':6} {by:46}{'all':>22}{head}")
        for (kind, phase, name), mine in groups(errors, way, by):
            cells = [mine.error, *(mine.error[mine.region == region] for region in REGIONS)]
            print(f"  {kind:17} {phase:6} {name[:45]:46}" + "".join(f"{_cell(each):>22}" for each in cells))


def _cell(logs: Array) -> str:
    if not len(logs):
        return ""
    median, ninety = relative(logs)
    return f"{median:.1%} / {ninety:.0%} ({len(logs):,})"


def goal_masks(errors: Judged) -> dict[str, NDArray[np.bool_]]:
    """Return the steps that each goal is about."""
    return {
        "CNN": (errors.kind == "cnn") & ~errors.under_fit,
        "transformer": (errors.kind == "transformer") & ~errors.under_fit,
        "Keras network under fit": errors.under_fit,
    }


def goals(errors: Judged) -> list[dict[str, Any]]:
    """Return the goals and the errors reached."""
    return [
        {
            "what": what,
            "points": int(mask.sum()) // len(WAYS),
            "goal": GOALS[what],
            **{way: relative(errors.error[mask & (errors.way == way)])[0] for way in WAYS},
        }
        for what, mask in goal_masks(errors).items()
    ]


def print_goals(errors: Judged) -> None:
    print("\nMedian error against its goal:")
    for goal in goals(errors):
        both = ", ".join(f"{way} held out {goal[way]:.1%}" for way in WAYS)
        print(f"  {goal['what']:26} goal {goal['goal']:.0%}: {both} ({goal['points']} points)")


def coverage(errors: Judged, low: Array, high: Array) -> dict[str, dict[str, float]]:
    """Return the coverage by class, and of whole networks by family and batch."""
    inside = (errors.error >= low) & (errors.error <= high)
    masks = {}
    for family in ("dense", *NETWORKS_LIKE):
        mine = errors.family == family
        masks |= {f"{family}/{region}": mine & (errors.region == region) for region in REGIONS}
        large = errors.batch >= LARGE
        masks[f"{family}, batch {LARGE} and above"] = mine & errors.network & large
        masks[f"{family}, batch below {LARGE}"] = mine & errors.network & ~large
    return {
        name: {
            "points": int(mask.sum()) // len(WAYS),
            **{way: float(np.mean(inside[mask & (errors.way == way)])) for way in WAYS},
            "high_over_low": float(np.median(np.exp(high - low)[mask])),
        }
        for name, mask in masks.items()
        if all((mask & (errors.way == way)).any() for way in WAYS)
    }


def print_coverage(errors: Judged, low: Array, high: Array) -> None:
    print("\nSteps inside 90 % intervals made without their chip, and without their source; median high over low:")
    for name, row in coverage(errors, low, high).items():
        shares = f"{row['chip']:6.1%} {row['source']:6.1%}"
        print(f"  {name:36} {shares}  {row['high_over_low']:5.2f}  ({row['points']:,} points)")
    for level in (0.9, 0.95):
        print(
            f"  spread of hosts, {level:.0%}: { ({kind: round(f, 2) for kind, f in spreads(errors, level).items()}) }"
        )


def write_constants(fitted: Fitted) -> None:
    shipped = fitted.constants.model_copy(update={"found": FOUND})
    _write(constants.FILE, json.loads(shipped.model_dump_json()))


def write_hosts(fitted: Fitted, spread: Mapping[str, float]) -> None:
    kinds = {}
    for name, costs in fitted.hosts.items():
        slower = costs.op_ms * 1e3 / SERVER_OP_US
        eager_us = 1e3 * (costs.eager_ms or fitted.hosts["kind:server"].eager_ms * slower)
        kinds[name.removeprefix("kind:")] = {
            "step_us": 1e3 * costs.step_ms,
            "op_us": 1e3 * costs.op_ms,
            # measured on servers alone; other hosts are slower by as much as in graphs
            "eager_op_us": eager_us,
            "xla_call_us": 1e3 * costs.xla_ms,
            "fit_us": 1e3 * costs.fit_ms,
            "spread": spread[name],
            "source": HOST_SOURCE,
        }
    _write(host.FILE, {"kinds": kinds})


def write_errors(data: Data, errors: Judged, wider: Mapping[str, float], low: Array, high: Array) -> None:
    made = classes(errors, wider)
    used = Counter(data.evidence.source[data.usable].tolist())
    _write(
        interval.FILE,
        {
            "dated": datetime.now(UTC).date().isoformat(),
            "gpus": sorted(set(errors.gpu.tolist())),
            "sources": [f"{name}: {count:,} points" for name, count in sorted(used.items())],
            "classes": {name: json.loads(each.model_dump_json()) for name, each in made.items()},
            "under_fit": wider[UNDER_FIT],
            "coverage_90": coverage(errors, low, high),
            "goals": goals(errors),
            "by_card": [_held_out(key, mine) for key, mine in groups(errors, "chip", "gpu")],
            "by_source": [_held_out(key, mine) for key, mine in groups(errors, "source", "source")],
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
