"""Whether a framework can be started here, by package metadata alone: nothing is imported."""

from __future__ import annotations

import os
from importlib.metadata import PackageNotFoundError, distribution

from core.frameworks import FRAMEWORKS


def why_missing(framework: str) -> str | None:
    """Why a framework cannot be started, as a sentence with the command that installs it; None where it can.

    A framework whose interpreter the variable BREAKEVEN_PYTHON_<FRAMEWORK> names is taken to be installed there.
    """
    known = FRAMEWORKS[framework]
    if os.environ.get(f"BREAKEVEN_PYTHON_{framework.upper()}") or all(map(_is_here, known.packages)):
        return None
    return f"{known.title} is not installed here; run “pip install -r {known.requirements}”."


def _is_here(package: str) -> bool:
    try:
        distribution(package)
    except PackageNotFoundError:
        return False
    return True
