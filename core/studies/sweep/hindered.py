"""Detection of workers held back by what they inherited: niceness and thread limits."""

from __future__ import annotations

from collections.abc import Iterable

from core.evidence import Process, Warning
from core.text import sentence_case


def hindrance(processes: Iterable[Process]) -> str:
    """Return what held workers back, as a clause; empty if nothing did, or nothing was recorded."""
    known = tuple(processes)
    if (nice := max((process.niceness or 0 for process in known), default=0)) > 0:
        return f"worker processes ran at niceness {nice}, so that all others came before them"
    for limits in (process.inherited_threads for process in known):
        if limits:
            named = ", ".join(f"{name}={value}" for name, value in sorted(limits.items()))
            return f"worker processes inherited {named}, which limits their threads, though no target asked for that"
    return ""


def hindered(processes: Iterable[Process]) -> tuple[Warning, ...]:
    """Return a warning if workers were held back."""
    why = hindrance(processes)
    return (Warning(code="hindered", text=f"{sentence_case(why)}; step times may be longer for it."),) if why else ()
