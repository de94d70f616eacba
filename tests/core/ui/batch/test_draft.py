"""The inputs that the forms of the Batch page accept, and the sentence beside each wrong field."""

from dataclasses import replace
from typing import Any
from unittest.mock import Mock

import pytest

from core.networks.families.code import Code
from core.rounds.run import Run
from core.studies.noise.record import NoisePlan
from core.ui.batch import draft
from core.userdata.arrays import DataError
from core.userdata.source import Source
from core.workload.spec import Workload
from simulated.runs import make_run, planned

RUN = make_run(1, label="measured")
DRAFT: dict[str, Any] = dict(
    own=False, data="", device="cpu", batch=64, learning_rate=None, target_loss=None, budget_s=60.0
)  # fmt: skip
PRICES = draft.PriceDraft({"cpu": 0.2, "gpu:0": 2.5}, "EUR", "2026-11-01", 60_000)
SOURCE = Source(path="/data/train.npz", kind="arrays", paths=("/data/train.npz",), bytes=10, words="10 samples")


def nothing(path: str) -> Source:
    raise AssertionError(f"{path} was looked at")


def changed(run: Run, **workload: Any) -> Run:
    made = run.plan.workload.model_copy(update=workload)
    return planned(run, workload=made)


def test_a_draft_becomes_a_plan_of_the_run_with_the_usual_values_left_open() -> None:
    outcome = draft.build_noise_plan(RUN, DRAFT, nothing)
    assert outcome.plan == NoisePlan(workload=RUN.plan.workload, run_id=RUN.id)
    assert not outcome.errors


@pytest.mark.parametrize(
    ("change", "field", "sentence"),
    [
        ({"batch": None}, "batch", "4 and 65,536."),
        ({"batch": 3}, "batch", "4 and 65,536."),
        ({"learning_rate": 0.0}, "learning_rate", "above 0"),
        ({"learning_rate": 101.0}, "learning_rate", "above 0"),
        ({"target_loss": -1.0}, "target_loss", "above 0"),
        ({"budget_s": 9.0}, "budget_s", "10 and"),
        ({"budget_s": None}, "budget_s", "10 and"),
        ({"own": True, "data": "  "}, "data", "Give a path"),
        ({"own": True, "data": "/a\x07"}, "data", "cannot be shown"),
    ],
)
def test_each_wrong_field_has_its_sentence(change: dict[str, Any], field: str, sentence: str) -> None:
    outcome = draft.build_noise_plan(RUN, DRAFT | change, nothing)
    assert outcome.plan is None
    assert list(outcome.errors) == [field]
    assert sentence in outcome.errors[field]


def test_own_data_are_looked_at_and_named_in_the_plan() -> None:
    looked: list[str] = []

    def look(path: str) -> Source:
        looked.append(path)
        return SOURCE

    outcome = draft.build_noise_plan(RUN, DRAFT | dict(own=True, data=" /data/train.npz "), look)
    assert looked == ["/data/train.npz"]
    assert outcome.plan.data == "/data/train.npz"
    assert outcome.source == SOURCE


def test_data_without_labels_are_refused_with_the_reason() -> None:
    look = Mock(side_effect=DataError("/x.npy holds no labels."))
    outcome = draft.build_noise_plan(RUN, DRAFT | dict(own=True, data="/x.npy"), look)
    assert outcome.errors == {"data": str(look.side_effect)}


def test_a_path_that_is_not_chosen_is_not_looked_at() -> None:
    assert draft.build_noise_plan(RUN, DRAFT | dict(data="/x.npy"), nothing).plan is not None


def test_what_has_no_noise_scale_is_refused_with_the_reason() -> None:
    assert draft.noise_refusal(RUN) is None
    assert draft.noise_refusal(make_run(1)) is None  # of network and data, whatever machine the run is from
    assert "no gradients" in str(draft.noise_refusal(changed(RUN, mode="infer")))
    assert "Only points" in str(draft.noise_refusal(RUN.model_copy(update={"plan": None})))
    assert "still running" in str(draft.noise_refusal(RUN.model_copy(update={"status": "running"})))


