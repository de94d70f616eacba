"""The single next step, which fits the verdict; and the badge of a busy machine in every chart and report."""

from dataclasses import replace
from typing import Any

import pytest

from core.figures.style import words_of
from core.rounds.answer.analyse import analyse
from core.rounds.answer.answer import Answer, Machine
from core.rounds.answer.more_time import CLOSE, TOO_SMALL, MoreTime, next_step
from core.rounds.run import Run
from core.rounds.show.export import verdict_text
from core.rounds.show.figures import speed_up_figure, step_time_figure, throughput_figure
from core.rounds.show.overhead_figure import overhead_figure
from core.rounds.show.report import html_report, markdown_report
from simulated.runs import make_run

RUN = make_run(4, label="measured")
ANSWER = analyse(RUN)
BUSY = Machine(quiet=False, others_cores=1.36)


def on(machine: Machine, answer: Answer = ANSWER, **changes: Any) -> Answer:
    return replace(answer, verdict=replace(answer.verdict, machine=machine, **changes))


def needing(monkeypatch: pytest.MonkeyPatch, more: MoreTime) -> None:
    monkeypatch.setattr("core.rounds.answer.more_time.more_time", lambda *_: more)


@pytest.mark.parametrize("machine", [BUSY, Machine(unstable=True)], ids=["busy", "unsteady"])
def test_on_a_busy_or_unsteady_machine_other_programs_are_closed_first(machine: Machine) -> None:
    step = next_step(RUN, on(machine))
    assert (step.action, step.sentence, step.more) == ("close_programs", CLOSE, None)
    assert "more" not in step.sentence


def test_an_open_verdict_names_a_time_that_will_do(monkeypatch: pytest.MonkeyPatch) -> None:
    needing(monkeypatch, MoreTime("clear", 90.0))
    step = next_step(RUN, on(Machine(), kind="inconclusive", reason="straddles", crossovers=(), lead=None))
    assert (step.action, step.urgent) == ("measure_more", True)
    assert step.sentence == "About 1 min 30 s more will probably make it clear."


def test_a_difference_too_small_for_an_hour_asks_for_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    needing(monkeypatch, MoreTime("clear", None))
    step = next_step(RUN, on(Machine(), kind="inconclusive", reason="straddles", crossovers=(), lead=None))
    assert (step.action, step.sentence) == ("none", TOO_SMALL)


@pytest.mark.parametrize("seconds", [None, 45.0])
def test_a_stated_crossover_is_never_too_small_to_become_clear(
    monkeypatch: pytest.MonkeyPatch, seconds: float | None
) -> None:
    needing(monkeypatch, MoreTime("narrower", seconds))
    step = next_step(RUN, ANSWER)
    assert ANSWER.verdict.kind == "crossover"
    assert ("45 s more" in step.sentence) is (seconds is not None)
    assert not step.urgent


def test_one_ahead_throughout_names_the_batch_towards_which_the_difference_shrinks() -> None:
    run = make_run(6, floors_ms=(0.3, 1.2), slopes_ms=(0.01, 0.02))
    step = next_step(run, analyse(run))
    assert (step.action, step.batch) == ("measure_batch", analyse(run).verdict.next_batch)


@pytest.mark.parametrize("change", [{"status": "running"}, {"label": "published"}])
def test_there_is_none_for_a_run_that_goes_on_or_was_published(change: dict[str, Any]) -> None:
    run = RUN.model_copy(update=change)
    assert next_step(run, on(BUSY)).action == "none"


@pytest.mark.parametrize("make", [step_time_figure, throughput_figure, speed_up_figure, overhead_figure])
def test_a_busy_machine_is_named_in_the_picture_and_a_quiet_one_is_not(make: Any) -> None:
    line = "Busy machine: other programs disturbed most rounds and used 1.4 cores."
    assert words_of(make(RUN, on(BUSY))).foot[0] == line
    assert line not in words_of(make(RUN, ANSWER)).foot


@pytest.mark.parametrize("report", [html_report, markdown_report, verdict_text])
def test_a_busy_machine_is_named_in_every_report(report: Any) -> None:
    assert "Busy machine:" in report(RUN, on(BUSY))
    assert "usy machine" not in report(RUN, ANSWER)


def test_a_single_target_on_a_busy_machine_has_the_badge_too() -> None:
    run = make_run(4, floors_ms=(0.3,), slopes_ms=(0.02,))
    assert analyse(run).verdict.machine.quiet
    assert not analyse(disturbed(run)).verdict.machine.quiet


def disturbed(run: Run) -> Run:
    rounds = (
        item.model_copy(update={"interference": item.interference.model_copy(update={"other_cpu_pct": 120.0})})
        for item in run.rounds
    )
    return run.model_copy(update={"rounds": tuple(rounds)})
