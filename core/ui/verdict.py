"""The verdict before anything else: a sentence, its label, the numbers it rests on, and what qualifies it."""

from __future__ import annotations

from typing import Literal

import streamlit as st

from core.analysis.answer import Answer, SpeedUp, Verdict
from core.figures.marks import interval_words
from core.figures.style import environment_line, number, workload_line
from core.results import Label, Run
from core.ui.states import ICONS, notices
from core.ui.words import LABEL_ICONS, LABELS

LABEL_COLOURS: dict[Label, Literal["green", "blue", "violet"]] = {
    "measured": "green",
    "recorded": "blue",
    "modelled": "violet",
}
DRAW_NOTICE = {"info": st.info, "warning": st.warning, "error": st.error}
SHOWN_NOTICES = 3


def card(
    run: Run, answer: Answer | None, *, heading: str = "Verdict", notices_shown: int | None = SHOWN_NOTICES
) -> None:
    """Card with the verdict of a run, and below it what qualifies it, ``notices_shown`` of them unfolded.

    None leaves them to the page, which must call :func:`show_notices` itself.
    """
    with st.container(border=True):
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            st.markdown(f"**{heading}**", width="content")
            st.badge(run.label, icon=LABEL_ICONS[run.label], color=LABEL_COLOURS[run.label], help=LABELS[run.label])
            if run.status != "finished":
                st.badge(run.status, icon=":material/flag:", color="orange")
        st.subheader(headline(answer), anchor=False)
        st.caption(f"{plain(workload_line(run))}  \n{plain(environment_line(run))}")
        if answer is not None:
            _numbers(answer)
    if notices_shown is not None:
        show_notices(run, answer, notices_shown)


def headline(answer: Answer | None) -> str:
    """The verdict as a sentence, safe inside Markdown."""
    return plain(answer.verdict.sentence) if answer is not None else "Nothing was measured."


def plain(text: str) -> str:
    """Text whose characters Markdown would take for markup, escaped (a name may hold any of them)."""
    for character in "\\`*_[]$<>~#|":
        text = text.replace(character, f"\\{character}")
    return text.replace(":", "&#58;")


def _numbers(answer: Answer) -> None:
    verdict = answer.verdict
    with st.container(horizontal=True):
        for crossover in verdict.crossovers[:2]:
            words = interval_words(crossover.batch, crossover.low, crossover.high)
            value, _, interval = words.partition(" ")
            st.metric(
                "Crossover", f"batch {value}", delta_color="off", delta_arrow="off", delta=interval.strip("()"),
                help="Where the faster target changes, with its 95 % interval.",
            )  # fmt: skip
        if verdict.lead is not None:
            lead = verdict.lead
            value, _, interval = interval_words(lead.from_batch, lead.low, lead.high).partition(" ")
            st.metric(
                f"{lead.target} ahead ≥ {number(100 * lead.margin)} %", f"from {value}", delta=interval.strip("()"),
                delta_color="off", delta_arrow="off",
                help="The lead: from this batch on, this target is ahead by at least the margin.",
            )  # fmt: skip
        _at_ends(answer, verdict)


def _at_ends(answer: Answer, verdict: Verdict) -> None:
    """How much faster the faster target is at the largest batch that both have; nobody, where parity is possible."""
    if not answer.speed_ups:
        return
    value, bounds, who = ahead_at(answer.speed_ups[-1], verdict.targets)
    st.metric(
        f"{who} at batch {answer.speed_ups[-1].batch:,}", value, delta=bounds, delta_color="off", delta_arrow="off",
        help="Speed-up at the largest batch that both targets have, with its 95 % interval.",
    )  # fmt: skip


def ahead_at(speed_up: SpeedUp, targets: tuple[str, str]) -> tuple[str, str, str]:
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
    for notice in found[:unfolded]:
        DRAW_NOTICE[notice.level](plain(notice.text), icon=ICONS[notice.level])
    if len(found) > unfolded:
        with st.expander(f"{len(found) - unfolded} {'more ' if unfolded else ''}to know about this run"):
            for notice in found[unfolded:]:
                st.markdown(f"- {plain(notice.text)}")
    if answer is not None and answer.verdict.next_batch is not None and run.status != "running":
        st.caption(f"Next batch size worth measuring: {answer.verdict.next_batch:,}.")
