"""The difference of int8 outputs from float32 is shown wherever the speed is shown."""

import csv
import io
from typing import Any

import pytest

from core.base.evidence import OutputDifference, Setup
from core.networks.families.code import Code
from core.rounds.answer.analyse import analyse
from core.rounds.answer.reliability import output_difference_lines
from core.rounds.run import Run
from core.rounds.show.export import cell_rows, cells_csv, run_json, verdict_text
from core.rounds.show.imports import read_run
from core.rounds.show.report import html_report
from core.ui.tables import cells_table
from core.workload.spec import Target, Workload
from simulated.runs import make_run

DIFFERS = OutputDifference(samples=128, largest=0.0213, mean=0.0042, agreeing=0.98, quantised="all 3 operations")
LINE = (
    "LiteRT, int8: its outputs differ from those in float32 by 0.42 % of their range on average, 2.1 % at most, and "
    "choose the same class for 98 % of 128 samples. In int8: all 3 operations. The weights are random; trained weights "
    "may differ."
)


def int8_run(**int8: Any) -> Run:
    """Return a run of int8, LiteRT's or another's, whose largest batch differs less, against an unrecorded float32."""
    run = make_run()
    targets = (Target(precision="int8", **{"framework": "litert", **int8}), Target(threads=1))
    plan = run.plan.model_copy(update={"targets": targets, "workload": Workload(network="784-128-10", mode="infer")})
    less = DIFFERS.model_copy(update={"largest": 0.01, "agreeing": 1.0})
    last = max(setup.batch for setup in run.setups)
    setups = tuple(
        setup.model_copy(update={"output_difference": less if setup.batch == last else DIFFERS})
        if setup.target == 0
        else setup
        for setup in run.setups
    )
    return run.model_copy(update={"plan": plan, "target_names": plan.target_names, "setups": setups})


def test_the_worst_is_said_in_the_text_and_the_report() -> None:
    run = int8_run()
    assert output_difference_lines(run) == (LINE,)
    assert LINE in verdict_text(run, analyse(run))
    assert LINE in html_report(run, analyse(run))


def test_every_cell_has_its_own() -> None:
    run = int8_run()
    rows = cell_rows(run, analyse(run))
    assert {row.output_difference_largest for row in rows if row.target == run.target_names[0]} == {0.0213, 0.01}
    assert {row.same_class_share for row in rows if row.target == run.target_names[1]} == {None}
    first = next(csv.DictReader(io.StringIO(cells_csv(run, analyse(run)))))
    assert (first["output_difference_mean"], first["same_class_share"]) == ("0.0042", "0.98")


def test_the_table_of_cells_has_it_in_percent() -> None:
    run = int8_run()
    table = cells_table(run, analyse(run))
    assert table["difference_pct"][0] == pytest.approx(0.42)
    assert table["largest_difference_pct"][0] == pytest.approx(2.13)
    assert table["same_class_pct"][0] == pytest.approx(98)
    plain = cells_table(make_run(), analyse(make_run()))
    assert plain[["difference_pct", "same_class_pct"]].isna().all(axis=None), "columns of nothing, which are not shown"


def test_it_comes_back_from_json_and_runs_without_it_stay_as_they_were() -> None:
    run = int8_run()
    assert read_run(run_json(run).encode(), "run.json") == run
    assert "output_difference" not in run_json(make_run())
    assert output_difference_lines(make_run()) == ()


def test_weights_of_the_users_own_function_are_not_called_random() -> None:
    run = int8_run()
    code = Code.model_construct(**(dict.fromkeys(Code.model_fields) | {"family": "code"}))
    workload = run.plan.workload.model_copy(update={"network": code})
    run = run.model_copy(update={"plan": run.plan.model_copy(update={"workload": workload})})
    assert "of your function" in output_difference_lines(run)[0]


@pytest.mark.parametrize("field", ["largest", "mean", "agreeing", "samples"])
def test_a_file_with_an_impossible_difference_is_refused(field: str) -> None:
    setup = int8_run().setups[0].model_dump() | {"output_difference": DIFFERS.model_dump() | {field: -1}}
    with pytest.raises(ValueError, match=field):
        Setup.model_validate(setup)


@pytest.mark.parametrize(
    ("int8", "why"),
    [
        ({"framework": "tensorflow"}, "and TensorFlow has no fast product of int8 matrices on the CPU."),
        ({"framework": "torch"}, "and Keras on PyTorch has no fast product of int8 matrices on the CPU."),
        ({"framework": "jax"}, "is often slower: every step scales and rounds what enters each of these layers."),
        (
            {"framework": "tensorflow", "execution": "xla"},
            "every step scales and rounds what enters each of these layers.",
        ),
        ({"framework": "litert"}, "In int8: all 3 operations."),
    ],
)
def test_keras_own_int8_says_why_it_is_often_slower(int8: dict[str, Any], why: str) -> None:
    run = int8_run(**int8)
    assert why in output_difference_lines(run)[0]
