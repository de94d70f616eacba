"""Labels for a busy or unsteady machine beside a verdict, in every picture and report."""

from __future__ import annotations

from core.studies.sweep.answer import Machine

BUSY, UNSTEADY = "busy machine", "unsteady machine"


def machine_badge(machine: Machine) -> str:
    """Return the text of the badge; empty for a quiet and steady machine."""
    return BUSY if not machine.quiet else UNSTEADY if machine.unstable else ""


def machine_line(machine: Machine) -> tuple[str, ...]:
    """Return the badge with its reason, as a line under a picture; none for a quiet and steady machine."""
    if not machine.quiet:
        used = "" if machine.others_cores is None else f" and used {machine.others_cores:.1f} cores"
        return (f"Busy machine: other programs disturbed most rounds{used}.",)
    return ("Unsteady machine: separate starts of the workers disagree.",) if machine.unstable else ()
