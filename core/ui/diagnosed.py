"""What a diagnosis says, on a page: the verdict, the chart, every remedy, what was not tried, how it was measured."""

from __future__ import annotations

import json
from functools import partial
from typing import Literal, NamedTuple
from urllib.parse import urlencode, urlsplit, urlunsplit

import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from core import figures
from core.analysis.findings import DiagnosisAnswer, Finding, Judgement, diagnose
from core.experiment import Diagnosis
from core.export import diagnosis_data
from core.figures.diagnosis_charts import gain_words, measured_findings, variant_title, whole_title
from core.figures.style import environment_line, workload_line
from core.results import Environment, Run
from core.ui import charts, evidence, registry
from core.ui.states import ICONS, Notice, progress_words
from core.ui.verdict import DRAW_NOTICE, LABEL_COLOURS, plain
from core.ui.words import LABEL_ICONS, LABELS

MIN_STARTS = 3  # of the workers; with fewer, intervals rest on how much processes differ elsewhere
SHOWN_GAINS = 3


class Head(NamedTuple):
    """How a verdict is told apart at a glance: icon, words, colour."""

    icon: str
    words: str
    colour: Literal["green", "orange", "grey", "red"]


HEADS: dict[str, Head] = {
    "helps": Head(":material/check_circle:", "helps", "green"),
    "helps_but_behind": Head(":material/trending_up:", "helps, still behind", "orange"),
    "none_helps": Head(":material/do_not_disturb_on:", "none helps", "grey"),
    "none_helps_behind": Head(":material/do_not_disturb_on:", "none helps", "grey"),
    "open": Head(":material/help:", "open", "orange"),
    "failed": Head(":material/error:", "nothing measured", "red"),
}
JUDGEMENTS: dict[Judgement, tuple[str, str]] = {
    "helps": (":material/check_circle:", "helps"),
    "unclear": (":material/help:", "unclear, the interval is too wide"),
    "no effect": (":material/trending_flat:", "no effect"),
    "hurts": (":material/trending_down:", "hurts"),
    "failed": (":material/error:", "failed"),
    "not tried": (":material/remove:", "not tried"),
}


def show(run: Run, study_id: str, diagnosis: Diagnosis) -> None:
    """Verdict and chart; beyond the embedded view also every remedy, the readings and how it was measured."""
    answer = _answer(registry.revision(run), study_id, run, diagnosis)
    embedded = st.context.is_embedded
    _card(run, diagnosis, answer)
    for notice in notices(run, diagnosis, answer)[: 1 if embedded else None]:
        DRAW_NOTICE[notice.level](plain(notice.text), icon=ICONS[notice.level])
    if measured_findings(answer):
        _chart(run, study_id, diagnosis, answer)
    if embedded:
        return
    _remedies(diagnosis, answer)
    _not_measured(answer)
    _readings(run, answer)
    _how_measured(run, diagnosis)
    _take_along(run, study_id, diagnosis, answer)


@st.cache_resource(max_entries=8, show_spinner=False)
def _answer(key: registry.Revision, study_id: str, _run: Run, _diagnosis: Diagnosis) -> DiagnosisAnswer:  # noqa: ARG001
    return diagnose(_run, _diagnosis)


def _card(run: Run, diagnosis: Diagnosis, answer: DiagnosisAnswer) -> None:
    experiment, mark = diagnosis.experiment, HEADS[answer.reason]
    with st.container(border=True):
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            st.markdown("**Diagnosis**", width="content")
            st.badge(mark.words, icon=mark.icon, color=mark.colour)
            st.badge(experiment.label, icon=LABEL_ICONS[experiment.label], color=LABEL_COLOURS[experiment.label],
                     help=LABELS[experiment.label])  # fmt: skip
            if experiment.status != "finished":
                st.badge(experiment.status, icon=":material/flag:", color="orange")
        st.subheader(f"{mark.icon} {plain(answer.sentence)}", anchor=False)
        about = f"{workload_line(run)}; {run.target_names[diagnosis.target]} at batch {diagnosis.batch:,}"
        st.caption(f"{plain(about)}  \n{plain(environment_line(experiment))}")
        helping = [finding for finding in answer.findings if finding.judgement == "helps"][:SHOWN_GAINS]
        if helping:
            with st.container(horizontal=True):
                for finding in helping:
                    _gain(diagnosis, finding)


