"""``check`` between two real environments, one of which makes Keras's training step slower by a known time."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from simulated.commands import Command
from simulated.environments import environment

PLANTED_MS = 12.0  # a step after a pause takes about 1 ms more than one in a row


@pytest.mark.tensorflow
@pytest.mark.skipif(os.name != "posix", reason="the environments here are links")
def test_a_planted_slowdown_is_measured_and_a_control_is_not_slower(cli: Command, tmp_path: Path) -> None:
    old, new = environment(tmp_path / "old"), environment(tmp_path / "new", PLANTED_MS, "99.1.0")
    flags = ("check", "--preset", "784-128-10", "--target", "cpu", "--batches", "32", "--json")
    sides = ("--python", old, "--against-python", new)
    status, out, _ = cli(*flags, "--budget", "60", *sides)
    data = json.loads(out)
    if data["verdict"] == "inconclusive":  # on a slow machine 60 s are not three starts: the check names what settles
        status, out, _ = cli(*flags, "--budget", str(data["settles_s"]), *sides)
        data = json.loads(out)
    (batch,) = data["batches"]
    assert (status, data["verdict"]) == (1, "slower"), data["batches"]
    assert batch["step_ms"] - batch["baseline_ms"] == pytest.approx(PLANTED_MS, rel=0.25)
    assert "keras 99.1.0" in data["record"]["plan"]["sides"][1]["title"]
    status, out, _ = cli(*flags, "--budget", "25", "--python", old, "--against-python", old)
    assert (status, json.loads(out)["verdict"]) in ((0, "unchanged"), (3, "inconclusive"))
