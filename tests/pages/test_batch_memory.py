"""The Memory tab of the Batch page: predictions, confirmations by a search, and refusals."""

import json
from typing import Any

import pytest

from core.networks.families import network_from_name
from core.rounds.run import Run
from core.studies.batch.answer import limit_of
from core.ui.batch import form
from core.workload.spec import Workload
from simulated.commands import holds
from simulated.kinds import RUN
from simulated.kinds.memory import of_run as memory_study
from simulated.memories import GB, make_probe
from simulated.noises import make_noise_study
from simulated.pages import open_page, says, text_of, titles, unfold
from simulated.runs import make_environment, planned
from tests.support.batch_page import kept
from tests.support.study_pages import start

PEAK, PARTS = "Peak memory by batch", "What memory goes to"
FULL, ALONE = "The answer in full", "the model alone"
MEASURED = ("Batch 500 fits", "within 2 GB", "520 ran out")
LARGEST = ("within 2 GB: 500", "(500 to 519)", "1 thread, measured; ")

pytestmark = [pytest.mark.usefixtures("this_machine"), pytest.mark.pages]


def test_memory_is_predicted_until_it_is_confirmed(engine: Any) -> None:
    at = unfold(open_page("batch", run=kept(engine)), "Memory")
    text = text_of(at)
    assert ALONE in text
    shown = [title.partition(" at batch")[0] for title in titles(at)[1:]]
    assert shown == [PEAK, PARTS]
    assert at.number_input(key="memory_limit-cpu").value == 7.2
    holds(text, "within 7.2 GB", "No prediction that")
    at.number_input(key="memory_limit-cpu").set_value(0.75).run()
    assert "750 MB" in text_of(at)


def test_the_button_confirms_the_largest_batch_of_that_target(engine: Any) -> None:
    run_id = kept(engine, memory=memory_study(0))
    at = unfold(open_page("batch", run=run_id), "Memory")
    at.button_group(key=f"batch_memory_target-{run_id}").select(1)
    at.number_input(key="memory_limit-cpu").set_value(3.0)
    at.number_input(key="memory_budget").set_value(45.0).run()
    asked = start(engine, at, "memory")
    plan = asked.plan
    assert (plan.target, plan.limit_bytes) == (RUN.plan.targets[1], 3 * GB)
    assert (plan.budget_s, plan.run_id) == (45.0, run_id)
    assert asked.earlier == (memory_study(0),)