def _gain(diagnosis: Diagnosis, finding: Finding) -> None:
    value, _, interval = gain_words(finding).partition(" ")
    st.metric(
        plain(variant_title(diagnosis, finding)), f"{value} faster", delta=interval.strip("()"), delta_color="off",
        delta_arrow="off", help=f"Time per sample against the step as it is, {diagnosis.experiment.label}, with its "
        "95 % interval.",
    )  # fmt: skip


def notices(run: Run, diagnosis: Diagnosis, answer: DiagnosisAnswer) -> tuple[Notice, ...]:
    """What qualifies the verdict, most important first."""
    experiment, found = diagnosis.experiment, []
    rounds = f"{len(experiment.rounds):,} {'round' if len(experiment.rounds) == 1 else 'rounds'}"
    if experiment.status == "cancelled":
        rest = (
            f"what follows rests on the {rounds} measured until then."
            if experiment.rounds
            else "no round was measured."
        )
        found.append(Notice("info", f"This diagnosis was cancelled; {rest}"))
    unclear = [variant_title(diagnosis, f) for f in answer.findings if f.judgement == "unclear"]
    if unclear:
        found.append(
            Notice(
                "warning",
                f"The rounds do not settle whether these help: {', '.join(unclear)}. A larger budget makes their "
                "intervals narrower.",
            )
        )
    starts = _starts(diagnosis)
    if 0 < starts < MIN_STARTS:
        found.append(
            Notice(
                "info",
                f"The workers were started {'once' if starts == 1 else 'twice'} only, so intervals allow for how much "
                "processes differ elsewhere. A larger budget makes them narrower.",
            )
        )
    if not same_machine(run.environment, experiment.environment):
        found.append(
            Notice(
                "warning",
                "The sweep and this diagnosis name different machines. Gains are of the diagnosis's machine; "
                "step times and crossover of the sweep are of its own.",
            )
        )
    found += [Notice("warning", warning.text) for warning in answer.warnings]
    return tuple(found)


def same_machine(first: Environment | None, second: Environment | None) -> bool:
    """Whether two environments name the same machine, as far as is known."""
    if first is None or second is None:
        return True
    return first.hostname_hash == second.hostname_hash and first.cpu == second.cpu


def _starts(diagnosis: Diagnosis) -> int:
    return len({block.process for item in diagnosis.experiment.rounds for block in item.blocks})


def _chart(run: Run, study_id: str, diagnosis: Diagnosis, answer: DiagnosisAnswer) -> None:
    with st.container(border=True):
        st.plotly_chart(
            _figure(charts.is_dark(), registry.revision(run), study_id, run, diagnosis, answer), theme=None,
            key="chart-diagnosis", config=figures.chart_config("svg", f"breakeven-{run.id}-diagnosis"),
            alt=f"What each remedy gains, with 95 % intervals. {answer.sentence}",
        )  # fmt: skip


@st.cache_resource(max_entries=12, show_spinner=False)
def _figure(
    dark: bool,
    key: registry.Revision,  # noqa: ARG001  # of the cache
    study_id: str,  # noqa: ARG001
    _run: Run,
    _diagnosis: Diagnosis,
    _answer: DiagnosisAnswer,
) -> go.Figure:
    figure = figures.diagnosis_figure(_run, _diagnosis, _answer)
    return figures.on_dark(figure) if dark else figure


