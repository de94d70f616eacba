"""The verdict before anything else: a sentence, its label, its numbers, and what qualifies it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import streamlit as st

from core.base.numbers import bounded, interval_words, number
from core.base.text import sentence_case
from core.figures.style import environment_line
from core.rounds.answer.answer import Answer, Fit, SpeedUp, machine_badge, machine_line
from core.rounds.answer.baseline import baseline_table, boundary_label, is_change
from core.rounds.answer.loop import loop_lines
from core.rounds.answer.reliability import output_difference_lines
from core.rounds.answer.tokens import token_lines
from core.rounds.ran_as import ran_line
from core.rounds.run import Run
from core.rounds.show.figures import workload_line
from core.ui import more_time
from core.ui.card import Badge, draw_notes, interval_metric, label_badge, metric, result_card
from core.ui.notices import notices
from core.ui.tables import static_table
from core.ui.words import plain

SHOWN_NOTICES = 3
SHOWN_BOUNDARIES = 4
NOT_CLEAR = "not clear"


def card(
    run: Run, answer: Answer | None, *, heading: str = "Verdict", notices_shown: int | None = SHOWN_NOTICES,
    brief: bool = False,
) -> None:  # fmt: skip
    """Show the card with a run's verdict, and below it what qualifies it, ``notices_shown`` of them unfolded.

    None leaves them to the page, which must call :func:`show_notices` itself. A ``brief`` card also leaves to the page
    the :func:`numbers` and how the targets ran (:func:`how_it_ran`).
    """
    sentence = answer.verdict.sentence if answer is not None else "Nothing was measured."
    about, more = how_it_ran(run, answer)
    if brief:
        about, more = (" · ".join(about[-2:]),), ()
    if answer is not None and not answer.verdict.has_interval:  # so that no number stands in the headline
        sentence, _, values = sentence.partition(". ")
        sentence, more = f"{sentence.rstrip('.')}.", (*filter(None, (values,)), *more)
    more_below = partial(more_time.below, run, answer)
    badges = [label_badge(run.label), *machine_badges(answer)]
    with result_card(heading, badges, sentence, about, status=run.status, more=more, below=more_below):
        if answer is not None and not brief:
            numbers(run, answer)
            if len(run.names) > 2:
                against_baseline(run, answer)
    if notices_shown is not None:
        show_notices(run, answer, notices_shown)


def machine_badges(answer: Answer | None) -> list[Badge]:
    """Return the badge of a busy or unsteady machine, if it was one."""
    if answer is None or not (words := machine_badge(answer.verdict.machine)):
        return []
    return [Badge(words, ":material/groups:", "orange", " ".join(machine_line(answer.verdict.machine)))]


def how_it_ran(run: Run, answer: Answer | None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return lines on how, where and on what the targets ran; and apart, for one or two, those on Keras's own loop."""
    loops = loop_lines(run, answer)
    more, below = ((), loops) if len(run.names) > 2 else (loops, ())  # for many targets they would push the table down
    ran = (*token_lines(run, answer), *ran_line(run), *output_difference_lines(run))
    return (*ran, *below, workload_line(run), environment_line(run)), more


def numbers(run: Run, answer: Answer) -> None:
    """Show the sentence's numbers: one target's fit, two targets' crossovers, or the fastest of more targets.

    Only numbers with an interval are shown.
    """
    with st.container(horizontal=True):
        if len(run.names) == 1:
            _fit(answer.fits[0])
        elif len(run.names) == 2:
            _crossovers(run, answer)
        else:
            _boundaries(run, answer)


