"""From a form to a plan: every wrong field has its sentence, a valid one is in the plan."""

from typing import Any

import pytest

from core.networks.families import network_from_name
from core.ui.sweep.draft import build

PLENTY = 64_000_000_000
GOOD: dict[str, Any] = dict(
    family="mlp", preset="784-128-10", sizes={}, mode="train", optimizer="adam",
    targets=({"device": "cpu", "threads": 1}, {"device": "gpu:0", "execution": "xla"}), batches=("range", 1, 64),
    refine=False, pipeline={"kind": "host"}, budget_s=30.0, crossover_width=40.0,
    step_width=5.0,
)  # fmt: skip
SIZES: dict[str, int | None] = {"depth": 2, "width": 64, "inputs": 20, "classes": 1}


def test_a_good_draft_becomes_its_plan() -> None:
    outcome = build(GOOD, PLENTY)
    assert outcome.errors == {}
    assert outcome.plan.target_names == ("cpu,threads=1", "gpu:0,execution=xla")
    assert outcome.plan.batches == (1, 2, 4, 8, 16, 32, 64)
    assert (outcome.plan.refine, outcome.plan.pipeline.kind) == (False, "host")
    assert (outcome.plan.crossover_width, outcome.plan.step_width) == (0.4, 0.05)


def test_own_sizes_become_a_network() -> None:
    outcome = build(GOOD | dict(preset=None, sizes=SIZES), PLENTY)
    assert outcome.workload.network.name == "20-64-64-1"


def test_a_network_read_from_a_file_is_the_network() -> None:
    read = network_from_name("lenet5")
    outcome = build(GOOD | dict(family="own", preset=None, architecture=read), PLENTY)
    assert outcome.plan.workload.network == read


@pytest.mark.parametrize(
    ("change", "field", "words"),
    [
        ({"preset": None, "sizes": {**SIZES, "width": 7}}, "size width", "accepted are 8 to 16,384"),
        ({"preset": None, "sizes": {**SIZES, "depth": None}}, "size depth", "is empty"),
        ({"preset": "1-2"}, "workload", "no multi-layer perceptron"),
        ({"family": "own", "preset": None}, "workload", "Choose a file"),
        ({"family": "own", "preset": None, "architecture": "Layer 3 is odd."}, "workload", "Layer 3 is odd."),
        ({"targets": ({"device": "npu"}, {"device": "cpu"})}, "target 0", "accepted are cpu, gpu:0"),
        ({"targets": ({"device": "cpu"}, {"device": "cpu"})}, "targets", "choose targets that differ"),
        ({"targets": ({}, {"execution": "graph"})}, "targets", "come to the same for this network"),
        ({"targets": ({}, {"framework": "litert"})}, "target 1", "LiteRT does not train; choose inference"),
        ({"targets": ({"precision": "int8"},)}, "target 0", "int8 is for inference"),
        ({"targets": ({}, {"framework": "jax", "steps_per_execution": 8})}, "target 1", "is for framework=tensorflow"),
        ({"targets": ({}, {"call": "predict"})}, "target 1", "is for inference"),
        (
            {"mode": "infer", "targets": ({}, {"call": "predict"}), "pipeline": {"kind": "resident"}},
            "target 1",
            "the host pipeline",
        ),
        ({"batches": ("range", 8, 4)}, "batches", "must rise"),
        ({"batches": ("range", None, 4)}, "low", "The smallest batch must lie between 1 and 65,536."),
        ({"batches": ("list", "1, x")}, "batches", "write a range such as"),
        ({"batches": ("list", "0")}, "batches", "accepted are 1 to 65,536"),
        ({"pipeline": {"kind": "tfdata", "parallel_calls": 0}}, "parallel_calls", "must lie between 1 and 256"),
        ({"pipeline": {"kind": "tfdata", "preprocess_us": -1.0}}, "preprocess_us", "must lie between 0 and"),
        ({"budget_s": 1.0}, "budget_s", "between 2 and 86,400 seconds"),
        ({"step_width": 101.0}, "step_width", "at most 100 %"),
        ({"crossover_width": 401.0}, "crossover_width", "at most 400 %"),
        ({"crossover_width": None}, "crossover_width", "above 0"),
    ],
)
def test_each_wrong_field_has_its_sentence(change: dict[str, Any], field: str, words: str) -> None:
    outcome = build(GOOD | change, PLENTY)
    assert outcome.plan is None
    assert list(outcome.errors) == [field]
    assert words in outcome.errors[field]


@pytest.mark.parametrize("count", [1, 2, 3, 6])
def test_one_to_six_targets_become_the_plan(count: int) -> None:
    outcome = build(GOOD | dict(targets=tuple({"threads": index + 1} for index in range(count))), PLENTY)
    assert outcome.plan.targets == outcome.targets
    assert len(outcome.targets) == count


def test_what_is_not_installed_is_refused_at_its_target_with_the_command() -> None:
    targets = ({}, {"framework": "torch"}, {"framework": "jax"})
    outcome = build(GOOD | dict(targets=targets), PLENTY, missing={"jax": "JAX is not installed here; run “x”."})
    assert outcome.plan is None
    assert outcome.errors == {"target 2": "JAX is not installed here; run “x”."}
    assert [target.framework for target in outcome.targets] == ["tensorflow", "torch", "jax"]


def test_what_cannot_fit_is_refused_before_it_runs() -> None:
    assert "GB" in build(GOOD, 1_000_000).errors["memory"]


def test_every_wrong_field_is_named_at_once() -> None:
    sizes = {**SIZES, "width": 7, "depth": None}
    wrong = {"budget_s": 0.0, "step_width": 0.0, "batches": ("range", 0, 70_000), "preset": None, "sizes": sizes}
    outcome = build(GOOD | wrong, PLENTY)
    assert set(outcome.errors) == {"size depth", "size width", "budget_s", "step_width", "low", "high"}
