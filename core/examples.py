"""The finished example that everybody sees first: a real sweep recorded by this tool, with its environment."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from core.results import Run

EXAMPLE_FILE = Path(__file__).parent / "data" / "example.json"


@cache
def load_example() -> Run:
    """The shipped example. Raises FileNotFoundError or ValueError (with a sentence) when the file is damaged."""
    return Run.from_json(EXAMPLE_FILE.read_bytes())
