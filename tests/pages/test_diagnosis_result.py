"""The result on the Diagnosis page: each verdict, its qualifications, the choice of a diagnosis, the embedded view."""

from typing import Any

import pytest

from simulated.commands import holds
from simulated.diagnoses import helping_diagnosis, make_diagnosis
from simulated.pages import chart_titles, damage, open_page, text_of
from simulated.runs import make_run
from tests.support.diagnoses import add, kept

pytestmark = pytest.mark.usefixtures("this_machine")
RUN = make_run(4)
FOLDS = ("Every remedy that was tried", "Not measured", "Seen in the sweep itself", "How it was measured")
STEPS, RESIDENT = "32 steps per execution", "Data resident on the device"
CHART = "<b>What each remedy gains</b>"


def test_helping_remedies_are_ranked_with_gain_evidence_crossover_and_how(engine: Any) -> None:
    at = open_page("diagnosis", run=kept(engine, RUN, helping_diagnosis(RUN, label="measured")), folds=FOLDS)
    text = text_of(at)
    assert at.header[0].value.partition("execution")[2].startswith(" helps most&#58; 2.")
    assert at.header[0].value.startswith(":material/trending_up:")
    assert "Even so, 1" in text
    assert chart_titles(at) == [CHART]
    labels = [fold.label for fold in at.expander if "**" in fold.label]
    assert labels[0].startswith(f"**{STEPS}**, helps, 2.")
    assert labels[1].startswith("**XLA**, helps, 1.")
    holds(text, "**Evidence.** 0.80", "Before: 2 threads")
    assert "jit\\_compile=True" in "".join(m.value for m in at.markdown)
    holds(text, "**Beware.**", "A stopwatch around", "Rounds 18", "workers 3", "re-measured 1", "processes 3 %")
    opened = {fold.label.split("**")[1]: fold.proto.expanded for fold in at.expander if "**" in fold.label}
    assert opened.pop("XLA")
    assert opened.pop(STEPS)
    assert set(opened) >= {"Mixed precision (bfloat16)"}
    assert not any(opened.values()), "only helping remedies are unfolded"


def test_what_was_not_tried_or_failed_is_listed_with_the_reason(engine: Any) -> None:
    found = helping_diagnosis(RUN, failed={"xla": "The worker crashed."})
    at = open_page("diagnosis", run=kept(engine, RUN, found), folds=FOLDS)
    rows = at.table[0].value.set_index("Remedy")
    assert rows.loc["XLA"].iloc[0] == "failed"
    assert rows.loc[RESIDENT].iloc[0] == "not tried"


def test_none_helps_is_said_plainly_and_looks_different(engine: Any) -> None:
    at = open_page("diagnosis", run=kept(engine, RUN, make_diagnosis(RUN, processes=3, rounds=10)))
    icon, _, sentence = at.header[0].value.partition(" ")
    assert icon == ":material/do_not_disturb_on:"
    assert sentence.startswith("None of these")
    assert not [metric for metric in at.metric if "faster" in str(metric.value)]
    assert not [fold for fold in at.expander if "Several" in fold.label and fold.proto.expanded]


def test_diagnoses_of_other_runs_are_not_shown(engine: Any) -> None:
    kept(engine, RUN, helping_diagnosis(RUN))
    other = make_run(6)
    at = open_page("diagnosis", run=kept(engine, other))
    assert not chart_titles(at)


def test_a_diagnosis_that_cannot_be_read_is_said_and_others_stay(engine: Any) -> None:
    run_id = kept(engine, RUN, helping_diagnosis(RUN))
    add(engine, make_diagnosis(RUN), 9)
    damage(engine.store, "20260106-study9", '{"schema_version": 9}')
    at = open_page("diagnosis", run=run_id)
    assert "no Breakeven diagnosis" in text_of(at)
    next(box for box in at.selectbox if "study" in str(box.key)).select("20260106-study0").run()
    assert CHART in chart_titles(at)


def test_the_embedded_view_without_a_diagnosis_says_so(engine: Any) -> None:
    at = open_page("diagnosis", embedded=True, run=kept(engine, RUN))
    assert "no diagnosis yet." in text_of(at)
