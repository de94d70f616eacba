"""Common behaviour of all pages that measure: start, progress, cancel, refuse, fail, show stored results."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from core.studies.registry import kind_of
from core.studies.runner import Cancelled
from core.ui import running_line
from simulated.kinds import RUN
from simulated.pages import AT, chart_titles, ended, open_page, running, stop_time, text_of, with_gpu
from tests.support.places import (
    DIAGNOSIS,
    FRAMED,
    FRONTIER,
    MEMORY,
    NOISE,
    PIPELINE,
    PITFALLS,
    PLACES,
    SCALING,
    STUDIES,
    SWEEP,
    TASKS,
    TRACE,
    Place,
)  # fmt: skip
from tests.support.study_pages import start

pytestmark = [pytest.mark.usefixtures("this_machine"), pytest.mark.pages]


def left_s(at: Any) -> float:
    """Return the seconds at which the countdown beside a running measurement begins."""
    shown = [json.loads(element.proto.json) for element in at.get("bidi_component")]
    (left,) = [float(data["left_s"]) for data in shown if "left_s" in data]
    return left


every_task = pytest.mark.parametrize("place", TASKS, ids=str)
every_button = pytest.mark.parametrize("place", [*PLACES, *TASKS], ids=str)
every_place = pytest.mark.parametrize("place", PLACES, ids=str)
every_study = pytest.mark.parametrize("place", STUDIES, ids=str)
every_frame = pytest.mark.parametrize("place", FRAMED, ids=str)


@every_frame
@pytest.mark.usefixtures("no_example")
def test_nothing_is_drawn_before_a_measurement(engine: Any, place: Place) -> None:
    at = place.open(engine)
    assert "will be measured" in text_of(at)
    assert not chart_titles(at)
    assert not place.start(at).disabled
    assert not engine.jobs.started


@pytest.mark.parametrize(
    ("place", "bad"),
    [
        (FRONTIER, {
            "frontier_mlp_depth_low": (0, "between 1 and 64"),
            "frontier_mlp_width_high": (16, "must rise"),
            "frontier_mlp_batch_count": (40, "between 1 and 16"),
            "frontier_mlp_point_width": (64, "or none of them"),
            "frontier_budget": (1, "between 2 and 86,400 seconds"),
            "form_threads_frontier_0": (2, "choose targets that differ"),
            "form_frontier_mlp_classes": (0, "accepted are 1 to 10,000"),
        }),
        (PIPELINE, {
            "pipeline_batch": (0, "The batch size must lie between 1 and 65,536."),
            "pipeline_cost_random": (-1.0, "The preprocessing must lie between 0 and 1,000,000 µs"),
            "pipeline_budget": (1, "The budget must lie between 2 and 86,400 seconds."),
            "form_threads_pipeline": (0, "at least 1"),
        }),
        (SCALING, {
            "scaling_low": (0, "The smallest batch must lie between 1 and 65,536."),
            "scaling_high": (16, "The batch range 32 to 16 is not possible"),
            "scaling_budget": (5, "The budget must lie between 10 and 86,400 seconds."),
        }),
    ],
    ids=["frontier", "pipeline", "scaling"],
)  # fmt: skip
def test_a_bad_choice_gets_one_sentence_and_no_start(
    engine: Any, place: Place, bad: dict[str, tuple[float, str]]
) -> None:
    at = place.open(engine)
    for key, (value, sentence) in bad.items():
        usual = at.number_input(key=key).value
        at.number_input(key=key).set_value(value).run()
        (error,) = at.error
        assert sentence in error.value
        assert place.start(at).disabled
        at.number_input(key=key).set_value(usual)
    at.run()
    assert not place.start(at).disabled


@pytest.mark.parametrize(
    ("place", "targets"),
    [
        (SWEEP, ("cpu", "gpu:0", "cpu,threads=4", "cpu,execution=xla")),
        (FRONTIER, ("cpu", "gpu:0")),
        (PIPELINE, ("gpu:0",)),
    ],
    ids=str,
)
def test_with_a_gpu_it_is_the_proposed_target(
    engine: Any, monkeypatch: pytest.MonkeyPatch, place: Place, targets: tuple[str, ...]
) -> None:
    with_gpu(monkeypatch)
    at = place.open(engine)
    assert "No GPU" not in text_of(at)
    plan = start(engine, at, place.kind)
    chosen = tuple({str(arm.target) for arm in plan.arms}) if place is PIPELINE else plan.target_names
    assert chosen == targets


@every_place
def test_a_start_shows_progress_in_every_session_and_can_be_cancelled(
    engine: Any, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop_time(monkeypatch)
    engine.jobs.progress = AT
    at = place.open(engine)
    place.start(at).click().run()
    for session in (at, place.open(engine)):
        text = text_of(session)
        task, plan = engine.jobs.started[0]
        assert task is kind_of(place.kind)
        assert f"**{task.describe(plan)}**" in text
        assert [bar.value for bar in session.progress] == [25]
        assert session.progress[0].text == f"{AT.activity}. {place.counted}".strip().replace(": ", "&#58; ")
        assert left_s(session) == 90.0
        assert place.start(session).disabled
    at.button(key=f"cancel_{place.kind}").click().run()
    assert engine.jobs.cancelled == 1


@every_task
def test_a_task_under_way_is_waited_for_and_cannot_start_twice(engine: Any, place: Place) -> None:
    engine.jobs.show(running(place.kind, "Something"))
    at = place.open(engine)
    assert [bar.text.partition(". ")[0] for bar in at.progress] == ["Something"]
    assert place.start(at).disabled
    assert open_page().button(key="measure_sweep").disabled


@pytest.mark.parametrize(
    ("place", "says"), [(TRACE, "A study of x failed&#58; No trace."), (PITFALLS, "No trace.")], ids=str
)
def test_a_task_that_failed_says_why(engine: Any, place: Place, says: str) -> None:
    engine.jobs.show(ended(place.kind, error="No trace."))
    at = place.open(engine)
    assert [error.value for error in at.error] == [says]
    assert not place.start(at).disabled


@every_button
def test_a_refusal_at_the_last_moment_is_said_once(engine: Any, place: Place) -> None:
    engine.jobs.refusal = "Busy: x."
    at = place.open(engine)
    place.start(at).click().run()
    assert "Busy: x." in text_of(at)
    at.run()
    assert "Busy: x." not in text_of(at)


@every_button
def test_one_measurement_keeps_all_others_waiting(engine: Any, place: Place) -> None:
    engine.jobs.show(running("another", "Trace of y"))
    at = place.open(engine)
    assert "Trace of y" in text_of(at)
    assert place.start(at).disabled
    assert not at.progress


@every_button
def test_a_measurement_of_another_process_is_said(engine: Any, place: Place) -> None:
    engine.jobs.elsewhere = "Another Breakeven process (pid 7) is measuring: x."
    at = place.open(engine)
    assert "pid 7" in text_of(at)
    assert place.start(at).disabled


def test_a_page_sees_within_seconds_that_another_process_measures(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check for one look at the lock every three seconds; the page runs again only when its content has changed.

    The router does the same above every page (tests/pages/test_running_line.py).
    """
    seen: list[Any] = []
    reruns: list[bool] = []
    real = running_line._show
    monkeypatch.setattr(running_line, "_show", lambda *given: seen.append(given))
    open_page("frontier")
    [(page, was)] = seen
    assert was is None
    monkeypatch.setattr(running_line.st, "rerun", lambda: reruns.append(True))
    real(page, None)
    assert reruns == []
    engine.jobs.elsewhere = "Another Breakeven process (pid 7) is measuring: x."
    real(page, None)
    assert reruns == [True]
    busy = running_line.now()
    assert busy is not None
    real(page, busy)
    assert reruns == [True]
    engine.jobs.elsewhere = None
    real(page, busy)
    assert reruns == [True, True]


