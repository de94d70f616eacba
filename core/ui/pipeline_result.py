"""What a pipeline study says, on a page: the verdict, charts, table, how it was measured, the file and its address."""

from __future__ import annotations

import json
from functools import partial
from urllib.parse import urlsplit, urlunsplit

import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from core import figures
from core.analysis.pipeline import Fed, PipelineAnswer, pipeline_answer
from core.experiment import Arm, Experiment
from core.figures.pipeline_charts import calls_figure, cost_figure, feeding_figure
from core.figures.style import environment_line, number
from core.pipeline_export import pipeline_data
from core.pipeline_study import BASE, has_work
from core.ui import charts
from core.ui.states import progress_words
from core.ui.tables import environment_table
from core.ui.verdict import LABEL_COLOURS, plain
from core.ui.words import LABEL_ICONS, LABELS, OUTCOMES

DRAW = {"feeding": feeding_figure, "cost": cost_figure, "calls": calls_figure}
TITLES = {
    "feeding": "Step time by way of feeding",
    "cost": "Step time and input-bound share by preprocessing cost",
    "calls": "Step time by parallel calls",
}
RANDOM_BESIDE = (
    "Your own data are read in all tf.data rows. The resident and the host row use random arrays of the same shape: "
    "they show the step without any reading."
)


def show(study_id: str, experiment: Experiment) -> None:
    """The verdict, charts, table, how it was measured, and the file."""
    try:
        answer = pipeline_answer(experiment)
    except ValueError as error:
        st.info(plain(str(error)), icon=":material/info:")
        return
    _card(experiment, answer)
    varies_calls = has_work(_base(experiment).pipeline)
    for kind in DRAW:
        if kind != "calls" or varies_calls:
            _chart(kind, study_id, experiment, answer)
    if st.context.is_embedded:
        return
    if not varies_calls:
        st.caption("Parallel calls were not varied: the map has nothing to do without preprocessing or your own data.")
    _table(experiment, answer)
    _how_measured(experiment)
    _take_along(study_id, experiment, answer)


def _base(experiment: Experiment) -> Arm:
    return experiment.arms[experiment.index_of(BASE) or 0]


def _take_along(study_id: str, experiment: Experiment, answer: PipelineAnswer) -> None:
    st.subheader("Take it along", anchor=False)
    if address := st.context.url:
        st.caption("Link to this evidence")
        st.code(urlunsplit((*urlsplit(address)[:3], f"study={study_id}", "")), language=None, wrap_lines=True)
    st.download_button(
        "JSON", data=partial(_file, experiment, answer), file_name=f"breakeven-pipeline-{study_id}.json",
        mime="application/json", icon=":material/download:", on_click="ignore", key="download-pipeline",
        help="What the study says and every block that was measured.",
    )  # fmt: skip


def _file(experiment: Experiment, answer: PipelineAnswer) -> bytes:
    text = json.dumps(pipeline_data(experiment, answer), ensure_ascii=False, allow_nan=False, indent=1)
    return text.encode()


def _card(experiment: Experiment, answer: PipelineAnswer) -> None:
    arm = _base(experiment)
    with st.container(border=True):
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            st.markdown("**Input pipeline**", width="content")
            st.badge(experiment.label, icon=LABEL_ICONS[experiment.label], color=LABEL_COLOURS[experiment.label],
                     help=LABELS[experiment.label])  # fmt: skip
            if experiment.status != "finished":
                st.badge(experiment.status, icon=":material/flag:", color="orange")
        st.subheader(plain(answer.sentence), anchor=False)
        for part in (answer.prefetch, answer.starvation):
            if part is not None:
                st.markdown(plain(part.sentence))
        about = f"{experiment.workload.title} on {arm.target}, batch {arm.batch:,}; {arm.pipeline.title}"
        st.caption(f"{plain(about)}  \n{plain(environment_line(experiment))}")
    if found := notices(experiment, answer):
        st.info("  \n".join(plain(sentence) for sentence in found), icon=":material/info:")


