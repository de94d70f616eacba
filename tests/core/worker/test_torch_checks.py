"""Checks of PyTorch's compiler and placement, in one process with PyTorch and made-up records of it."""

import importlib.util
from typing import Any

import pytest

from tests.support.framework import answered

pytestmark = [
    pytest.mark.tensorflow,
    pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed"),
]

SCRIPT = """
import json
from collections import Counter
from types import SimpleNamespace
import torch
from core.worker.protocol import CellFailed
from core.worker.torch import compiled, placement
from core.worker.torch.device import Device

said = {}

def note(name, call):
    try:
        found = call()
        said[name] = "fine" if found is None else list(found.summary)
    except CellFailed as failure:
        said[name] = f"{failure.outcome}: {failure.reason}"

def judged(name, graphs=1, metrics=(), breaks=(), skips=0, allowed=(), replayed=False, what=None):
    compiled.begin()
    whole = dict(fail_type=None, fail_reason=None, shape_env_guard_count=0, co_name="forward")
    made = [SimpleNamespace(**(whole | each)) for each in metrics]
    compiled.dynamo_utils.get_compilation_metrics = lambda: made
    counters = compiled.dynamo_utils.counters
    counters["stats"]["unique_graphs"] = graphs
    counters["graph_break"].update(dict.fromkeys(breaks, 1))
    counters["inductor"]["cudagraph_skips"] = skips
    note(name, lambda: compiled.check(what or name, allowed, replayed))

backward = compiled.BACKWARD + "\\n  Explanation: it is so"
judged("whole", metrics=[{}])
judged("nothing", graphs=0)
judged("whole again", graphs=0, what="whole")
judged("eager", metrics=[{}, dict(fail_type="Unsupported", fail_reason="cannot\\n trace", co_name="inner")])
judged("dynamic", metrics=[dict(shape_env_guard_count=2)])
judged("backward", breaks=[backward], allowed=(compiled.BACKWARD,))
judged("backward not allowed", breaks=[backward])
judged("another break", breaks=[backward, "Tensor.item()"], allowed=(compiled.BACKWARD,))
judged("graphs skipped", skips=1, replayed=True)
judged("graphs skipped, not asked for", skips=1)
compiled.dynamo_utils.get_compilation_metrics = lambda: []
note("settled", compiled.check_settled)
compiled.dynamo_utils.get_compilation_metrics = lambda: [1]
note("compiled again", compiled.check_settled)

cpu = Device("cpu", "CPU:0", "", lambda: None)
gpu = Device("cuda:0", "GPU:0", "", lambda: None)
here, nowhere = torch.ones(2, 2), torch.ones(2, 2, device="meta")
note("here", lambda: placement.verify(cpu, {"Weights": [here]}, placement.watch_step(lambda: here @ here)))
note("compiled here", lambda: placement.verify(cpu, {"Weights": [here]}, None, "torch.compile"))
note("stray", lambda: placement.verify(cpu, {"Weights": iter([here, nowhere])}, None, "torch.compile"))
both = Counter({("cuda", "mm"): 2, ("cpu", "add"): 1})
note("scalar", lambda: placement.verify(gpu, {"State": [torch.tensor(1.0)]}, both))
note("heavy", lambda: placement.verify(gpu, {}, Counter({("cuda", "add"): 2, ("cpu", "addmm"): 1})))
note("idle", lambda: placement.verify(gpu, {}, Counter({("cpu", "add"): 1})))
print(json.dumps(said))
"""


@pytest.fixture(scope="module")
def said() -> Any:
    return answered("-c", SCRIPT)


@pytest.mark.parametrize("name", ["whole", "whole again", "backward", "graphs skipped, not asked for", "settled"])
def test_whole_graphs_of_fixed_shapes_pass(said: Any, name: str) -> None:
    assert said[name] == "fine"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("nothing", "compiled nothing of this step"),
        ("eager", "left inner eager: cannot;"),
        ("dynamic", "for batches of any size"),
        (
            "backward not allowed",
            "broke this step's graph and ran the rest eagerly: Unsupported Tensor.backward() call;",
        ),
        ("another break", "Tensor.item()"),
        ("graphs skipped", "left 1 of this step's graphs out of CUDA graphs"),
        ("compiled again", "amid measured steps"),
    ],
)
def test_what_is_not_compiled_whole_is_an_error(said: Any, name: str, words: str) -> None:
    assert said[name].startswith("error: torch.compile ")
    assert words in said[name]


def test_where_a_step_ran_is_verified(said: Any) -> None:
    assert said["here"] == ["CPU:0 (1 operations)"]
    assert said["compiled here"] == ["CPU:0 (program compiled by torch.compile)"]
    assert said["stray"] == "misplaced: Weights lie on meta, not on cpu."
    assert said["scalar"] == ["CPU:0 (1 operations)", "GPU:0 (2 operations)"]
    assert said["heavy"] == "misplaced: addmm ran on another device than cuda:0."
    assert said["idle"] == "misplaced: No operation of the step ran on cuda:0."
