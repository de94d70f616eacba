"""The Batch page: its sentences on a run, refusals, starts, and every state of its two studies."""

import json
import re
from typing import Any

import numpy as np
import pytest

from core.rounds.answer.analyse import analyse
from core.ui import downloads
from core.ui.batch import page, result
from core.ui.downloads import json_bytes
from simulated.commands import holds
from simulated.kinds import RUN
from simulated.kinds.memory import of_run as memory_study
from simulated.noises import make_noise_study
from simulated.pages import open_page, says, text_of, titles, unfold
from simulated.runs import planned
from tests.support.batch_page import COST, FIRST, NAMES, NOISE, RATE, SAMPLE, SECOND, TIME, kept
from tests.support.study_pages import start

FULL = "The answer in full"

pytestmark = [pytest.mark.usefixtures("this_machine"), pytest.mark.pages]


def test_without_a_noise_study_there_is_throughput_and_a_button_that_measures_one(engine: Any) -> None:
    at = open_page("batch", run=kept(engine))
    text = text_of(at)
    assert titles(at) == [RATE]
    holds(at.header[0].value, f"{NAMES[1]} at batch 1,024", f"than {NAMES[0]}")
    assert not at.metric
    holds(text, "no gradient noise", "11.6 GB of", "90 %")
    unfold(at, FULL, "Throughput and time per sample")
    assert titles(at) == [RATE, SAMPLE]
    assert not at.button(key="measure_noise").disabled
    assert "teacher network" in at.button_group(key="batch_task").value
    assert not at.error


@pytest.mark.parametrize("studies", [(), ("noise",), ("noise", "memory")], ids=" and ".join)
def test_every_part_can_be_open_at_once(engine: Any, studies: tuple[str, ...]) -> None:
    made = {"noise": make_noise_study(), "memory": memory_study()}
    run_id = kept(engine, **{kind: made[kind] for kind in studies})
    folded = [part.label for part in open_page("batch", run=run_id).expander]
    shown = titles(open_page("batch", run=run_id, folds=folded))
    assert {RATE, SAMPLE} <= set(shown)
    assert len(set(shown)) == len(shown)


def test_the_button_starts_a_study_of_what_was_chosen(engine: Any) -> None:
    run_id = kept(engine)
    at = open_page("batch", run=run_id)
    at.number_input(key="noise_learning_rate").set_value(0.01)
    at.number_input(key="noise_target_loss").set_value(0.5)
    at.number_input(key="noise_budget").set_value(30.0)
    at.number_input(key="noise_batch").set_value(32).run()
    plan = start(engine, at, "noise")
    assert (plan.learning_rate, plan.target_loss, plan.budget_s, plan.batch) == (0.01, 0.5, 30.0, 32)
    assert (plan.run_id, plan.data, plan.workload) == (run_id, None, RUN.plan and RUN.plan.workload)


def test_wrong_fields_are_refused_in_words(engine: Any) -> None:
    at = open_page("batch", run=kept(engine))
    at.number_input(key="noise_learning_rate").set_value(-1.0).run()
    assert "learning rate" in at.error[0].value
    assert at.button(key="measure_noise").disabled
    at.number_input(key="noise_learning_rate").set_value(None).run()
    assert not at.error
    at.button_group(key="batch_task").select("Your own labelled data").run()
    assert "Give a path" in text_of(at)
    at.text_input(key="noise_data").input("/nowhere/train.npz").run()
    assert "/nowhere/train.npz" in text_of(at)
    assert at.button(key="measure_noise").disabled


def test_own_data_with_labels_are_accepted_and_without_are_not(engine: Any, tmp_path: Any) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(64, 784)).astype("float32")
    np.savez(tmp_path / "train.npz", x=x, y=np.arange(64) % 10)
    np.save(tmp_path / "bare.npy", x)
    at = open_page("batch", run=kept(engine))
    at.button_group(key="batch_task").select("Your own labelled data").run()
    at.text_input(key="noise_data").input(str(tmp_path / "bare.npy")).run()
    assert "holds no labels" in text_of(at)
    assert at.button(key="measure_noise").disabled
    at.text_input(key="noise_data").input(str(tmp_path / "train.npz")).run()
    assert not at.error
    assert "train.npz" in text_of(at)
    assert "own data (train.npz)" in start(engine, at, "noise").title


