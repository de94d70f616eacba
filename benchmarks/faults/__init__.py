"""Faults and hostile input, injected with a seed and counted: ``python -m benchmarks.faults``."""

from benchmarks.faults.command import main

__all__ = ["main"]
