"""The Sweep page on a machine with a made-up GPU agrees with the command ``devices``."""

from pathlib import Path
from typing import Any

import pytest

from core.ui import machine
from simulated.made_up.inside import put_into_state
from simulated.made_up.states import REMARKABLE, STATES, UNUSABLE
from simulated.pages import open_page, text_of

DEVICES = machine.devices  # before the engine of tests replaces it


@pytest.mark.parametrize("name", STATES)
def test_the_sweep_page_says_what_is_wrong_in_every_state(
    name: str, engine: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert engine
    put_into_state(monkeypatch, tmp_path, name)
    machine._devices.clear()
    monkeypatch.setattr(machine, "devices", DEVICES)
    at = open_page()
    wrong = UNUSABLE | REMARKABLE
    assert {key for key, words in wrong.items() if words in text_of(at)} == {name} & wrong.keys()
    assert (at.selectbox(key="form_device_1").value == "gpu:0") == (name not in UNUSABLE)
