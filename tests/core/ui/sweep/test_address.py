"""The Sweep form in an address: every plan is restored, and no address breaks or runs anything."""

from typing import Any

import pytest

from core.base.schema import UserError
from core.networks.families import families, network_from_name
from core.rounds.plan import SweepPlan
from core.ui.sweep.draft import untouched
from core.ui.sweep.settings import FIELDS, MAX_VALUE, read, written
from core.workload.spec import Pipeline, Target, Workload, geometric_grid, parse_batches

MLP = network_from_name("784-512-512-10")
USUAL = untouched(Workload(network=MLP), (Target(threads=1), Target(threads=2)))


def plan(**changes: Any) -> SweepPlan:
    return SweepPlan.model_validate({name: getattr(USUAL, name) for name in SweepPlan.model_fields} | changes)


def test_a_plan_that_nobody_touched_leaves_the_address_as_it_is() -> None:
    assert written(USUAL, USUAL) == {}
    assert read({}, USUAL) == (USUAL, "")


@pytest.mark.parametrize(
    "changes",
    [
        {"workload": Workload(network=network_from_name("lenet5"), mode="infer", optimizer="sgd")},
        {
            "workload": Workload(network=network_from_name("gru-8x1-20x4-3"), lengths=((5, 3), (12, 2), (20, 1))),
            "targets": (Target(), Target(pad="longest")),
            "pipeline": Pipeline(kind="host"),
        },
        {"targets": (Target(),)},
        {"targets": (Target(device="gpu:0", precision="mixed_float16"), Target(execution="eager"), Target(threads=7))},
        {"batches": geometric_grid(3, 100)},
        {"batches": parse_batches("1, 7, 30")},
        {"batches": (64,)},
        {"pipeline": Pipeline(kind="host")},
        {"pipeline": Pipeline(kind="tfdata", prefetch="auto", parallel_calls=4, cache=True, shuffle=True)},
        {"pipeline": Pipeline(kind="tfdata", prefetch=2, preprocess_us=12.5, preprocess_python=True)},
        {"refine": False, "budget_s": 3600.0, "crossover_width": 0.5, "step_width": 0.01},
    ],
    ids=lambda changes: ",".join(changes),
)
def test_a_plan_comes_back_on_a_machine_that_proposes_something_else(changes: dict[str, Any]) -> None:
    elsewhere = untouched(Workload(network=MLP), (Target(), Target(device="gpu:0")))
    query = written(plan(**changes), USUAL, "My run & <b>more</b>")
    assert set(query) <= set(FIELDS)
    assert read(query, elsewhere) == (plan(**changes), "My run & <b>more</b>")


@pytest.mark.parametrize("name", [name for kind in families().values() for name in kind.presets])
def test_every_preset_comes_back(name: str) -> None:
    other = plan(workload=Workload(network=network_from_name(name)), batches=(1, 2))
    assert read(written(other, USUAL), USUAL)[0] == other


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ({"network": ["<script>alert(1)</script>"]}, "is no network of any family"),
        ({"network": ["784-9999999-10"]}, "at most"),
        ({"mode": ["destroy"]}, "mode"),
        ({"optimizer": [""]}, "optimizer"),
        ({"target": ["cpu,python=/bin/sh"]}, "names a program to run"),
        ({"target": ["cpu", "cpu"]}, "choose targets that differ"),
        ({"target": ["cpu,threads=1"] * 7}, "targets"),
        ({"target": ["npu"]}, "npu"),
        ({"batches": ["1:1e99"]}, "are not understood"),
        ({"batches": ["9" * 500]}, "accepted are 1 to 65,536"),
        ({"input": ["tfdata,data=/etc/passwd"]}, "says nothing about an input pipeline"),
        ({"input": ["tfdata,prefetch=a"]}, "no number"),
        ({"input": ["host,cache=yes"]}, "with the tfdata pipeline only"),
        ({"input": ["tfdata,parallel_calls=1.5"]}, "parallel_calls"),
        ({"refine": ["maybe"]}, "accepted are yes and no"),
        ({"budget": ["nan"]}, "budget_s"),
        ({"budget": ["1e400"]}, "budget_s"),
        ({"step_width": ["-1"]}, "step_width"),
        ({"budget": ["30", "60"]}, "more than once"),
        ({"name": ["x" * (MAX_VALUE + 1)]}, "too long"),
        ({"name": ["a\x00b"]}, "cannot be shown"),
    ],
    ids=str,
)
def test_what_an_address_cannot_say_is_refused_in_words(query: dict[str, list[str]], words: str) -> None:
    with pytest.raises(UserError) as refused:
        read(query, USUAL)
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)


def test_what_is_no_setting_is_left_alone() -> None:
    assert read({"python": ["/bin/sh"], "gpu": ["T4"], "run": ["x"]}, USUAL) == (USUAL, "")