def test_with_a_noise_study_the_verdict_is_the_time_to_the_loss(engine: Any) -> None:
    at = open_page("batch", run=kept(engine, noise=make_noise_study(RUN)))
    assert titles(at) == [TIME]
    headline = at.header[0].value
    holds(headline, "Predicted", "loss of 1.2", f"{NAMES[1]} at batch ", f"than {NAMES[0]}")
    assert len(re.findall(r"\d[\d.,]*", headline.partition(NAMES[1])[2].replace("&#58;", ""))) <= 3
    assert "best batch, predicted: " in text_of(at)
    assert not at.metric
    unfold(at, FULL, "Throughput and time per sample")
    text = text_of(at)
    assert titles(at) == [TIME, RATE, SAMPLE]
    assert [metric.label for metric in at.metric] == [f"Best on {NAMES[0]}", f"Best on {NAMES[1]}"]
    holds(text, "In step time", "noise scale is ", "to the loss: ", "teacher network")
    assert at.query_params["noise"] == "20260107-noise"


def test_the_noise_scale_has_its_own_evidence(engine: Any) -> None:
    noise = make_noise_study(RUN)
    at = unfold(open_page("batch", run=kept(engine, noise=noise)), NOISE)
    assert titles(at) == [TIME, f"{NOISE} (recorded)", "Loss (recorded)"]
    text = text_of(at)
    holds(text, "learning rate 0.001", f"{noise.steps:,} steps", f"{len(noise.draws)} draws", "58 s")
    assert not at.button(key="measure_noise").disabled


@pytest.mark.parametrize(
    ("part", "name", "sentence"),
    [(NOISE, "noise", "noise scale is"), ("Memory", "memory", "Batch 500 fits")],
)
def test_each_of_the_two_studies_is_shared_by_itself(
    engine: Any, monkeypatch: pytest.MonkeyPatch, part: str, name: str, sentence: str
) -> None:
    run_id = kept(engine, noise=make_noise_study(RUN), memory=memory_study())
    shared: dict[str, dict[str, Any]] = {}
    monkeypatch.setattr(downloads, "draw", lambda of, files: shared.update({of: {f.ending: f.make for f in files}}))
    at = unfold(open_page("batch", run=run_id, context={"url": "http://localhost:8501/batch"}), part)
    files = shared[f"{name}-20260107-{name}"]
    assert list(files) == ["png", "svg", "md", "html", "json", "csv"]
    assert sentence in files["md"]().decode()
    assert b"<svg" in files["svg"]()
    record = json.loads(files["json"]())["record"]
    assert len(files["csv"]().splitlines()) == 1 + len(record["draws" if name == "noise" else "probes"])
    assert f"http://localhost:8501/batch?run={run_id}&{name}=20260107-{name}" in [code.value for code in at.code]


def test_inference_has_no_noise_scale_and_says_so(engine: Any) -> None:
    inference = RUN.plan.workload.model_copy(update={"mode": "infer"})
    at = open_page("batch", run=kept(engine, planned(RUN, workload=inference)))
    unfold(at, FULL)
    says(at, "it has no", "Inference has no")
    assert not [button for button in at.button if button.key == "measure_noise"]
    assert titles(at) == [RATE]


def test_a_cancelled_study_without_the_loss_gives_relative_times(engine: Any) -> None:
    at = open_page("batch", run=kept(engine, noise=make_noise_study(RUN, reached=False, status="cancelled")))
    assert titles(at)[0] == TIME.replace("the", "a")
    says(at, "was cancelled", "to a loss: ")


def test_prices_give_costs_a_crossover_and_a_file_with_them(engine: Any) -> None:
    at = unfold(open_page("batch", run=kept(engine, noise=make_noise_study(RUN))), "Cost")
    assert titles(at) == [TIME]
    at.number_input(key=f"batch_price-{FIRST}").set_value(0.2)
    at.number_input(key=f"batch_price-{SECOND}").set_value(0.3)
    at.number_input(key="batch_epoch").set_value(60_000).run()
    assert titles(at) == [TIME, COST]
    text = text_of(at)
    holds(text, f"{NAMES[1]} costs 1.5 times", f"on {NAMES[0]}", ": below batch")
    columns = list(at.dataframe[0].value.columns)
    assert {"cost_per_million", "cost_per_epoch", "cost_to_loss"} <= set(columns)
    assert f"{NAMES[0]} at 0.2 USD" in text
    unfold(at, FULL)  # the prices stay while their fields are away
    assert "costs 1.5 times" in text_of(at)


