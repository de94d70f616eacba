"""``memory``: a whole study on simulated workers, its text and JSON, what it stores and learns, and refusals."""

import json

import pytest

from core.base.evidence import Gpu
from core.store import Store
from core.studies.memory.record import MemoryStudy, default_limit_bytes, parse_bytes
from core.workload.spec import Target
from simulated.commands import Command, as_json, done, holds, refused
from simulated.memories import GB, MemoryMachine

pytestmark = pytest.mark.usefixtures("limited")
SHORT = ("memory", "--preset", "784-512-512-10", "--target", "cpu", "--limit", "1.2GB", "--budget", 200)


def test_verdict_table_parts_and_label(cli: Command) -> None:
    out, err = done(cli(*SHORT))
    lines = out.splitlines()
    assert "within 1.2 GB" in lines[0]
    assert lines[1].startswith("Predicted: batch ")
    assert "near the limit" in lines[2]
    assert any(line.rstrip().endswith("out of memory") for line in lines)
    assert any(line.startswith("Predicted parts") and "framework 650 MB" in line for line in lines)
    assert any(line.startswith("Peaks are measured") for line in lines)
    holds(err, "Trying batch ", "the model alone")


def test_json_has_exactly_the_promised_keys(cli: Command) -> None:
    data = as_json(cli(*SHORT, "--json"))
    assert list(data) == [
        "verdict", "label", "target", "limit_bytes", "largest_fitted", "smallest_ran_out", "predicted", "parts_batch",
        "parts", "curve", "wrong_fits", "record",
    ]  # fmt: skip
    assert data["predicted"]["label"] == "predicted"
    assert data["largest_fitted"] <= 26_000 < data["smallest_ran_out"]
    assert MemoryStudy.model_validate(data["record"]).largest_fitted == data["largest_fitted"]


def test_earlier_studies_are_learnt_from_and_broken_ones_left_out(cli: Command) -> None:
    store = Store()
    cli(*SHORT)
    _, out, err = cli(*SHORT, "--json")
    assert "of this one" in err
    assert json.loads(out)["wrong_fits"]["n_predicted_fits"] >= 2
    broken = MemoryStudy.model_validate(json.loads(out)["record"]).model_copy(update={"probes": "none"})
    store.add_study("memory", "20260105-broken", broken)
    assert cli(*SHORT)[0] == 0
    store.close()


def test_the_default_limit_is_most_of_what_is_free(cli: Command, limited: MemoryMachine) -> None:
    limited.free_bytes = 2 * GB
    _, out, _ = cli("memory", "--preset", "784-512-512-10", "--target", "cpu", "--budget", 20, "--json")
    assert json.loads(out)["limit_bytes"] == 1_800_000_000
    gpu = Target(device="gpu:0")
    assert default_limit_bytes(gpu, GB, (Gpu(name="card", memory_bytes=24 * GB),)) == 22_480_000_000
    assert default_limit_bytes(gpu, GB, ()) is None


def test_a_card_of_unknown_size_needs_a_limit(cli: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("core.cli.memory.default_limit_bytes", lambda *_: None)
    message = refused(cli("memory", "--preset", "784-512-512-10", "--target", "gpu:0"))
    assert "with --limit" in message


@pytest.mark.parametrize(
    ("text", "size"), [("4GB", 4 * GB), ("1.5 gb", 1_500_000_000), ("800MB", 800_000_000), ("2GiB", 2**31)]
)
def test_limits_are_read(text: str, size: int) -> None:
    assert parse_bytes(text) == size
