"""The place where runs are stored, and the messages if it is unusable; nothing stored is lost."""

import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from sqlalchemy import text

from core.store import Store, StoreError
from simulated.runs import make_run

ROOT = Path(__file__).parents[3]
SMALL = {"batches": (1, 8, 64), "processes": 2, "passes": 1, "rounds_per_pass": 2}


def test_the_default_is_a_file_in_the_data_folder(data_dir: Path) -> None:
    store = Store()
    store.add(make_run(**SMALL))
    store.close()
    assert (data_dir / "runs.sqlite3").stat().st_size > 0


def test_unknown_urls_are_refused_without_showing_a_password() -> None:
    for bad in ("mysql://me:hunter2@host/db", "nonsense", "sqlite://", "postgresql://me:hunter2@host:x/db"):
        with pytest.raises(StoreError, match="accepted is postgresql://") as caught:
            Store(bad)
        assert "hunter2" not in str(caught.value)


def test_an_unreachable_server_is_a_sentence_without_the_password() -> None:
    with pytest.raises(StoreError, match="cannot be opened") as caught:
        Store("postgres://me:hunter2@127.0.0.1:1/runs")
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:sec@hunter2@127.0.0.1:1/runs",
        "postgresql://me:sec@hun/ter@hunter2/runs",
        "postgresql://127.0.0.1:1/runs?user=me&password=hunter2",
        "postgresql://me:hunter2@127.0.0.1:1/runs?sslpassword=hunter2&options=hunter2",
        "postgresql://me:hun%40hunter2@127.0.0.1:1/runs",
    ],
)
def test_no_part_of_a_password_is_shown_wherever_it_stands(url: str) -> None:
    with pytest.raises(StoreError) as caught:
        Store(url)
    assert "hunter2" not in str(caught.value)
    assert "127.0.0.1" in str(caught.value) or "as %40" in str(caught.value)


def test_without_the_driver_one_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)  # importing it now fails as if it were not there
    with pytest.raises(StoreError, match=r"psycopg\[binary\]") as caught:
        Store("postgresql://me:hunter2@host/runs")
    assert "hunter2" not in str(caught.value)


def test_a_file_that_is_no_database_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "runs.sqlite3"
    path.write_bytes(b"important notes " * 100)
    with pytest.raises(StoreError, match="no Breakeven database"):
        Store(f"sqlite:///{path}")
    assert path.read_bytes() == b"important notes " * 100


def test_a_folder_that_cannot_be_made_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("x")
    monkeypatch.setenv("BREAKEVEN_DATA_DIR", str(tmp_path / "file" / "data"))
    with pytest.raises(StoreError, match="BREAKEVEN_DATA_DIR"):
        Store()


def test_a_full_disk_is_a_sentence_and_loses_nothing(tmp_path: Path) -> None:
    """Set a page limit, which SQLite reports with the error of a full disk (SQLITE_FULL)."""
    store = Store(f"sqlite:///{tmp_path / 'runs.sqlite3'}")
    kept = make_run(seed=1, **SMALL)
    store.add(kept)
    with store._database.read() as db:
        pages = db.execute(text("PRAGMA page_count")).scalar()
        db.execute(text(f"PRAGMA max_page_count = {pages}"))
    with pytest.raises(StoreError, match="is full"):
        store.add(make_run(seed=2))
    assert [s.id for s in store.summaries()] == [kept.id]
    assert store.load(kept.id) == kept
    store.close()


def test_a_read_only_folder_is_a_sentence_and_loses_nothing() -> None:
    """Run a child that gives up root, for whom no folder is read-only, after loading all modules."""
    code = (
        "import os, sys; from core.store import Store, StoreError; Store().close()\n"
        "if os.geteuid() == 0: os.setgid(65534); os.setuid(65534)\n"
        "try: Store(sys.argv[1]).rename(sys.argv[2], 'x')\n"
        "except StoreError as error: print(error)"
    )
    with tempfile.TemporaryDirectory() as folder:
        store = Store(f"sqlite:///{folder}/runs.sqlite3")
        run = make_run(**SMALL)
        store.add(run)
        store.close()
        content = Path(folder, "runs.sqlite3").read_bytes()
        Path(folder, "runs.sqlite3").chmod(0o444)
        Path(folder).chmod(0o555)
        child = subprocess.run(
            [sys.executable, "-c", code, f"sqlite:///{folder}/runs.sqlite3", run.id],
            cwd=ROOT,
            capture_output=True,
            text=True,
        )
        Path(folder).chmod(0o755)
        assert child.stderr == ""
        assert "BREAKEVEN_DATA_DIR" in child.stdout
        assert child.stdout.count("\n") == 1
        assert Path(folder, "runs.sqlite3").read_bytes() == content
        with sqlite3.connect(f"file:{folder}/runs.sqlite3?immutable=1", uri=True) as db:
            assert db.execute("SELECT id FROM runs").fetchall() == [(run.id,)]
