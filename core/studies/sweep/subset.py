"""A run of several targets, reduced to some of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from core.studies.sweep.record import Run


def only(run: Run, targets: Sequence[int]) -> Run:
    """Return the run with these of its targets alone, in this order, renumbered 0, 1, …; rounds without any are
    dropped.
    """
    if list(targets) == list(range(len(run.target_names))):
        return run
    place = {target: index for index, target in enumerate(targets)}

    def kept(records: Sequence[Any]) -> tuple[Any, ...]:
        mine = (record for record in records if record.target in place)
        return tuple(record.model_copy(update={"target": place[record.target]}) for record in mine)

    rounds = ((item, kept(item.blocks)) for item in run.rounds)
    changes: dict[str, Any] = {
        name: kept(getattr(run, name)) for name in ("processes", "setups", "cells", "traces", "energy", "loops")
    }
    if run.plan is not None:
        changes["plan"] = run.plan.model_copy(update={"targets": tuple(run.plan.targets[t] for t in targets)})
    return run.model_copy(
        update={
            **changes,
            "target_names": tuple(run.target_names[target] for target in targets),
            "rounds": tuple(item.model_copy(update={"blocks": blocks}) for item, blocks in rounds if blocks),
        }
    )
