"""Rounds of measurement: their record, the answer derived from it, and its display."""