def test_a_chosen_limit_stays_while_what_is_free_changes(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    at = unfold(open_page("batch", run=kept(engine)), "Memory")
    at.number_input(key="memory_limit-cpu").set_value(2.0).run()
    monkeypatch.setattr(form, "available_memory_bytes", lambda: 5 * GB)
    at.run()
    assert at.number_input(key="memory_limit-cpu").value == 2.0
    unfold(unfold(at, "Cost"), "Memory")
    assert at.number_input(key="memory_limit-cpu").value == 2.0


def unattached(**changes: Any) -> Any:
    return planned(memory_study(), run_id=None, **changes)


def test_a_search_of_the_command_line_counts_for_a_run_of_its_workload_and_machine(engine: Any) -> None:
    elsewhere = make_environment().model_copy(update={"hostname_hash": "0"})
    run_id = kept(engine, memory=unattached().model_copy(update={"environment": elsewhere}))
    assert ALONE in text_of(unfold(open_page("batch", run=run_id), "Memory"))
    other = Workload(network=network_from_name("784-512-512-10"))
    engine.store.add_study("memory", "20260107-other", unattached(workload=other))
    assert "Batch 500 fits" not in text_of(unfold(open_page("batch", run=run_id), "Memory"))
    engine.store.add_study("memory", "20260107-mine", unattached())
    at = unfold(open_page("batch", run=run_id), "Memory")
    says(at, *MEASURED)
    assert at.query_params["memory"] == "20260107-mine"


def test_another_limit_than_that_of_the_search_is_predicted_beside_it(engine: Any) -> None:
    at = unfold(open_page("batch", run=kept(engine, memory=memory_study())), "Memory")
    at.number_input(key="memory_limit-cpu").set_value(3.0).run()
    text = text_of(at)
    holds(text, "within 3 GB", *MEASURED)


def test_a_search_on_another_machine_than_the_sweep_is_a_warning(engine: Any) -> None:
    other = make_environment().model_copy(update={"hostname_hash": "0"})
    at = unfold(open_page("batch", run=kept(engine, memory=memory_study(environment=other))), "Memory")
    assert "different machines" in at.warning[0].value
    assert "Over 0 searches" in text_of(at)


def test_where_everything_fits_no_largest_batch_is_claimed(engine: Any) -> None:
    fits = memory_study(probes=(make_probe(65_536, 900_000_000),))
    at = unfold(open_page("batch", run=kept(engine, memory=fits)), FULL)
    says(at, "within 2 GB: all", "65,536 on 1", "thread, measured; ")


def test_both_targets_of_one_machine_are_held_to_one_limit_which_is_explained(engine: Any) -> None:
    at = unfold(open_page("batch", run=kept(engine, memory=memory_study(0))), FULL)
    text = text_of(at)
    holds(text, "held to 2 GB", "on 1 thread.", *LARGEST, "2 threads, predicted.")
    assert text.count("that fits within") == 1
    later = memory_study(1, 3 * GB, created_at="2026-01-09T09:00:00+00:00")
    engine.store.add_study("memory", "20260109-later", later)
    at = unfold(open_page("batch", run=RUN.id), FULL)
    says(at, "held to 3 GB", "on 2 threads.")
    assert text_of(at).count("fits within 3") == 1
    assert "fits within 2" not in text_of(at)


def test_impossible_limits_are_refused(engine: Any) -> None:
    at = unfold(open_page("batch", run=kept(engine)), "Memory")
    for limit, sentence in ((9.0, "8 GB"), (0.01, "0.1 and")):
        at.number_input(key="memory_limit-cpu").set_value(limit).run()
        assert sentence in at.error[0].value
        assert at.button(key="measure_memory").disabled


def test_a_confirmed_limit_is_a_wall_a_table_and_a_rate(engine: Any) -> None:
    at = unfold(open_page("batch", run=kept(engine, noise=make_noise_study(RUN), memory=memory_study())), FULL)
    says(at, *LARGEST)
    spec = json.loads(at.get("plotly_chart")[0].proto.spec)
    assert [s["x0"] for s in spec["layout"]["shapes"] if s.get("name") == "memory limit"] == [500]
    unfold(at, "Memory")
    says(at, *MEASURED, "1 of 3")
    assert [metric.value for metric in at.metric][:2] == ["500", "520"]
    table = at.table[0].value
    assert list(table["Outcome"]) == ["fitted", "fitted", "out of memory"]
    assert at.query_params["memory"] == "20260107-memory"


def test_what_one_probe_alone_says_stays_a_prediction() -> None:
    limit = limit_of(memory_study(probes=(make_probe(64, 900_000_000),)), ())
    assert (limit.label, limit.low is not None and limit.low >= 64) == ("predicted", True)
    assert limit.low <= limit.largest <= limit.high
    near = memory_study(limit_bytes=1_200_000_000, probes=(make_probe(50_000, 1_199_000_000),))
    assert limit_of(near, ()).low == 50_000  # it got through, however near the limit
    limit = limit_of(memory_study(probes=(make_probe(64, None),)), ())
    assert limit.label == "predicted"
    assert limit.high < 64
    limit = limit_of(memory_study(probes=(make_probe(1, None),)), ())
    assert (limit.largest, limit.label) == (0, "measured")
    limit = limit_of(memory_study(probes=(make_probe(65_536, 900_000_000),)), ())
    assert (limit.largest, limit.label) == (65_536, "measured")


def test_memory_of_a_run_from_elsewhere_is_predicted_for_its_own_machine(example: Run) -> None:
    at = unfold(open_page("batch", run=example.id), "Memory")
    text = text_of(at)
    assert "of another machine" in text
    assert "within 11.6 GB" in text  # 90 % of the 12 GiB that its machine had free
    assert not [button for button in at.button if button.key == "measure_memory"]
