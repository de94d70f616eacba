"""Diagnoses in the store of a page test."""

from typing import Any

from core.rounds.run import Run
from core.studies.diagnosis.record import Diagnosis
from simulated.pages import keep


def kept(engine: Any, run: Run, *diagnoses: Diagnosis) -> str:
    """Store a run as measured here, and diagnoses of it, the newest last."""
    run_id = keep(engine.store, run)
    for number, found in enumerate(diagnoses):
        add(engine, found, number)
    return run_id


def add(engine: Any, found: Diagnosis, number: int) -> None:
    engine.store.add_study("diagnosis", f"20260106-study{number}", found)
