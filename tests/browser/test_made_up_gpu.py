"""A made-up GPU (simulated/made_up) from the command or the button to the page. Nothing here was measured."""

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from simulated.made_up.states import ROOT, STATES, environment
from tests.support.browser import PATIENCE_MS, choose, expect, go, settle

pytestmark = pytest.mark.browser
OpenTab = Callable[..., Any]
SECOND = "Device, target 2"


def sweep(state: str, folder: Path) -> None:
    """Run a real sweep of few batches, stored in the folder."""
    command = [sys.executable, "-m", "core", "sweep", "--preset", "784-128-10", "--targets", *STATES[state].targets,
               "--batches", "8,512", "--no-refine", "--budget", "30"]  # fmt: skip
    variables = environment(state, folder)
    done = subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stderr


def test_a_sweep_of_the_made_up_gpu_from_the_button_to_its_trace(
    tmp_path: Path, serve: Callable[..., Any], open_tab: OpenTab
) -> None:
    with serve(tmp_path, studies=False, variables=environment("good", tmp_path)) as address:
        page = open_tab(f"{address}/sweep?batches=8,512&budget=30&target=cpu&target=gpu:0")
        expect(page.get_by_role("combobox", name=SECOND)).to_have_value("GPU 0 · Made-up GPU (simulated)")
        expect(page.get_by_text("at most 30 s").first).to_be_visible()
        page.get_by_role("button", name="Measure this machine").click()
        cancel = page.get_by_role("button", name="Cancel")
        expect(cancel).to_be_visible()
        expect(cancel).to_have_count(0, timeout=2 * PATIENCE_MS)  # otherwise the page would lead to the stored run
        expect(page.get_by_text(re.compile("Made-up CPU .*Made-up GPU")).first).to_be_visible()
        go(page, "Overhead")
        expect(page.get_by_text(re.compile("the device computes during"))).to_be_visible()
        settle(page)
        assert page.locator("[data-testid=stException]").count() == 0


def test_a_gpu_without_cupti_is_measured_and_why_it_cannot_be_traced_is_said(
    tmp_path: Path, serve: Callable[..., Any], open_tab: OpenTab
) -> None:
    sweep("no_cupti", tmp_path)
    with serve(tmp_path, studies=False, variables=environment("no_cupti", tmp_path)) as address:
        page = open_tab(address)
        expect(page.get_by_text(re.compile("GPU 0: XLA, as Keras chooses by default")).first).to_be_visible()
        expect(page.get_by_text(re.compile("could not be traced.*CUPTI")).first).to_be_visible()
        go(page, "Overhead")
        expect(page.get_by_text("Where a step goes", exact=True)).to_be_visible()
        assert page.get_by_text("the device computes during").count() == 0  # a trace of the host is not one of the GPU
        assert page.locator("[data-testid=stException]").count() == 0


def test_a_gpu_that_is_too_new_is_named_not_proposed_and_refused(
    tmp_path: Path, serve: Callable[..., Any], open_tab: OpenTab
) -> None:
    with serve(tmp_path, studies=False, variables=environment("blackwell", tmp_path)) as address:
        page = open_tab(f"{address}/sweep")
        told = page.get_by_text(re.compile("compute capability 12.0, newer than all code"))
        expect(told).to_have_count(1)
        device = page.get_by_role("combobox", name=SECOND)
        expect(device).to_have_value("CPU")
        choose(page, device, "cannot be used")
        expect(device).to_have_value("GPU 0 · Made-up GPU (simulated) (cannot be used)")
        expect(page.get_by_text(re.compile("against GPU 0"))).to_be_visible()  # the plan that the button starts
        settle(page)
        page.get_by_role("button", name="Measure this machine").click()
        expect(told).to_have_count(2)
        assert not list(tmp_path.glob("activity-*"))  # left by a worker
