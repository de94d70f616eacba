"""The chart of a diagnosis: every measured remedy with its interval, ranked, distinguishable without colour."""

import math
from dataclasses import replace

import plotly.graph_objects as go
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.studies.diagnosis.answer import DiagnosisAnswer, Finding, Judgement, diagnose
from core.studies.diagnosis.figures import LOOKS, diagnosis_figure, gain_words, measured_findings, variant_title
from core.studies.diagnosis.record import Diagnosis
from simulated.diagnoses import HELPING, helping_diagnosis, make_diagnosis
from simulated.runs import make_run

RUN = make_run(1)
DIAGNOSIS = helping_diagnosis(RUN)
HELPED = diagnose(RUN, DIAGNOSIS)
HURTING = {"steps-32": 2.3, "threads-1": 1.2, "xla": 0.7}


def drawn(diagnosis: Diagnosis) -> tuple[go.Figure, DiagnosisAnswer]:
    answer = diagnose(RUN, diagnosis)
    return diagnosis_figure(RUN, diagnosis, answer), answer


def words(figure: go.Figure) -> list[str]:
    return [annotation.text for annotation in figure.layout.annotations]


def marks(figure: go.Figure) -> dict[str, go.Scatter]:
    return {trace.name: trace for trace in figure.data if trace.type == "scatter"}


def test_every_measured_remedy_has_a_row_with_its_gain_and_interval() -> None:
    diagnosis = helping_diagnosis(RUN)
    figure, answer = drawn(diagnosis)
    text = words(figure)
    assert len(measured_findings(answer)) == 5
    for finding in measured_findings(answer):
        bold = finding.judgement == "helps"
        for expected in (variant_title(diagnosis, finding), gain_words(finding)):
            assert (f"<b>{expected}</b>" if bold else expected) in text
    best = answer.findings[0]
    assert best.code == "steps-32"
    assert best.gain == pytest.approx(HELPING["steps-32"], rel=0.02)
    trace = marks(figure)["helps"]
    assert trace.x[0] == best.gain
    assert best.gain + trace.error_x.array[0] == pytest.approx(best.high)
    assert best.gain - trace.error_x.arrayminus[0] == pytest.approx(best.low)


def test_rows_are_ranked_and_judgements_differ_in_symbol_and_name() -> None:
    figure, answer = drawn(make_diagnosis(RUN, HURTING, processes=1, rounds=10, noise=0.02))
    ranked = [finding.gain for finding in measured_findings(answer)]
    rows = sorted((y, x) for trace in marks(figure).values() for x, y in zip(trace.x, trace.y, strict=True))
    assert [x for _, x in rows] == ranked
    assert figure.layout.yaxis.range[0] > figure.layout.yaxis.range[1]  # the first row on top
    kinds = {finding.judgement for finding in measured_findings(answer)}
    assert {"helps", "hurts"} <= kinds
    found = marks(figure)
    assert set(found) == {LOOKS[kind].words for kind in kinds}
    assert len({trace.marker.symbol for trace in found.values()}) == len(found)
    assert len({look.symbol for look in LOOKS.values()}) == len(LOOKS)


def test_label_environment_workload_target_and_what_was_not_measured_stand_inside_the_picture() -> None:
    text = " ".join(words(drawn(helping_diagnosis(RUN, label="measured", failed={"xla": "The worker crashed."}))[0]))
    assert "measured · 2026-01-06" in text
    assert "784-128-10 (training, adam)" in text
    assert "at batch 8" in text
    assert "XLA (failed)" in text
    assert "(not tried)" in text


def test_without_intervals_nothing_is_drawn_and_the_words_say_so() -> None:
    figure, answer = drawn(make_diagnosis(RUN, HELPING, processes=1, rounds=3))
    assert {finding.judgement for finding in measured_findings(answer)} == {"unclear"}
    assert not marks(figure), "nothing is drawn that has no interval"
    assert sum(text.count("too few rounds") for text in words(figure)) > len(measured_findings(answer)) - 1


@settings(max_examples=40)
@given(
    st.lists(
        st.tuples(
            st.floats(0.01, 100.0), st.floats(1.0, 1e4), st.sampled_from(sorted(LOOKS)), st.booleans()
        ),
        min_size=1,
        max_size=9,
    )
)  # fmt: skip
def test_every_gain_lies_inside_the_axis_however_wide_the_intervals(
    drawn_gains: list[tuple[float, float, Judgement, bool]],
) -> None:
    found = tuple(_finding(HELPED.findings[0], *values) for values in drawn_gains)
    figure = diagnosis_figure(RUN, DIAGNOSIS, replace(HELPED, findings=found))
    low, high = (10**end for end in figure.layout.xaxis.range)
    assert low < 1 < high
    assert all(low < x < high for trace in marks(figure).values() for x in trace.x)
    assert high / low < 16 * max(1.0, *(gain for gain, *_ in drawn_gains)) / min(1.0, *(g for g, *_ in drawn_gains))
    assert figure.layout.xaxis.tickvals


def _finding(like: Finding, gain: float, width: float, judgement: Judgement, known: bool) -> Finding:
    low, high = (gain / width, gain * width) if known else (None, None)
    assert math.isfinite(gain)
    return replace(like, gain=gain, low=low, high=high, judgement=judgement)
