"""Choice of the Python interpreter that starts a target's worker, and who may choose it.

``python=`` of a target names a program to run, so a run or plan from elsewhere must not bring one along: only what was
written for a command (its targets, its plan file) may be run. The environment's own variables always may.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable

from core.machine.installed import python_of, why_missing
from core.worker.protocol import CellFailed
from core.workload.spec import Target


def interpreter(target: Target) -> str:
    """Return the target's own interpreter, else that in BREAKEVEN_PYTHON_<FRAMEWORK>, else this program's.

    Raises CellFailed ``error`` if the framework, or another requirement of a worker, is not installed there.
    """
    if (why := why_missing(target.framework, target.python)) is not None:
        raise CellFailed("error", why)
    return target.python or python_of(target.framework) or sys.executable


def refuse_python(targets: Iterable[Target]) -> None:
    """Raise CellFailed if a target names an interpreter, for callers that may not run one."""
    for target in targets:
        if target.python is not None:
            raise CellFailed(
                "error",
                f"The target {target} names a program to run, which is done only for targets that are written for a "
                f"command; leave python= out and set BREAKEVEN_PYTHON_{target.framework.upper()} instead.",
            )
