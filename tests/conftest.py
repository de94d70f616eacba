"""Every test has a data folder and a machine lock of its own and sees no database of the person who runs it."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def data_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "data"
    monkeypatch.setenv("BREAKEVEN_DATA_DIR", str(folder))
    monkeypatch.setenv("BREAKEVEN_LOCK_DIR", str(tmp_path))
    monkeypatch.delenv("BREAKEVEN_DATABASE_URL", raising=False)
    return folder
