"""Preloading for the first page, while the browser still loads its own files."""

from __future__ import annotations

import threading
from contextlib import suppress

from core.base.schema import UserError


def begin() -> None:
    """Preload in the background, once per server; not during a measurement on this machine."""
    threading.Thread(target=load, name="breakeven-load", daemon=True).start()


def load() -> None:
    """Load the first pages' modules, every kind of study, the example, and what Plotly loads with the first chart."""
    from core.machine.lock import holder

    if holder() is not None:
        return
    import core.ui.start.page  # noqa: F401  its page and the sweep's have the most modules
    from core.rounds.answer.analyse import analyse
    from core.rounds.show.figures import step_time_figure
    from core.studies.registry import load_example
    from core.studies.sweep.kind import SWEEP

    with suppress(OSError, UserError):  # an unreadable example is reported where it is shown
        run = load_example(SWEEP.name)
        step_time_figure(run, analyse(run)).to_json()