@every_place
def test_one_that_was_asked_to_stop_says_so_until_it_has(engine: Any, place: Place) -> None:
    engine.jobs.progress, engine.jobs.stopping = AT, True
    at = place.open(engine)
    place.start(at).click().run()
    assert [bar.text.partition("; ")[0] for bar in at.progress] == ["Stopping"]
    stop = at.button(key=f"cancel_{place.kind}")
    assert (stop.label, stop.disabled) == ("Stopping", True)


@every_place
def test_a_study_that_failed_says_why(engine: Any, place: Place) -> None:
    engine.jobs.show(ended(place.kind, error="TensorFlow is not installed."))
    at = place.open(engine)
    assert "not installed" in at.error[0].value
    assert not place.start(at).disabled


@every_place
def test_one_cancelled_before_its_first_round_is_no_error(engine: Any, place: Place) -> None:
    engine.jobs.show(ended(place.kind, error=str(Cancelled()), cancelled=True))
    at = place.open(engine)
    assert not at.error
    assert "Cancelled before" in text_of(at)


@every_place
def test_the_error_of_another_kind_is_not_shown(engine: Any, place: Place) -> None:
    engine.jobs.show(ended("trace", error="TensorFlow's profiler wrote no trace."))
    assert not place.open(engine).error


@pytest.mark.parametrize(
    ("place", "field", "choose", "chosen"),
    [
        (SWEEP, ("number_input", "form_high"), 256, lambda run: run.plan.batches[-1] == 256),
        (FRONTIER, ("number_input", "frontier_budget"), 77, lambda plan: plan.budget_s == 77),
        (PIPELINE, ("number_input", "pipeline_batch"), 48, lambda plan: plan.batch == 48),
        (SCALING, ("number_input", "scaling_budget"), 77, lambda plan: plan.budget_s == 77),
        (DIAGNOSIS, ("number_input", "diagnosis_budget"), 77.0, lambda plan: plan.budget_s == 77),
        (NOISE, ("number_input", "noise_budget"), 77.0, lambda plan: plan.budget_s == 77),
        (MEMORY, ("number_input", "memory_budget"), 77.0, lambda search: search.plan.budget_s == 77),
        (TRACE, ("selectbox", f"trace_batch-{RUN.id}-1"), RUN.batches[0], lambda asked: asked.batch == RUN.batches[0]),
    ],
    ids=lambda value: "" if callable(value) else str(value),
)
def test_a_change_just_before_the_click_is_what_starts(
    engine: Any, place: Place, field: tuple[str, str], choose: Any, chosen: Callable[[Any], bool]
) -> None:
    """Send both to the server in one run of the script, as when a field is left by clicking the button."""
    at = place.open(engine)
    element, key = field
    getattr(at, element)(key=key).set_value(choose)
    place.start(at).click().run()
    ((_, plan),) = engine.jobs.started
    assert chosen(plan)


@every_button
def test_a_choice_that_became_impossible_just_before_the_click_starts_nothing(engine: Any, place: Place) -> None:
    at = place.open(engine)
    engine.jobs.elsewhere = "Another Breakeven process (pid 7) is measuring: x."
    place.start(at).click().run()
    assert not engine.jobs.started
    assert "pid 7" in text_of(at)