def test_memory_is_confirmed_for_runs_of_this_machine_only() -> None:
    assert draft.memory_refusal(RUN) is None
    assert draft.memory_refusal(changed(RUN, mode="infer")) is None
    assert "is recorded" in str(draft.memory_refusal(make_run(1)))
    assert "Only points" in str(draft.memory_refusal(RUN.model_copy(update={"plan": None})))


def test_user_code_is_left_to_the_command_line() -> None:
    code = Code.model_construct(entry="train.models:make")
    run = changed(RUN, network=code)
    assert isinstance(run.plan.workload, Workload)
    for refusal in (draft.noise_refusal(run), draft.memory_refusal(run)):
        assert "--model train.models:make" in str(refusal)


def test_a_limit_becomes_the_plan_of_that_target() -> None:
    outcome = draft.build_memory_plan(RUN, 1, 1.5, 90.0, 8 * 10**9)
    assert outcome.plan.target == RUN.plan.targets[1]
    assert (outcome.plan.limit_bytes, outcome.limit_bytes) == (1_500_000_000, 1_500_000_000)
    assert (outcome.plan.budget_s, outcome.plan.run_id) == (90.0, RUN.id)


@pytest.mark.parametrize("limit_gb", [None, 0.0, 0.09, 1e6, -1.0, float("nan")])
def test_impossible_limits_are_refused(limit_gb: float | None) -> None:
    outcome = draft.build_memory_plan(RUN, 0, limit_gb, 90.0, None)
    assert outcome.plan is None
    assert outcome.limit_bytes is None
    assert outcome.errors["limit_bytes"].endswith("and 100,000 GB.")


def test_a_limit_beyond_what_is_free_is_refused_but_on_a_gpu_nobody_here_knows() -> None:
    outcome = draft.build_memory_plan(RUN, 0, 9.0, 90.0, 8 * 10**9)
    assert outcome.plan is None
    assert outcome.limit_bytes == 9 * 10**9
    assert "only 8 GB" in outcome.errors["limit_bytes"]
    outcome = draft.build_memory_plan(RUN, 0, 9.0, 90.0, 8 * 10**9, " (the container's)")
    assert "now (the container's);" in outcome.errors["limit_bytes"]
    assert draft.build_memory_plan(RUN, 0, 9.0, 90.0, None).plan is not None


def test_a_bad_budget_leaves_the_limit_to_predict_with() -> None:
    outcome = draft.build_memory_plan(RUN, 0, 2.0, None, None)
    assert list(outcome.errors) == ["budget_s"]
    assert outcome.limit_bytes == 2 * 10**9


def test_prices_are_dated_and_in_one_currency() -> None:
    outcome = draft.build_prices(replace(PRICES, currency="USD"))
    amounts = [(price.target, price.per_hour, price.currency, str(price.dated)) for price in outcome.prices]
    assert amounts == [("cpu", 0.2, "USD", "2026-11-01"), ("gpu:0", 2.5, "USD", "2026-11-01")]
    assert outcome.epoch_samples == 60_000


def test_a_price_may_be_missing() -> None:
    outcome = draft.build_prices(replace(PRICES, amounts={"cpu": None, "gpu:0": 2.5}, epoch_samples=None))
    assert [price.target for price in outcome.prices] == ["gpu:0"]
    assert not outcome.errors


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"amounts": {"cpu": 0.0}}, "cpu"),
        ({"amounts": {"cpu": -1.0}}, "cpu"),
        ({"amounts": {"cpu": 1e7}}, "cpu"),
        ({"dated": "tomorrow"}, "dated"),
        ({"epoch_samples": 0}, "epoch"),
        ({"epoch_samples": 10**13}, "epoch"),
    ],
)
def test_a_wrong_price_leaves_none(change: dict[str, Any], field: str) -> None:
    outcome = draft.build_prices(replace(PRICES, **change))
    assert list(outcome.errors) == [field]
    assert outcome.errors[field].endswith(".")
    assert not outcome.prices


def test_a_wrong_epoch_is_not_used() -> None:
    assert draft.build_prices(replace(PRICES, epoch_samples=0)).epoch_samples is None


def test_the_target_that_was_measured_is_shown_first() -> None:
    names = ("cpu", "gpu:0")
    assert draft.target_order(names, ()) == 1
    assert draft.target_order(names, ("cpu",)) == 0
    assert draft.target_order(names, ("gpu:0",)) == 1