def _remedies(diagnosis: Diagnosis, answer: DiagnosisAnswer) -> None:
    """A fold for each remedy that was measured; those that help are open."""
    found = measured_findings(answer)
    if not found:
        return
    st.subheader(f"Every remedy that was tried ({diagnosis.experiment.label})", anchor=False)
    for finding in found:
        icon, words = JUDGEMENTS[finding.judgement]
        label = f"**{plain(whole_title(diagnosis, finding))}**, {words}, {plain(gain_words(finding))}"
        with st.expander(label, icon=icon, expanded=finding.judgement == "helps"):
            st.markdown("  \n".join(f"**{name}** {plain(text)}" for name, text in details(finding)))


def details(finding: Finding) -> tuple[tuple[str, str], ...]:
    """What is known of a remedy, part by part, each with its name."""
    others = f"{finding.others}." if finding.others else ""
    parts = (
        ("Evidence.", finding.evidence),
        ("Other settings.", others),
        ("Crossover.", finding.crossover),
        ("How.", finding.how),
        ("Beware.", finding.caution),
    )
    return tuple((name, text) for name, text in parts if text)


def _not_measured(answer: DiagnosisAnswer) -> None:
    rows = [
        {"Remedy": finding.title, "Outcome": JUDGEMENTS[finding.judgement][1], "Why": plain(finding.evidence)}
        for finding in answer.findings
        if finding.gain is None
    ]
    if rows:
        st.subheader("Not measured", anchor=False)
        st.table(pd.DataFrame(rows), border="horizontal", hide_index=True)


def _readings(run: Run, answer: DiagnosisAnswer) -> None:
    """What the sweep itself shows: start-up inside a timing, operations on the host, retracing."""
    if not answer.readings:
        return
    st.subheader(f"Seen in the sweep itself ({run.label})", anchor=False)
    for reading in answer.readings:
        level: Literal["warning", "info"] = "warning" if reading.matters else "info"
        DRAW_NOTICE[level](f"**{reading.title}.** {plain(reading.text)}", icon=ICONS[level])


def _how_measured(run: Run, diagnosis: Diagnosis) -> None:
    experiment = diagnosis.experiment
    st.subheader("How it was measured", anchor=False)
    facts = [
        ("Rounds", f"{len(experiment.rounds):,}", "One block of every variant, in an order that turns each round."),
        ("Variants", f"{len(experiment.arms):,}", "The step as it is, and every remedy with its settings."),
        ("Starts of the workers", f"{_starts(diagnosis)}", "Each start counts as one observation."),
        ("Crossovers measured anew", f"{len(diagnosis.reruns)}", "Whole small sweeps, one a remedy."),
        ("Time", progress_words(experiment.elapsed_s), f"Of a budget of {progress_words(experiment.budget_s)}."),
        *evidence.noise_facts([item.noise for item in experiment.rounds]),
    ]
    with st.container(horizontal=True):
        for name, value, meaning in facts:
            st.metric(name, value, help=meaning, border=True)
    st.caption(
        "Gain: time per sample as it is ÷ with the remedy, paired within rounds. A remedy helps when its whole 95 % "
        "interval lies above 1.03×."
    )
    evidence.environment(run.model_copy(update={"environment": experiment.environment}))


def _take_along(run: Run, study_id: str, diagnosis: Diagnosis, answer: DiagnosisAnswer) -> None:
    st.subheader("Take it along", anchor=False)
    if address := st.context.url:
        st.caption("Link to this evidence")
        query = urlencode({"run": run.id, "study": study_id})
        st.code(urlunsplit((*urlsplit(address)[:3], query, "")), language=None, wrap_lines=True)
    st.download_button(
        "JSON", data=partial(content, diagnosis, answer), file_name=f"breakeven-{run.id}-diagnosis.json",
        mime="application/json", icon=":material/download:", on_click="ignore", key="download-diagnosis",
        help="What the diagnosis says and every block that was measured.",
    )  # fmt: skip


def content(diagnosis: Diagnosis, answer: DiagnosisAnswer) -> bytes:
    """The file: as ``python -m core diagnose --out`` writes it."""
    return json.dumps(diagnosis_data(diagnosis, answer), ensure_ascii=False, allow_nan=False, indent=1).encode()
