"""What is known of the batch to use, on a page: verdict, pictures, noise scale, cost, every number, the file."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable
from functools import partial
from typing import Any
from urllib.parse import urlencode, urlsplit, urlunsplit

import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from core import figures
from core.analysis.batch_answer import BatchAnswer, BestBatch, Quantity, TargetBatches
from core.batch_export import batch_data
from core.figures.batch_charts import (
    cost_figure,
    known_time,
    sample_time_figure,
    throughput_figure,
    time_to_loss_figure,
)
from core.figures.marks import interval_words
from core.figures.noise_charts import loss_figure, noise_scale_figure
from core.figures.style import environment_line, number, short, workload_line
from core.memory_export import memory_data
from core.noise_study import RANDOM_LABELS
from core.results import Run
from core.ui import batch, batch_form, charts, evidence, registry
from core.ui.batch import Evidence
from core.ui.batch_choices import PriceOutcome
from core.ui.states import progress_words
from core.ui.verdict import LABEL_COLOURS, plain
from core.ui.words import LABEL_ICONS, LABELS

PREDICTED = "Predicted from measured parts: nothing trained to the loss at these batches."
COLUMNS: dict[str, tuple[str, Callable[[Any], Quantity | None], str]] = {
    "step_ms": ("Step (ms)", lambda p: p.step_ms, "Step time."),
    "samples_per_s": ("Samples/s", lambda p: p.samples_per_s, "Throughput, from the step time."),
    "us_per_sample": ("µs a sample", lambda p: p.us_per_sample, "From the step time."),
    "steps": ("Steps", lambda p: p.steps, "To the loss; predicted from the noise scale."),
    "time_s": ("Time to the loss (s)", lambda p: p.time_s, "Predicted: steps × step time."),
    "relative_time": ("Time over best", lambda p: p.relative_time, "Over the target's best; predicted."),
    "cost_per_million": ("Cost of a million samples", lambda p: p.cost_per_million, "Your price × step time."),
    "cost_per_epoch": ("Cost of an epoch", lambda p: p.cost_per_epoch, "Your price × step time × your samples."),
    "cost_to_loss": ("Cost to the loss", lambda p: p.cost_to_loss, "Your price × predicted time."),
}


def card(run: Run, found: Evidence, answer: BatchAnswer) -> None:
    """The verdict with its label and the numbers it rests on."""
    with st.container(border=True):
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            st.markdown("**Which batch**", width="content")
            if known_time(answer) is not None:
                st.badge("predicted", icon=":material/functions:", color="violet", help=PREDICTED)
            st.badge(f"step times {run.label}", icon=LABEL_ICONS[run.label], color=LABEL_COLOURS[run.label],
                     help=LABELS[run.label])  # fmt: skip
            if found.noise is not None:
                noise = found.noise[1]
                st.badge(f"noise scale {noise.label}", icon=LABEL_ICONS[noise.label],
                         color=LABEL_COLOURS[noise.label], help=LABELS[noise.label])  # fmt: skip
                if noise.status != "finished":
                    st.badge(noise.status, icon=":material/flag:", color="orange")
        st.subheader(plain(answer.sentences[0]), anchor=False)
        st.caption(f"{plain(workload_line(run))}  \n{plain(environment_line(run))}")
        with st.container(horizontal=True):
            for target in answer.targets:
                _best(target, known_time(answer) is not None)
            _crossovers(answer)


def _best(target: TargetBatches, timed: bool) -> None:
    best: BestBatch | None = target.best_time if timed else target.best_throughput
    if best is None:
        return
    near = "no other within 5 %" if best.low == best.high else f"{best.low:,} to {best.high:,} within 5 %"
    what = "shortest time to the loss, predicted" if timed else f"most samples a second, {best.label}"
    st.metric(
        f"Best on {short(target.name, 30)}", f"batch {best.batch:,}", delta=near, delta_color="off",
        delta_arrow="off", help=f"The batch with the {what}, within memory.",
    )  # fmt: skip


def _crossovers(answer: BatchAnswer) -> None:
    for step in answer.step_verdict.crossovers[:1]:
        _metric("Step-time crossover", interval_words(step.batch, step.low, step.high),
                "At equal batch: where the target with the shorter step changes.")  # fmt: skip
    for found in answer.loss_crossovers:
        if found.batch is not None:
            _metric(f"Time-to-loss crossover of {short(found.target, 24)}",
                    interval_words(found.batch, found.low, found.high), found.sentence)  # fmt: skip
    if answer.noise is not None and answer.noise.value is not None:
        noise = answer.noise
        _metric("Gradient noise scale, samples", interval_words(noise.value or 0.0, noise.low, noise.high),
                "Well below it a doubled batch halves the steps; well above it, it saves none. Measured.")  # fmt: skip


def _metric(name: str, words: str, meaning: str) -> None:
    value, _, interval = words.partition(" ")
    st.metric(plain(name), value, delta=interval.strip("()"), delta_color="off", delta_arrow="off",
              help=plain(meaning))  # fmt: skip


def notices(found: Evidence, answer: BatchAnswer) -> None:
    """What qualifies the verdict."""
    if found.noise is not None and found.noise[1].status == "cancelled":
        st.info("The noise study was cancelled; what follows rests on what was measured until then.",
                icon=":material/info:")  # fmt: skip
    for warning in answer.warnings:
        st.warning(plain(warning.text), icon=":material/warning:")


def sentences(answer: BatchAnswer) -> None:
    """Everything that is said beside the verdict."""
    st.markdown("\n".join(f"- {plain(sentence)}" for sentence in answer.sentences[1:]))


def chart(name: str, run: Run, found: Evidence, answer: BatchAnswer, draw: Callable[[], go.Figure], alt: str) -> None:
    """One chart of this page, drawn once for the same evidence."""
    key = (name, registry.revision(run), found.ids, repr(answer))
    with st.container(border=True):
        st.plotly_chart(
            drawn(key, charts.is_dark(), draw), theme=None, key=f"chart-batch-{name}", alt=alt,
            config=figures.chart_config("svg", f"breakeven-{run.id}-{name}"),
        )  # fmt: skip


@st.cache_resource(max_entries=32, show_spinner=False)
def drawn(key: tuple[Hashable, ...], dark: bool, _draw: Callable[[], go.Figure]) -> go.Figure:  # noqa: ARG001
    """A figure for the theme, cached by its key."""
    figure = _draw()
    return figures.on_dark(figure) if dark else figure


def main_picture(run: Run, found: Evidence, answer: BatchAnswer) -> None:
    """Time to the loss by batch; without a usable noise study, throughput."""
    if found.noise is not None and known_time(answer) is not None:
        noise = found.noise[1]
        chart("time-to-loss", run, found, answer, lambda: time_to_loss_figure(run, answer, noise),
              f"Predicted time to the loss by batch size. {answer.sentences[0]}")  # fmt: skip
    else:
        _throughput(run, found, answer)


def _throughput(run: Run, found: Evidence, answer: BatchAnswer) -> None:
    chart("throughput", run, found, answer, lambda: throughput_figure(run, answer),
          f"Throughput by batch size. {answer.sentences[0]}")  # fmt: skip


def pictures(run: Run, found: Evidence, answer: BatchAnswer) -> None:
    """The picture of the verdict and all that is said, then throughput and time per sample beside each other."""
    if known_time(answer) is not None:
        main_picture(run, found, answer)
    sentences(answer)
    with st.grid(2, min_column_width=560, gap="medium"):
        with st.container():
            _throughput(run, found, answer)
        with st.container():
            chart("time-per-sample", run, found, answer, lambda: sample_time_figure(run, answer),
                  f"Time per sample by batch size. {answer.step_verdict.sentence}")  # fmt: skip


def noise(run: Run, found: Evidence, answer: BatchAnswer) -> None:
    """The noise scale along the training and the loss, how they were measured, and the form for a study."""
    if found.noise is None or answer.noise is None:
        st.markdown(
            "How many steps a batch saves follows from the **gradient noise scale**: how large a batch must be for its "
            "gradient to be more signal than noise. It is measured while the workload really trains, on a task that "
            "can be learnt."
        )
        st.caption(f"{RANDOM_LABELS} Step times of a sweep do not depend on labels, so that a sweep may draw them.")
    else:
        study, scale = found.noise[1], answer.noise
        with st.grid(2, min_column_width=560, gap="medium"):
            with st.container():
                chart("noise-scale", run, found, answer, lambda: noise_scale_figure(study, scale),
                      f"Gradient noise scale along the training. {answer.sentences[1]}")  # fmt: skip
            with st.container():
                chart("loss", run, found, answer, lambda: loss_figure(study), "Held-out loss along the training.")
        st.caption(
            plain(
                f"{study.plan.title}; learning rate {study.plan.rate:g}; {study.steps:,} steps and "
                f"{len(study.draws):,} draws of gradients in {progress_words(study.elapsed_s)}. {RANDOM_LABELS}"
            )
        )
        st.subheader("Measure it again", anchor=False)
    batch_form.noise(run)


def cost(run: Run, found: Evidence, answer: BatchAnswer, prices: PriceOutcome) -> None:
    """The fields for prices, what follows from them, and the chart."""
    batch_form.price_fields(run, prices)
    if not prices.prices:
        st.caption("With a price for each target: the cost of a million samples and of an epoch by batch, and the "
                   "batch from which the dearer target is the cheaper one.")  # fmt: skip
        return
    if answer.cost is not None:
        st.subheader(plain(answer.cost.sentence), anchor=False)
    sentence = "" if answer.cost is None else answer.cost.sentence
    chart("cost", run, found, answer, lambda: cost_figure(run, answer),
          f"Cost of a million samples by batch size. {sentence}")  # fmt: skip
    for target in answer.targets:
        if target.price is not None:
            st.markdown(f"**{plain(target.price.words)}**")
            _table(run, target, ("cost_per_million", "cost_per_epoch", "cost_to_loss"), "cost")


def numbers(run: Run, found: Evidence, answer: BatchAnswer) -> None:
    """Every measured batch of both targets, the machine, and the way to the run."""
    for target in answer.targets:
        st.markdown(f"**{plain(target.name)}**")
        _table(run, target, tuple(COLUMNS), "all")
    st.caption(
        f"Batches with a step time that is {run.label}; those in between are interpolated and stand in the file. In "
        "brackets: 95 % intervals. Steps and times to the loss are predicted."
    )
    evidence.environment(run)
    if found.noise is not None and (other := found.noise[1].environment) is not None and other != run.environment:
        st.caption(f"The noise scale: {plain(environment_line(found.noise[1]))}")


def _table(run: Run, target: TargetBatches, columns: tuple[str, ...], place: str) -> None:
    points = [point for point in target.points if point.label != "interpolated"]
    known = [name for name in columns if any(COLUMNS[name][1](point) is not None for point in points)]
    rows = [
        {
            "batch": f"{point.batch:,}",
            **{name: _words(COLUMNS[name][1](point)) for name in known},
            **({} if point.fits is None else {"fits": "yes" if point.fits else "no"}),
            "label": point.label,
        }
        for point in points
    ]
    config: dict[str, Any] = {
        name: st.column_config.TextColumn(COLUMNS[name][0], help=COLUMNS[name][2]) for name in known
    }
    config |= {"batch": "Batch", "fits": "Fits into memory", "label": "Step time is"}
    st.dataframe(
        pd.DataFrame(rows), hide_index=True, key=f"batch-{place}-{run.id}-{target.name}", column_config=config,
        height="content", alt=f"One row for each measured batch of {target.name}.",
    )  # fmt: skip


def _words(value: Quantity | None) -> str:
    if value is None:
        return ""
    if value.low is None or value.high is None:
        return number(value.value)
    return f"{number(value.value)} ({number(value.low)} to {number(value.high)})"


def take_along(run: Run, found: Evidence, answer: BatchAnswer) -> None:
    """The address of this evidence, the view without chrome, and the file."""
    st.subheader("Take it along", anchor=False)
    if address := st.context.url:
        parts = {"run": run.id} | {name: st.query_params[name] for name in batch.KINDS if name in st.query_params}
        base = urlunsplit((*urlsplit(address)[:3], urlencode(parts), ""))
        left, right = st.columns(2)
        left.caption("Link to this evidence")
        left.code(base, language=None, wrap_lines=True)
        right.caption("Embedded view, without menus")
        right.code(f"{base}&embed=true", language=None, wrap_lines=True)
    st.download_button(
        "JSON", data=partial(content, run, found, answer), file_name=f"breakeven-{run.id}-batch.json",
        mime="application/json", icon=":material/download:", on_click="ignore", key="download-batch",
        help="What is said here with your prices, and the noise and memory studies that it follows from.",
    )  # fmt: skip


def content(run: Run, found: Evidence, answer: BatchAnswer) -> bytes:
    """The file: as ``python -m core batch --out`` writes it, with the memory studies."""
    data = batch_data(run, answer, None if found.noise is None else found.noise[1])
    studies = [memory_data(study, batch.answer_of_memory(study_id, study)) for study_id, study in found.memory.values()]
    return json.dumps(data | {"memory": studies}, ensure_ascii=False, allow_nan=False, indent=1).encode()