def notices(experiment: Experiment, answer: PipelineAnswer) -> tuple[str, ...]:
    """What qualifies the verdict, as sentences."""
    found = []
    if experiment.status == "cancelled":
        found.append(f"This study was cancelled; what follows rests on its {len(experiment.rounds):,} rounds.")
    if experiment.arms[0].target.device == "cpu":
        found.append(
            "On a CPU target the pipeline and the step share the cores, so the input-bound share also counts the "
            "cores that preprocessing takes from the arithmetic."
        )
    if any(arm.pipeline.data is not None for arm in experiment.arms):
        found.append(RANDOM_BESIDE)
    if (starts := max((fed.processes for fed in answer.fed), default=0)) < 3:
        found.append(
            f"The workers were started {'once' if starts == 1 else 'twice'} only, so intervals allow for how much "
            "processes differ elsewhere. A longer budget makes them narrower."
        )
    found += [warning.text for warning in experiment.warnings]
    return tuple(found)


def _chart(kind: str, study_id: str, experiment: Experiment, answer: PipelineAnswer) -> None:
    with st.container(border=True):
        st.plotly_chart(
            _figure(kind, charts.is_dark(), study_id, experiment, answer), theme=None, key=f"chart-pipeline-{kind}",
            config=figures.chart_config("svg", f"breakeven-pipeline-{study_id}-{kind}"),
            alt=f"{TITLES[kind]}. {answer.sentence}",
        )  # fmt: skip


@st.cache_resource(max_entries=12, show_spinner=False)
def _figure(kind: str, dark: bool, study_id: str, _experiment: Experiment, _answer: PipelineAnswer) -> go.Figure:  # noqa: ARG001
    figure = DRAW[kind](_experiment, _answer)
    return figures.on_dark(figure) if dark else figure


def table(experiment: Experiment, answer: PipelineAnswer) -> pd.DataFrame:
    """One row for each way of feeding, those without a number with the reason."""
    rows = {fed.arm: _row(fed) for fed in answer.fed}
    for one in answer.missing:
        rows[one.arm] = {"Way of feeding": one.title, "Outcome": f"{OUTCOMES[one.outcome]}: {one.reason}"}
    columns = ("Way of feeding", "Step (ms)", "95 % (ms)", "Input-bound share", "Rounds", "Outcome")
    lines = [
        {column: rows[arm].get(column, "") for column in columns} | {"Pipeline": experiment.arms[arm].pipeline.title}
        for arm in sorted(rows)
    ]
    return pd.DataFrame(lines)


def _row(fed: Fed) -> dict[str, str]:
    known = fed.low_ms is not None and fed.high_ms is not None
    return {
        "Way of feeding": fed.title,
        "Step (ms)": number(fed.step_ms),
        "95 % (ms)": f"{number(fed.low_ms or 0)} to {number(fed.high_ms or 0)}" if known else "too few rounds",
        "Input-bound share": "" if fed.share is None else fed.share.words,
        "Rounds": f"{fed.rounds:,}",
        "Outcome": "measured",
    }


def _table(experiment: Experiment, answer: PipelineAnswer) -> None:
    st.subheader(f"Every way of feeding ({experiment.label})", anchor=False)
    st.dataframe(table(experiment, answer), hide_index=True, key="pipeline-arms", height="content",
                 alt="One row for each way of feeding with step time, interval and input-bound share.")  # fmt: skip


def _how_measured(experiment: Experiment) -> None:
    st.subheader("How it was measured", anchor=False)
    processes = len({block.process for item in experiment.rounds for block in item.blocks})
    facts = (
        ("Rounds", f"{len(experiment.rounds):,}", "One block of every way of feeding, in an order that turns."),
        ("Starts of the workers", f"{processes}", "Each start counts as one observation; three are needed at least."),
        ("Time", progress_words(experiment.elapsed_s), f"Of a budget of {progress_words(experiment.budget_s)}."),
    )
    with st.container(horizontal=True):
        for name, value, meaning in facts:
            st.metric(name, value, help=meaning, border=True)
    st.caption(
        "Input-bound share: 1 − step time with resident data ÷ step time, both of the same round. Up to 5 % of a step "
        "is not input-bound, from 5 % on moderately, from 20 % on highly (the thresholds of TensorFlow's profiler)."
    )
    if experiment.environment is not None:
        with st.expander("The machine", icon=":material/memory:"):
            st.dataframe(
                environment_table(experiment.environment), hide_index=True, key="pipeline-machine", height="content",
                column_config={"fact": "Fact", "value": "Value"},
            )  # fmt: skip
