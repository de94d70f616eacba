"""``memory``: a whole study on simulated workers, its text and JSON, what it keeps and learns, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from core.memory_study import MemoryStudy, default_limit_bytes, parse_bytes
from core.results import Gpu
from core.spec import Target
from core.store import Store
from tests.support.commands import Command, refused
from tests.support.memories import GB, MemoryMachine, linear

pytestmark = pytest.mark.usefixtures("limited")
SHORT = ("memory", "--preset", "784-512-512-10", "--target", "cpu", "--limit", "1.2GB", "--budget", 200)


@pytest.fixture
def limited(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> MemoryMachine:
    """Simulated workers that keep a limit; 26,000 samples fit into 1.2 GB."""
    machine = MemoryMachine(linear(30e6, 20e3))
    monkeypatch.setenv("BREAKEVEN_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setattr("core.measure.process.launch_processes", machine.launch)
    monkeypatch.setattr("core.measure.memory_study.available_memory_bytes", machine.available_bytes)
    monkeypatch.setattr("core.cli.memory.available_memory_bytes", machine.available_bytes)
    monkeypatch.setattr("core.measure.clock.WallClock", lambda: machine.clock)
    return machine


def test_verdict_table_parts_and_label(cli: Command) -> None:
    status, out, err = cli(*SHORT)
    assert status == 0
    lines = out.splitlines()
    assert "fits within 1.2 GB on cpu and " in lines[0]
    assert lines[1].startswith("Predicted: batch ")
    assert "tests near the limit" in lines[2]
    assert any(line.rstrip().endswith("out of memory") for line in lines)
    assert any(line.startswith("Predicted parts at batch ") and "framework 650.0 MB" in line for line in lines)
    assert any(line.startswith("Peaks are measured, of a whole worker process, TensorFlow included") for line in lines)
    assert "Trying batch " in err
    assert "Predicted from the model alone" in err


def test_json_and_file_hold_the_same_object_and_the_record_reads_back(cli: Command, tmp_path: Path) -> None:
    out_file = tmp_path / "memory.json"
    status, out, _ = cli(*SHORT, "--json", "--out", out_file)
    data = json.loads(out)
    assert status == 0
    assert json.loads(out_file.read_text()) == data
    assert list(data) == [
        "verdict", "label", "target", "limit_bytes", "largest_fitted", "smallest_ran_out", "predicted", "parts_batch",
        "parts", "curve", "wrong_fits", "record",
    ]  # fmt: skip
    assert data["predicted"]["label"] == "predicted"
    assert data["largest_fitted"] <= 26_000 < data["smallest_ran_out"]
    assert MemoryStudy.model_validate(data["record"]).largest_fitted == data["largest_fitted"]


def test_studies_are_kept_and_learnt_from_unless_not_wanted(cli: Command) -> None:
    cli(*SHORT, "--no-store")
    store = Store()
    assert store.studies("memory") == ()
    cli(*SHORT)
    assert len(store.studies("memory")) == 1
    _, out, err = cli(*SHORT, "--json")
    assert "of them of this one" in err
    assert json.loads(out)["wrong_fits"]["n_predicted_fits"] >= 2
    store.add_study("memory", "20260105-broken", None, "{}")
    assert cli(*SHORT)[0] == 0
    store.close()


def test_more_than_is_free_is_one_sentence_and_status_1(cli: Command, limited: MemoryMachine) -> None:
    limited.free_bytes = GB
    status, out, err = cli(*SHORT)
    assert (status, out) == (1, "")
    assert "only 1.00 GB are free now" in err.splitlines()[-1]
    assert limited.tried == []


def test_the_default_limit_is_most_of_what_is_free(cli: Command, limited: MemoryMachine) -> None:
    limited.free_bytes = 2 * GB
    _, out, _ = cli("memory", "--preset", "784-512-512-10", "--target", "cpu", "--budget", 20, "--json")
    assert json.loads(out)["limit_bytes"] == 1_800_000_000
    gpu = Target(device="gpu:0")
    assert default_limit_bytes(gpu, GB, (Gpu(name="card", memory_bytes=24 * GB),)) == 22_480_000_000
    assert default_limit_bytes(gpu, GB, ()) is None


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (("--limit", "lots"), "The limit “lots” is not understood"),
        (("--limit", "4"), "is not understood"),
        (("--limit", "1MB"), "accepted are 100MB"),
        (("--budget", 1), "greater than or equal to 2"),
        (("--target", "tpu"), "device “tpu” is unknown"),
        (("--preset", "9-9"), "9-9"),
        (("--out", "/nowhere/memory.json"), "cannot be written"),
    ],
)
def test_what_is_wrong_gets_one_sentence_and_status_2(cli: Command, flags: tuple[object, ...], sentence: str) -> None:
    assert sentence in refused(cli(*SHORT, *flags))


def test_a_card_of_unknown_size_needs_a_limit(cli: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("core.cli.memory.default_limit_bytes", lambda *_: None)
    message = refused(cli("memory", "--preset", "784-512-512-10", "--target", "gpu:0"))
    assert "say it with --limit" in message


@pytest.mark.parametrize(
    ("text", "size"), [("4GB", 4 * GB), ("1.5 gb", 1_500_000_000), ("800MB", 800_000_000), ("2GiB", 2**31)]
)
def test_limits_are_read(text: str, size: int) -> None:
    assert parse_bytes(text) == size
