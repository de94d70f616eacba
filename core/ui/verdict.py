"""The verdict before anything else: a sentence, its label, the numbers it rests on, and what qualifies it."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import streamlit as st

from core.figures.style import environment_line
from core.numbers import bounded, interval_words, number
from core.studies.sweep.answer import Answer, Fit, SpeedUp
from core.studies.sweep.baseline import baseline_table, boundary_label, is_change
from core.studies.sweep.figures import workload_line
from core.studies.sweep.loop import loop_lines
from core.studies.sweep.quantised import output_difference_lines
from core.studies.sweep.ran_as import ran_line
from core.studies.sweep.record import Run
from core.text import sentence_case
from core.ui.card import draw_notices, interval_metric, label_badge, metric, result_card
from core.ui.states import notices
from core.ui.tables import written
from core.ui.words import plain

SHOWN_NOTICES = 3
SHOWN_BOUNDARIES = 4


def card(
    run: Run, answer: Answer | None, *, heading: str = "Verdict", notices_shown: int | None = SHOWN_NOTICES
) -> None:
    """Card with the verdict of a run, and below it what qualifies it, ``notices_shown`` of them unfolded.

    None leaves them to the page, which must call :func:`show_notices` itself.
    """
    sentence = answer.verdict.sentence if answer is not None else "Nothing was measured."
    loops = loop_lines(run, answer)
    more, below = ((), loops) if len(run.names) > 2 else (loops, ())  # of many they would push the table down
    about = (*ran_line(run), *output_difference_lines(run), *below, workload_line(run), environment_line(run))
    with result_card(heading, [label_badge(run.label)], sentence, about, status=run.status, more=more):
        if answer is not None:
            _numbers(run, answer)
    if notices_shown is not None:
        show_notices(run, answer, notices_shown)


def _numbers(run: Run, answer: Answer) -> None:
    """What the sentence rests on: of one target its fit, of two the crossover, of more who is the fastest where."""
    with st.container(horizontal=True):
        if len(run.names) == 1:
            _fit(answer.fits[0])
        elif len(run.names) == 2:
            _crossovers(run, answer)
        else:
            _boundaries(run, answer)
    if len(run.names) > 2:
        _against_baseline(run, answer)


def _fit(fit: Fit | None) -> None:
    if fit is None or not fit.trusted:
        return
    floor = _bracketed(fit.floor_ms, fit.floor_low_ms, fit.floor_high_ms)
    interval_metric("Floor, fitted", floor, "The fixed cost of a step, with its 95 % interval.", after=" ms")
    slope = _bracketed(fit.slope_ms, fit.slope_low_ms, fit.slope_high_ms, 1000.0)
    meaning = "What each further sample costs, with its 95 % interval."
    interval_metric("Slope, fitted", slope, meaning, after=" µs a sample")
    if (half := fit.half_overhead_batch) is not None:
        words = interval_words(half, fit.half_overhead_low, fit.half_overhead_high)
        meaning = "Above this batch more than half of a step is work that grows with the batch."
        interval_metric("Half of a step is overhead", words, meaning, before="at batch ")


def _bracketed(value: float, low: float | None, high: float | None, scale: float = 1.0) -> str:
    if low is None or high is None:
        return f"{number(scale * value)} (no interval)"
    return bounded(scale * value, scale * low, scale * high)


def _crossovers(run: Run, answer: Answer) -> None:
    verdict = answer.verdict
    for crossover in verdict.crossovers[:2]:
        words = interval_words(crossover.batch, crossover.low, crossover.high)
        meaning = "Where the faster target changes, with its 95 % interval."
        interval_metric("Crossover", words, meaning, before="batch ")
    if (lead := verdict.lead) is not None:
        words = interval_words(lead.from_batch, lead.low, lead.high)
        meaning = "The lead: from this batch on, this target is ahead by at least the margin."
        who = sentence_case(run.name_of(lead.target))
        interval_metric(f"{who} ahead ≥ {number(100 * lead.margin)} %", words, meaning, before="from ")
    _at_end(run, answer)


def _at_end(run: Run, answer: Answer) -> None:
    """How much faster the faster target is at the largest batch that both have; nobody, where parity is possible."""
    if answer.speed_ups:
        value, bounds, who = ahead_at(answer.speed_ups[-1], run.names)
        meaning = "Speed-up at the largest batch that both targets have, with its 95 % interval."
        metric(f"{sentence_case(who)} at batch {answer.speed_ups[-1].batch:,}", value, bounds, meaning)


def _boundaries(run: Run, answer: Answer) -> None:
    """What is the fastest from which batch on."""
    changes = [one for one in answer.fastest.boundaries if is_change(one)] if answer.fastest is not None else []
    for boundary in changes[:SHOWN_BOUNDARIES]:
        words = interval_words(boundary.batch, boundary.low, boundary.high)
        meaning = "Where the fastest target changes; the 95 % intervals of all changes hold together."
        interval_metric(boundary_label(run, boundary), words, meaning, before="from batch ")


def _against_baseline(run: Run, answer: Answer) -> None:
    found = baseline_table(run, answer)
    st.caption(plain(f"Speed-up over {run.names[0]}, the baseline, {run.label}; in brackets 95 % intervals."))
    table = pd.DataFrame(found.rows, columns=[plain(name) for name in found.columns])
    st.table(written(table), border="horizontal", hide_index=True)


def ahead_at(speed_up: SpeedUp, targets: Sequence[str]) -> tuple[str, str, str]:
    """Value, interval and target in words, for one batch; ``no clear lead`` where the interval holds parity."""
    ratio, low, high = speed_up.ratio, speed_up.low, speed_up.high
    if low is not None and high is not None and low <= 1 <= high:
        return "no clear lead", f"{number(low)}× to {number(high)}×", targets[1]
    second = ratio >= 1
    bounds = "no interval"
    if low is not None and high is not None:
        ends = (low, high) if second else (1 / high, 1 / low)
        bounds = f"{number(ends[0])}× to {number(ends[1])}×"
    return f"{number(ratio if second else 1 / ratio)}× faster", bounds, targets[1] if second else targets[0]


def show_notices(run: Run, answer: Answer | None, unfolded: int) -> None:
    """What qualifies the verdict: the most important first, the rest folded away."""
    found = notices(run, answer)
    draw_notices(found[:unfolded])
    if len(found) > unfolded:
        with st.expander(f"{len(found) - unfolded} {'more ' if unfolded else ''}to know about this run"):
            for notice in found[unfolded:]:
                st.markdown(f"- {plain(notice.text)}")
    if answer is not None and answer.verdict.next_batch is not None and _can_go_on(run):
        st.caption(f"Next batch size worth measuring: {answer.verdict.next_batch:,}.")


def _can_go_on(run: Run) -> bool:
    """Whether another batch could be measured: not of a sweep that is running, or that somebody else published."""
    return run.status != "running" and run.label != "published"
