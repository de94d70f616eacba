"""The shipped example: read from the package's data, with the schema checked."""

from __future__ import annotations

from pathlib import Path

import pytest

from core import examples
from tests.support.runs import make_run


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    examples.load_example.cache_clear()
    monkeypatch.setattr(examples, "EXAMPLE_FILE", tmp_path / "example.json")


def test_example_is_read_back_unchanged() -> None:
    run = make_run(1)
    examples.EXAMPLE_FILE.write_text(run.to_json(), encoding="utf-8")
    assert examples.load_example() == run


def test_a_damaged_example_is_refused() -> None:
    examples.EXAMPLE_FILE.write_text('{"schema_version": 1}', encoding="utf-8")
    with pytest.raises(ValueError, match="no Breakeven run"):
        examples.load_example()
    examples.load_example.cache_clear()
