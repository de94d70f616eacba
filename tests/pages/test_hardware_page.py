"""The Hardware page: its sentences on a run, refusals, starts, and that nothing leaves it unlabelled."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from core.hardware import interval
from core.hardware.catalogue import catalogue
from core.hardware.compare import not_modelled
from core.networks.families import network_from_name
from core.rounds.answer.analyse import analyse
from core.rounds.answer.best_cpu import LOOK_BATCHES
from core.studies.sweep.presets import look_plan
from core.ui.downloads import json_bytes
from core.ui.hardware import draft, look, page, result
from core.ui.hardware.page import Compared
from core.ui.start import page as start
from core.workload.spec import Target
from simulated.commands import holds
from simulated.hosts import cpu_run
from simulated.kinds import RUN
from simulated.pages import AT, keep, open_page, says, sweeping, text_of, titles, unfold
from simulated.runs import make_run, planned
from simulated.validations import made_validation
from tests.support.batch_page import NAMES, SECOND, kept
from tests.support.hardware_page import CLEAR, LABELS, STEP, STEPS, STUDY, gpu_run, traces

BATCHES = (1, 8, 64, 512)
ROOFLINE = "Roofline of T4 (steps modelled)"
LIMITS, RATIO = "What limits {} by batch (modelled)", "Measured over predicted step time"

pytestmark = [pytest.mark.usefixtures("this_machine"), pytest.mark.pages]


def compared() -> Compared:
    answer = analyse(RUN)
    return page.compared(RUN, answer, draft.usual_options(RUN, answer, 1, catalogue()), {})


def test_one_sentence_and_one_picture_say_what_is_clear_and_what_is_not(engine: Any) -> None:
    at = open_page("hardware", run=kept(engine))
    text = text_of(at)
    headline = at.header[0].value.replace("&#58;", ":")
    decision = compared().decision
    assert headline == decision.headline
    counts = [int(count) for count in re.findall(r"(\d+)(?= of 49| clearly slower| not clear| without)", headline)]
    assert sum(counts) == 49
    assert titles(at) == [CLEAR]
    assert not at.metric
    says(at, decision.sentence)
    badges = [str(one.proto) for one in at.get("markdown")]
    assert any("host overhead assumed" in badge for badge in badges)
    assert any("modelled" in badge and "violet" in badge for badge in badges)
    assert all("(modelled)" in name for name in traces(at))
    unfold(at, STEPS)
    assert titles(at) == [CLEAR, STEP]
    assert f"{NAMES[1]} (measured)" in traces(at)
    others = [name for name in traces(at) if not name.startswith(NAMES[1])]
    assert others
    assert all("modelled" in name for name in others)
    assert not at.error
    assert not engine.jobs.started
    assert not re.search(r"batch(es)? [\d,]*\.\d", text)


def test_what_would_make_more_cards_clear_stands_beside_the_button_that_does_it(engine: Any) -> None:
    at = open_page("hardware", run=kept(engine))
    cards, resolved = (re.search(rf"(\d+) of {of}", text_of(at)) for of in ("49 cards are", "them clear"))
    assert cards
    assert resolved
    assert 0 < int(resolved[1]) <= int(cards[1])
    assert not at.button(key="measure_host").disabled
    unfold(at, "Host overhead")  # this part has the same button
    assert not at.exception


def test_the_choices_are_in_the_address_and_an_address_reopens_them(engine: Any) -> None:
    run_id = kept(engine)
    at = open_page("hardware", run=run_id)
    at.multiselect(key=f"hardware_gpus-{run_id}").set_value(["L4"])
    at.number_input(key=f"hardware_batch-{run_id}").set_value(128)
    at.selectbox(key=f"hardware_precision-{run_id}").select("mixed_float16")
    at.button_group(key=f"hardware_data-{run_id}").select("Fed each step")
    at.button_group(key=f"hardware_build-{run_id}").select("fused")
    at.checkbox(key=f"hardware_fit-{run_id}").check()
    at.selectbox(key=f"hardware_host-{run_id}-unnamed").select("weak")
    at.button_group(key=f"hardware_against-{run_id}").select(0).run()
    query = {name: value[0] if isinstance(value, list) else value for name, value in at.query_params.items()}
    assert query == {
        "run": run_id, "against": "1", "batch": "128", "gpus": "L4", "precision": "mixed_float16",
        "execution": "keras", "data": "fed", "build": "fused", "fit": "with", "host": "weak",
    }  # fmt: skip
    again = open_page("hardware", **query)
    says(again, "changed: mixed_float16", "over the link", "fused build", "loop of fit", "a weak cloud",
         "what fit itself")  # fmt: skip
    assert again.checkbox(key=f"hardware_fit-{run_id}").value is True
    assert again.selectbox(key=f"hardware_host-{run_id}-weak").value == "weak"
    assert again.number_input(key=f"hardware_batch-{run_id}").value == 128
    assert again.multiselect(key=f"hardware_gpus-{run_id}").value == ["L4"]
    unfold(again, STEPS)
    assert f"{NAMES[0]} (measured)" in traces(again)
    assert "L4 (modelled)" in traces(again)
    assert not [name for name in traces(again) if name.startswith("T4")]


def test_an_unknown_batch_or_card_in_the_address_is_said_and_the_usual_counts(engine: Any) -> None:
    run_id = kept(engine)
    at = open_page("hardware", run=run_id, batch="many", gpus="T4~RTX-409")
    says(at, "“many”", "64 counts", "“RTX-409”", "did you mean")
    assert at.multiselect(key=f"hardware_gpus-{run_id}").value == ["T4"]


def test_an_impossible_or_unmeasured_batch_is_said(engine: Any) -> None:
    run_id = kept(engine)
    at = open_page("hardware", run=run_id)
    at.number_input(key=f"hardware_batch-{run_id}").set_value(0).run()
    assert "1 and 65,536" in at.error[0].value
    assert titles(at) == [CLEAR]
    at.number_input(key=f"hardware_batch-{run_id}").set_value(4096).run()
    assert not at.error
    assert "at batch 4,096" in text_of(at)
    unfold(at, "All cards")
    table = at.dataframe[0].value
    assert not table["speed_up"].any()
    assert table["step_ms"].any()


def test_runs_without_a_cpu_target_say_so(engine: Any) -> None:
    both = planned(gpu_run(), targets=(Target(device="gpu:0"), Target(device="gpu:0", execution="graph")))
    at = open_page("hardware", run=kept(engine, both))
    assert draft.NO_CPU in text_of(at)
    assert not at.get("plotly_chart")


def test_a_family_that_is_withheld_gets_the_reason_and_no_number(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    known = interval.errors()
    none = {key: one for key, one in known.classes.items() if not key.startswith("dense/")}
    monkeypatch.setattr(interval, "errors", lambda: known.model_copy(update={"classes": none}))
    at = open_page("hardware", run=kept(engine))
    text = text_of(at)
    holds(at.header[0].value, "none of 49", f"({NAMES[1]})")
    holds(text, "none of 49", f"({NAMES[1]})", "batch 64", "for dense networks")
    assert titles(at) == [STEP]
    assert not [name for name in traces(at) if "modelled" in name]
    unfold(at, "All cards")
    assert set(at.dataframe[0].value["label"]) == {"withheld"}
    unfold(at, "What limits a card")
    assert titles(at) == [STEP]
    assert "the model errs" in text_of(at)


@pytest.mark.parametrize(("gpus", "pictures"), [("Apple-M1", [STEP]), ("T4~Apple-M1", [CLEAR, STEP])])
def test_every_part_can_be_open_at_once(engine: Any, gpus: str, pictures: list[str]) -> None:
    """Open every part; a withheld card alone leaves the step times as the picture, which are not shown twice."""
    run_id = kept(engine, host=STUDY, validation=made_validation())
    folded = [part.label for part in open_page("hardware", run=run_id, gpus=gpus).expander]
    assert (STEPS in folded) == (pictures != [STEP])
    at = open_page("hardware", run=run_id, gpus=gpus, show="published", folds=folded)
    shown = titles(at)
    assert [title for title in shown if title in (CLEAR, STEP)] == pictures
    assert RATIO in shown


def test_the_table_has_every_card_sorted_as_chosen_and_withheld_ones_last(engine: Any) -> None:
    at = unfold(open_page("hardware", run=kept(engine)), "All cards")
    table = at.dataframe[0].value
    assert sorted(table["card"]) == sorted(catalogue())
    withheld = [label == "withheld" for label in table["label"]]
    assert withheld == sorted(withheld)
    assert any(withheld)
    at.button_group(key="hardware_sort").select("speed_up").run()
    table = at.dataframe[0].value
    ratios = [float(words.split(" ")[0]) for words in table["speed_up"] if words]
    assert ratios == sorted(ratios, reverse=True)
    assert [standing == "no number" for standing in table["standing"]] == withheld
    open_ = table["standing"] == "not clear"
    assert not any(table["resolve"][~open_]) if "resolve" in table else not any(open_)
    at.button_group(key="hardware_sort").select("cost").run()
    costs = [float(words.split(" ")[0]) for words in at.dataframe[0].value["cost"] if words]
    assert len(costs) > 5
    assert costs == sorted(costs)


def test_a_card_that_is_not_clear_says_what_would_make_it_clear(engine: Any) -> None:
    """Give the CPU the step times that the card is modelled to take, so that no interval separates them."""
    first = cpu_run(lambda batch: 0.5 + 0.2 * batch, BATCHES)
    options = draft.usual_options(first, analyse(first), 0, catalogue())
    curve = page.compared(first, analyse(first), options, {}).reading("T4").curve
    steps = {point.batch: point.step_ms for point in curve.known}
    run = cpu_run(steps.__getitem__, BATCHES).model_copy(update={"id": "20260106-tie"})
    at = open_page("hardware", run=kept(engine, run), gpus="T4", batch="64", against="first")
    sentence = f"({run.names[0]}) at batch 64 is not clear ("
    unfold(at, "All cards")
    table = at.dataframe[0].value
    tie = table[table["card"] == "T4"].iloc[0]
    assert (tie["standing"], bool(tie["resolve"])) == ("not clear", True)
    unfold(at, "What limits a card")
    says(at, sentence, "overhead (15 s")


def test_a_price_of_ones_own_changes_the_cost_and_a_wrong_one_is_refused(engine: Any) -> None:
    at = unfold(open_page("hardware", run=kept(engine)), "All cards")

    def row(name: str) -> Any:
        table = at.dataframe[0].value
        return table[table["card"] == name].iloc[0]

    assert row("RTX-4090")["cost"] == ""
    at.number_input(key="hardware_price-RTX-4090").set_value(0.5).run()
    assert row("RTX-4090")["price"].startswith("0.5 USD (")
    once = float(row("RTX-4090")["cost"].split(" ")[0])
    at.number_input(key="hardware_price-RTX-4090").set_value(1.0).run()
    assert float(row("RTX-4090")["cost"].split(" ")[0]) == pytest.approx(2 * once, rel=0.01)
    at.number_input(key="hardware_price-RTX-4090").set_value(-1.0).run()
    assert at.error[0].value.startswith("RTX-4090&#58; a price")
    unfold(unfold(at), "All cards")
    assert at.number_input(key="hardware_price-RTX-4090").value == -1.0


def test_what_limits_a_card_its_roofline_and_what_would_have_to_be_true(engine: Any) -> None:
    run_id = kept(engine)
    at = unfold(open_page("hardware", run=run_id), "What limits a card")
    assert titles(at) == [CLEAR, LIMITS.format("T4"), ROOFLINE]
    at.selectbox(key=f"hardware_card-{run_id}").select("B200").run()
    assert titles(at)[1] == LIMITS.format("B200")
    text = text_of(at)
    holds(text, "B200 is limited", f"to meet {NAMES[1]} at batch 64", "spacing of small")
    assert "link from host" not in text
    at.button_group(key=f"hardware_data-{run_id}").select("Fed each step")
    at.button_group(key=f"hardware_build-{run_id}").select("fused")
    at.checkbox(key=f"hardware_fit-{run_id}").check()
    at.selectbox(key=f"hardware_host-{run_id}-unnamed").select("weak").run()
    assert "its link from" in text_of(at)
    at.number_input(key=f"hardware_needed-{run_id}-64").set_value(5000).run()
    assert "1 to 1,024" in text_of(at)
    at.selectbox(key=f"hardware_card-{run_id}").select("Apple-M1").run()
    assert titles(at) == [CLEAR]
    assert "Apple" in " ".join(info.value for info in at.info)


def test_what_was_recorded_of_a_card_is_drawn_as_recorded(engine: Any) -> None:
    run = gpu_run()
    at = open_page("hardware", run=kept(engine, run), gpus="T4~L4")
    unfold(at, STEPS)
    assert "T4 (measured)" in traces(at)
    assert "L4 (modelled)" in traces(at)
    assert "T4 is corrected" in text_of(at)
    unfold(at, "All cards")
    table = at.dataframe[0].value
    assert "measured" in table[table["card"] == "T4"].iloc[0]["label"]
    assert table[table["card"] == "L4"].iloc[0]["label"] == "modelled"


def test_without_any_chosen_card_the_cpu_stands_alone(engine: Any) -> None:
    run_id = kept(engine)
    at = open_page("hardware", run=run_id)
    at.multiselect(key=f"hardware_gpus-{run_id}").set_value([]).run()
    assert titles(at) == [CLEAR]  # of the six cards that are faster from the smallest batch on
    unfold(at, STEPS)
    assert traces(at)[-1].startswith(NAMES[1])


def unlabelled(value: Any, labelled: bool = False, path: str = "") -> Iterator[str]:
    """Yield the paths of numbers without a label in their own object or an enclosing one."""
    if isinstance(value, dict):
        labelled = labelled or value.get("label") in LABELS
        for key, inner in value.items():
            yield from unlabelled(inner, labelled, f"{path}/{key}")
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from unlabelled(inner, labelled, f"{path}/{number}")
    elif isinstance(value, float) and not labelled:
        yield path


def test_the_file_holds_every_card_and_no_number_without_a_label(engine: Any) -> None:
    assert engine
    seen = compared()
    usual = seen.options
    data = json.loads(json_bytes(lambda: result.content(seen)))
    assert list(unlabelled(data)) == []
    assert (data["label"], data["run"], data["run_label"], data["against"]) == ("modelled", RUN.id, "measured", SECOND)
    assert {card["gpu"] for card in data["cards"]} == set(catalogue())
    decision = data["decision"]
    counts = [decision[name] for name in ("faster", "slower", "not_resolved", "no_number")]
    assert sum(counts) == len(decision["cards"]) == len(data["cards"])
    assert decision["sentence"] == seen.decision.sentence
    assert (decision["label"], decision["batch"], decision["cpu"]) == ("modelled", usual.batch, SECOND)
    assert [card["gpu"] for card in decision["cards"]] == [card["gpu"] for card in data["cards"]]
    assert [one["gpu"] for one in data["chosen"]] == list(usual.gpus)
    assert all(one["needed"] and one["roofline"]["points"] for one in data["chosen"])
    assert all(card["curve"]["host"]["label"] == "assumed" for card in data["cards"])
    del data["label"]
    assert list(unlabelled(data)) == []  # cards and details carry their own labels


def test_where_the_settings_of_this_cpu_were_not_measured_one_click_does_it(engine: Any) -> None:
    run_id = kept(engine)
    at = open_page("hardware", run=run_id)
    says(at, look.OFFER, "of 2 settings", "32 and 1,024:")
    engine.jobs.progress = AT
    at.button(key="measure_sweep").click().run()
    (started,) = [plan for _, plan in engine.jobs.started]
    assert started.plan == look_plan(RUN.plan.workload, 2)
    assert at.title[0].value == start.QUESTION  # the page with its progress
    engine.jobs.show(sweeping(started, active=False))
    measured = make_run(1, LOOK_BATCHES, floors_ms=(0.1, 0.3, 0.2), slopes_ms=(0.02, 0.03, 0.01))
    keep(engine.store, planned(measured, targets=started.plan.targets, workload=RUN.plan.workload))
    assert look.OFFER not in text_of(open_page("hardware", run=run_id))


def test_a_run_without_a_cpu_offers_the_look_that_it_lacks(engine: Any) -> None:
    gpus = planned(gpu_run(), targets=(Target(device="gpu:0"), Target(device="gpu:1")))
    at = open_page("hardware", run=kept(engine, gpus))
    says(at, draft.NO_CPU, look.OFFER)
    assert not at.button(key="measure_sweep").disabled


def test_of_a_recurrent_network_it_is_said_first_that_no_gpu_is_modelled(engine: Any) -> None:
    network = network_from_name("lstm-128x1-28x28-10")
    run = planned(RUN, workload=RUN.plan.workload.model_copy(update={"network": network}))
    why = not_modelled(run.plan.workload)
    run_id = kept(engine, run)
    for page_name in ("hardware", "start", "crossover"):
        assert str(why) in text_of(open_page(page_name, run=run_id, gpu="T4"))
    assert str(why) not in text_of(open_page("hardware", run=kept(engine)))