def _fit(fit: Fit | None) -> None:
    if fit is None or not fit.trusted:
        return
    if fit.floor_low_ms is not None and fit.floor_high_ms is not None:
        floor = bounded(fit.floor_ms, fit.floor_low_ms, fit.floor_high_ms)
        meaning = "What a step costs however small the batch, with its 95 % interval."
        interval_metric("Fixed cost, fitted", floor, meaning, after=" ms")
    if fit.slope_low_ms is not None and fit.slope_high_ms is not None:
        slope = bounded(1000 * fit.slope_ms, 1000 * fit.slope_low_ms, 1000 * fit.slope_high_ms)
        meaning = "What each further sample costs, with its 95 % interval."
        interval_metric("Cost per sample, fitted", slope, meaning, after=" µs")
    half, low, high = fit.half_overhead_batch, fit.half_overhead_low, fit.half_overhead_high
    if half is not None and low is not None and high is not None:
        meaning = "Above this batch more than half of a step is work that grows with the batch."
        interval_metric("Half of a step is fixed cost", interval_words(half, low, high), meaning, before="at batch ")


def _crossovers(run: Run, answer: Answer) -> None:
    verdict = answer.verdict
    for crossover in verdict.crossovers[:2]:
        if crossover.low is not None and crossover.high is not None:
            words = interval_words(crossover.batch, crossover.low, crossover.high)
            meaning = "Where the faster target changes, with its 95 % interval."
            interval_metric("Crossover", words, meaning, before="batch ")
    lead = verdict.lead
    if lead is not None and lead.low is not None and lead.high is not None:
        words = interval_words(lead.from_batch, lead.low, lead.high)
        meaning = "From this batch on the target is faster by at least so much."
        who = sentence_case(run.name_of(lead.target))
        interval_metric(f"{who} ≥ {number(100 * lead.margin)} % faster", words, meaning, before="from batch ")
    _at_end(run, answer)


def _at_end(run: Run, answer: Answer) -> None:
    """Show the speed-up at the largest batch that both targets have."""
    if not answer.speed_ups or answer.speed_ups[-1].low is None:
        return
    if answer.verdict.kind == "inconclusive" and answer.verdict.lead is None:
        return  # nothing is claimed of any batch, so not of this one
    value, bounds, who = faster_at(answer.speed_ups[-1], run.names)
    meaning = "Speed-up at the largest batch that both targets have, with its 95 % interval."
    name = "Speed-up" if value == NOT_CLEAR else sentence_case(who)
    metric(f"{name} at batch {answer.speed_ups[-1].batch:,}", value, bounds, meaning)


def _boundaries(run: Run, answer: Answer) -> None:
    """Show which target is the fastest from which batch on."""
    boundaries = answer.fastest.boundaries if answer.fastest is not None else ()
    for boundary in [b for b in boundaries if is_change(b) and b.low is not None][:SHOWN_BOUNDARIES]:
        words = interval_words(boundary.batch, boundary.low, boundary.high)
        meaning = "Where the fastest target changes; the 95 % intervals of all changes hold together."
        interval_metric(boundary_label(run, boundary), words, meaning, before="from batch ")


def against_baseline(run: Run, answer: Answer) -> None:
    """Show each target against the first, as a table."""
    baseline = baseline_table(run, answer)
    st.caption(plain(f"Speed-up over {run.names[0]}, the baseline, {run.label}; in brackets 95 % intervals."))
    static_table(baseline.rows, [plain(name) for name in baseline.columns])


def faster_at(speed_up: SpeedUp, targets: Sequence[str]) -> tuple[str, str, str]:
    """Return value, interval and target in words at one batch; “not clear” with no interval or with parity in it."""
    ratio, low, high = speed_up.ratio, speed_up.low, speed_up.high
    if low is None or high is None:
        return NOT_CLEAR, "no interval", targets[1]
    if low <= 1 <= high:
        return NOT_CLEAR, f"{number(low)}× to {number(high)}×", targets[1]
    second = ratio >= 1
    ends = (low, high) if second else (1 / high, 1 / low)
    value = f"{number(ratio if second else 1 / ratio)}× faster"
    return value, f"{number(ends[0])}× to {number(ends[1])}×", targets[1] if second else targets[0]


def show_notices(run: Run, answer: Answer | None, unfolded: int) -> None:
    """Show what qualifies the verdict: the most important first, the rest folded."""
    draw_notes(notices(run, answer), unfolded)
