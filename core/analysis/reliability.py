"""What may be wrong with a run: replicates, processes that disagree, neighbours, throttling. Warnings, never edits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from core.analysis.observations import Observations
from core.results import Noise, Run, Warning

BUSY_PCT = 25.0  # of one core: a neighbour that takes this much moves a 2-core machine's step times
STEAL_PCT = 5.0
COMMON_SHARE = 0.1  # of the rounds; less is an occasional stall, which medians absorb
SLOW_CLOCK = 0.75  # of the run's own median clock (nvbench discards samples below this)


def judge(run: Run, observations: Observations) -> tuple[Warning, ...]:
    """Warnings derived from a run's rounds and their noise records."""
    found = [*_replicates(observations), *disturbances([r.noise for r in run.rounds])]
    if observations.unstable:
        found.append(
            Warning(
                code="unstable_machine",
                text=f"The {observations.unit}es disagree by {observations.spread:.0%} (standard deviation) about the "
                "same step: the machine is unsteady; close other programs or measure longer.",
            )
        )
    return tuple(found)


def _replicates(observations: Observations) -> list[Warning]:
    counts = np.sum(~np.isnan(observations.values), axis=0)
    if len(counts) and counts.max() < 2:
        return [Warning(code="no_replicates", text="One value a batch: no interval can be given.")]
    found = []
    if observations.unit == "round":
        found.append(
            Warning(
                code="single_process",
                text="The rounds carry no processes or passes to tell apart: differences between processes and slow "
                "drift may be missing from the interval.",
            )
        )
    elif observations.unit == "pass":
        found.append(
            Warning(
                code="few_processes",
                text="Fewer than three worker processes: the interval rests on passes, with an allowance of "
                f"{observations.allowance:.0%} for how much processes usually differ. A larger budget allows restarts.",
            )
        )
    if observations.unpaired:
        found.append(
            Warning(
                code="unpaired_rounds",
                text=f"{observations.unpaired} rounds have one target only and take no part in the comparison.",
            )
        )
    return found


def disturbances(noises: Sequence[Noise]) -> tuple[Warning, ...]:
    """Warnings about neighbours, steal and a slow clock from what was sampled once a round."""
    return (*_neighbours(noises), *_clock(noises))


def _neighbours(noises: Sequence[Noise]) -> list[Warning]:
    seen = [n for n in noises if n.other_cpu_pct is not None]
    busy = [n for n in seen if (n.other_cpu_pct or 0.0) > BUSY_PCT]
    found = []
    if len(busy) > COMMON_SHARE * max(1, len(seen)):
        names = Counter(n.busiest[0].name for n in busy if n.busiest)
        who = f" (mostly {names.most_common(1)[0][0]})" if names else ""
        use = float(np.median([n.other_cpu_pct or 0.0 for n in busy]))
        found.append(
            Warning(
                code="neighbour",
                text=f"Other processes{who} used {use:.0f} % of a core during {len(busy)} of {len(seen)} rounds.",
            )
        )
    stolen = [n for n in seen if (n.steal_pct or 0.0) > STEAL_PCT]
    if len(stolen) > COMMON_SHARE * max(1, len(seen)):
        found.append(
            Warning(
                code="steal",
                text=f"The hypervisor took more than {STEAL_PCT:.0f} % of the machine during {len(stolen)} of "
                f"{len(seen)} rounds.",
            )
        )
    sharing = sorted({name for n in noises for name in n.gpu_shared_by})
    if sharing:
        found.append(Warning(code="gpu_shared", text=f"Other processes used the GPU: {', '.join(sharing)}."))
    return found


def _clock(noises: Sequence[Noise]) -> list[Warning]:
    clocks = np.array([n.cpu_mhz for n in noises if n.cpu_mhz is not None])
    throttled = sum(1 for n in noises if n.throttled)
    slow = int(np.sum(clocks < SLOW_CLOCK * np.median(clocks))) if len(clocks) else 0
    if max(throttled, slow) <= COMMON_SHARE * max(1, len(noises)):
        return []
    return [
        Warning(
            code="throttled",
            text=f"The clock was throttled or slow during {max(throttled, slow)} of {len(noises)} rounds.",
        )
    ]
