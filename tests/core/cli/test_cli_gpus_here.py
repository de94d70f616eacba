"""Messages of the commands about this machine's GPUs, and the immediate refusal of a plan for an unusable one."""

import pytest

from core.workload.spec import Target
from simulated.commands import Command, as_json, done, holds, refused
from simulated.fake_nvml import FakeCard
from simulated.simulation import Machine
from tests.support.gpus import BLACKWELL, plug_in

SWEEP = ("sweep", "--preset", "784-128-10", "--batches", "1,8", "--budget", "20", "--no-trace", "--no-store")
PLANS = {
    "sweep": (*SWEEP, "--targets", "cpu", "gpu:1"),
    "pipeline": ("pipeline", "--preset", "784-128-10", "--target", "gpu:1", "--budget", "30", "--no-store"),
    "frontier": ("frontier", "--targets", "cpu", "gpu:1", "--budget", "60", "--no-store"),
    "memory": ("memory", "--preset", "784-128-10", "--target", "gpu:1", "--limit", "4GB", "--no-store"),
}


def test_a_card_newer_than_tensorflow_is_not_ready(cli: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    plug_in(monkeypatch, BLACKWELL)
    out, _ = done(cli("devices"))
    holds(out, "gpu:0  NVIDIA GeForce", "driver 570.86.15; cannot", "capability 12.0", "(up to 9.0)")
    assert "against gpu" not in out
    data = as_json(cli("devices", "--json"))
    assert not any(Target.parse(text).is_gpu for text in data["default_targets"])
    assert [(note["code"], note["severity"], note["target"]) for note in data["notes"]] == [
        ("too_new", "unusable", "gpu:0")
    ]
    assert data["notes"][0]["sentence"] in data["advice"]
    assert {"cpu", "gpus", "tensorflow", "cuda_packages", "usable_cores", "probe"} <= set(data)


def test_a_good_card_is_proposed_and_what_limits_it_is_said(cli: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    plug_in(monkeypatch, FakeCard("NVIDIA L4", memory_used=8 * 2**30), BLACKWELL)
    out, _ = done(cli("devices"))
    holds(out, "cpu against gpu:0", "has 8.59 GB", "gpu:1  NVIDIA GeForce", "driver 570.86.15; cannot")


@pytest.mark.parametrize("command", PLANS)
def test_a_gpu_that_cannot_be_used_is_refused_before_anything_starts(
    cli: Command, machine: Machine, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    plug_in(monkeypatch, FakeCard(), BLACKWELL)
    said = refused(cli(*PLANS[command]))
    holds(said, "gpu:1 (NVIDIA", "capability 12.0")
    assert machine.starts == 0


def test_what_only_limits_a_gpu_is_said_and_it_is_measured(
    cli: Command, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    plug_in(monkeypatch, FakeCard(memory_used=8 * 2**30), BLACKWELL)
    out, err = done(cli(*SWEEP, "--targets", "cpu", "gpu:0"))
    assert machine.starts > 0
    assert "of other programs" in err
    assert "faster" in out or "Not clear" in out


def test_the_second_cards_tf32_is_said_before_it_is_measured(
    cli: Command, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check the message from NVML's facts, and its absence if TF32 is switched off or the card lacks it."""
    plug_in(monkeypatch, FakeCard("NVIDIA Tesla T4", capability=(7, 5)), FakeCard("NVIDIA L4", capability=(8, 9)))
    said = {}
    for target in ("gpu:0", "gpu:1", "gpu:1,precision=float32_strict"):
        _, err = done(cli(*SWEEP, "--targets", "cpu", target))
        said[target] = next(line for line in err.splitlines() if line.startswith(f"{target}: XLA, as Keras chooses"))
    assert machine.starts > 0
    assert ["(TF32)" in line for line in said.values()] == [False, True, False]