def test_wrong_prices_are_refused_in_words(engine: Any) -> None:
    at = unfold(open_page("batch", run=kept(engine)), "Cost")
    at.number_input(key=f"batch_price-{FIRST}").set_value(-1.0).run()
    assert "price per hour" in at.error[0].value
    at.number_input(key=f"batch_price-{FIRST}").set_value(1.0)
    at.text_input(key="money_currency").input("€").run()
    assert "three letters" in at.error[0].value
    assert "money" not in at.query_params


def test_one_money_unit_counts_on_every_page_and_stands_in_the_address(engine: Any) -> None:
    run_id = kept(engine)
    at = unfold(open_page("batch", run=run_id), "Cost")
    at.number_input(key=f"batch_price-{FIRST}").set_value(1.0)
    at.text_input(key="money_currency").input("eur").run()
    at.number_input(key="money_rate-EUR").set_value(0.5).run()
    assert f"{NAMES[0]} at 1 EUR" in text_of(at)
    assert at.query_params["money"] == "EUR=0.5"
    again = unfold(open_page("hardware", run=run_id, money="EUR=0.5"), "All cards")
    prices = {price for price in again.dataframe[0].value["price"] if price}
    assert prices
    assert all(" EUR (" in price for price in prices)
    assert again.text_input(key="money_currency").value == "EUR"
    bare = unfold(open_page("hardware", run=run_id, money="EUR"), "All cards")
    assert not any(bare.dataframe[0].value["cost"])
    assert "not in EUR" in text_of(bare)


def test_a_wrong_unit_in_the_address_or_of_the_server_is_said(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    run_id = kept(engine)
    at = unfold(open_page("batch", run=run_id, money="euro"), "Cost")
    assert "three letters" in at.error[0].value
    monkeypatch.setenv("BREAKEVEN_CURRENCY", "CHF")
    at = unfold(open_page("batch", run=run_id), "Cost")
    assert at.text_input(key="money_currency").value == "CHF"


def test_an_epoch_is_that_of_the_users_data_unless_they_say_otherwise(engine: Any) -> None:
    own = planned(make_noise_study(RUN, samples=50_000), data="/data/train.npz")
    at = unfold(open_page("batch", run=kept(engine, noise=own)), "Cost")
    at.number_input(key=f"batch_price-{FIRST}").set_value(3.6).run()
    row = at.dataframe[0].value.iloc[0]
    million, epoch = (float(row[name].split(" ")[0]) for name in ("cost_per_million", "cost_per_epoch"))
    assert epoch == pytest.approx(million / 20, rel=0.01)


def test_every_number_is_in_a_table_with_its_label(engine: Any) -> None:
    at = unfold(open_page("batch", run=kept(engine, noise=make_noise_study(RUN))), "Every number")
    table = at.dataframe[0].value
    assert list(table["batch"]) == [f"{size:,}" for size in RUN.batches]
    assert set(table["label"]) == {"measured"}
    assert {"step_ms", "samples_per_s", "us_per_sample", "steps", "time_s"} <= set(table.columns)


def test_one_of_several_noise_studies_can_be_chosen_and_the_address_names_it(engine: Any) -> None:
    run_id = kept(engine, noise=make_noise_study(RUN, noise=40.0))
    newer = make_noise_study(RUN, created_at="2026-01-08T09:00:00+00:00")
    engine.store.add_study("noise", "20260108-noise", newer)
    at = unfold(open_page("batch", run=run_id, noise="20260107-noise"), FULL)
    assert at.query_params["noise"] == "20260107-noise"
    assert re.search(r"is [34]\d samples", text_of(at))
    at.selectbox(key=f"batch_noise-{run_id}-20260108-noise").select("20260108-noise").run()
    assert at.query_params["noise"] == "20260108-noise"
    assert re.search(r"is [56]\d\d samples", text_of(at))


def test_the_file_holds_what_is_said_and_both_studies(engine: Any) -> None:
    noise, memory = make_noise_study(RUN), memory_study()
    kept(engine, noise=noise, memory=memory)
    found = page.Evidence(("n", noise), {FIRST: ("m", memory)})
    sweep = analyse(RUN)
    data = json.loads(json_bytes(lambda: result.content(RUN, found, page.answer_of(RUN, sweep, found))))
    assert data["run_id"] == RUN.id
    assert data["record"] == json.loads(noise.to_json())
    assert data["memory"][0]["record"] == json.loads(memory.to_json())
    assert data["memory"][0]["largest_fitted"] == 500
    assert data["targets"][0]["memory"]["largest"] == 500
