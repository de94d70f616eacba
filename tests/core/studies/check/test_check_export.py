"""Formats for other programs: the JSON's fields, Bencher Metric Format, asv's files."""

import json
import math

import pytest

from core.base.evidence import Outcome
from core.base.schema import UserError
from core.base.text import json_text
from core.rounds.run import Cell
from core.studies.check.answer import check_answer
from core.studies.check.export import LIST, asv_files, bencher_data, check_data
from simulated.checks import NEW, OLD, made

RATIOS = (1.0, 1.02, 0.98, 1.01)
NAME = "784-128-10 train cpu"


def test_fields() -> None:
    record = made({8: RATIOS, 64: RATIOS})
    data = json.loads(json_text(check_data(record, check_answer(record))))
    assert list(data) == [
        "verdict", "ratio", "low", "high", "max_slowdown", "settles_s", "sentence", "baseline", "target", "network",
        "batches", "notes", "record",
    ]  # fmt: skip
    assert list(data["batches"][0]) == [
        "batch", "verdict", "ratio", "low", "high", "baseline_ms", "step_ms", "processes", "reason",
    ]  # fmt: skip
    assert data["record"]["plan"]["sides"][0]["title"] == OLD.title


def test_bencher() -> None:
    record = made({8: RATIOS})
    answer = check_answer(record)
    found = bencher_data(record, answer)
    one = answer.batches[0]
    assert found == {
        f"{NAME} batch 8": {
            "latency": {"value": pytest.approx(2e6, rel=0.03)},
            "slowdown": {"value": one.ratio, "lower_value": one.low, "upper_value": one.high},
        }
    }


def test_a_batch_without_a_comparison_is_left_out_for_bencher() -> None:
    outcome: Outcome = "nan_loss"
    failed = Cell(target=1, batch=64, outcome=outcome, reason="The loss is NaN.")
    record = made({8: RATIOS, 64: (math.nan,)}, cells=(failed,))
    assert list(bencher_data(record, check_answer(record))) == [f"{NAME} batch 8"]


def test_asv_has_a_file_for_each_commit() -> None:
    files = asv_files(made({8: RATIOS, 64: RATIOS}))
    machine, listed, old, new = files.values()
    (folder,) = {path.split("/")[0] for path in files if path != LIST}
    assert machine["machine"] == folder == old["params"]["machine"]
    (name,) = old["results"]
    assert name == "breakeven.784-128-10.train.cpu"
    assert listed[name]["params"] == [["8", "64"]]
    assert (old["commit_hash"], new["commit_hash"]) == (OLD.commit, NEW.commit)
    assert [path for path in files if path.endswith(f"/{OLD.commit[:8]}-{old['env_name']}.json")]
    row = dict(zip(new["result_columns"], new["results"][name], strict=True))
    assert row["result"] == pytest.approx([0.00201, 0.00201])
    assert [len(samples) for samples in row["samples"]] == [4, 4]
    assert row["version"] == listed[name]["version"]


@pytest.mark.parametrize("changed", [OLD, NEW])
def test_asv_needs_two_commits(changed: object) -> None:
    sides = tuple(side.model_copy(update={"commit": None}) if side is changed else side for side in (OLD, NEW))
    with pytest.raises(UserError, match="results by commit"):
        asv_files(made({8: RATIOS}, sides=sides))
