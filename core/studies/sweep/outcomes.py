"""Labels for a cell's outcome and for the reason why sampling stopped."""

from __future__ import annotations

OUTCOMES = {
    "measured": "measured",
    "skipped": "skipped",
    "out_of_memory": "out of memory",
    "crashed": "worker crashed",
    "hung": "no reply before its deadline",
    "nan_loss": "loss became NaN",
    "misplaced": "ran on another device",
    "error": "failed",
    "pending": "not reached",
}
STOPS = {
    "precise": "interval narrow enough",
    "plateau": "noise no longer falls",
    "budget": "time budget used",
    "cancelled": "cancelled",
    "interrupted": "interrupted",
    "answered": "answer precise enough",
    "failed": "failed",
}


def failed_words(batch: int, outcome: str) -> str:
    """Explain why larger batches are not tried."""
    return f"batch {batch:,} failed ({outcome.replace('_', ' ')})."
