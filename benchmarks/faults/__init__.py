"""Faults and hostile input, injected from a seed and counted: ``python -m benchmarks.faults``."""

from benchmarks.faults.command import main

__all__ = ["main"]
