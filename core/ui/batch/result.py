"""The choice of a batch on a page: verdict, pictures, noise scale, cost, every number, the file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from core.base.numbers import bounded, duration
from core.base.text import in_lines, sentence_case
from core.figures.style import environment_line, short
from core.rounds.ran_as import ran_line
from core.rounds.run import Run
from core.rounds.show.figures import workload_line
from core.studies.batch.export import batch_data
from core.studies.batch.figures import (
    cost_figure,
    known_time,
    sample_time_figure,
    throughput_figure,
    time_to_loss_figure,
)
from core.studies.batch.shapes import BatchAnswer, BestBatch, Quantity, TargetBatches
from core.studies.memory.export import memory_data
from core.studies.noise.export import noise_sentence
from core.studies.noise.figures import loss_figure, noise_scale_figure
from core.studies.noise.kind import GRADIENT_NOISE
from core.ui import charts, evidence, money, registry, share
from core.ui.batch import form, page
from core.ui.batch.draft import PriceOutcome, noise_refusal
from core.ui.batch.page import Evidence
from core.ui.card import label_badge, metric, predicted_badge, result_card
from core.ui.downloads import study_files
from core.ui.notices import stopped
from core.ui.words import plain
from core.userdata.source import RANDOM_LABELS

OPEN = "More rounds make the intervals narrower: a run of this machine goes on for more time on the page Crossover."
PREDICTED = "Predicted from measured parts: nothing trained to the loss at these batches."
COLUMNS: dict[str, tuple[str, str]] = {
    "step_ms": ("Step (ms)", "Step time."),
    "samples_per_s": ("Samples/s", "Throughput, from the step time."),
    "us_per_sample": ("µs per sample", "From the step time."),
    "steps": ("Steps", "To the loss; predicted from the noise scale."),
    "time_s": ("Time to the loss (s)", "Predicted: steps × step time."),
    "relative_time": ("Time over best", "Over the target's best; predicted."),
    "cost_per_million": ("Cost of a million samples", "Your price × step time."),
    "cost_per_epoch": ("Cost of an epoch", "Your price × step time × your samples."),
    "cost_to_loss": ("Cost to the loss", "Your price × predicted time."),
}


def card(run: Run, studies: Evidence, answer: BatchAnswer) -> None:
    """Show the verdict with its labels."""
    timed, status = known_time(answer) is not None, "finished"
    badges = [predicted_badge(PREDICTED)] if timed else []
    badges.append(label_badge(run.label, "step times"))
    if studies.noise is not None:
        badges.append(label_badge(studies.noise[1].label, "noise scale"))
        status = studies.noise[1].status
    about = [f"{workload_line(run)}; {environment_line(run)}"]
    first, *more = answer.sentences
    result_card("Which batch", badges, first, about, status=status, more=more[: 1 if timed else 0])


def measure(run: Run, answer: BatchAnswer) -> None:
    """Draw the form of a noise study, which gives the time to a loss, if there is none yet."""
    if answer.noise is None and noise_refusal(run) is None:
        form.noise(run)


def in_full(answer: BatchAnswer) -> None:
    """Show every sentence not shown above, and the range of batches near the best one."""
    above = 2 if known_time(answer) == "time" else 1
    st.markdown("\n".join(f"- {plain(sentence)}" for sentence in answer.sentences[above:]))
    with st.container(horizontal=True):
        for target in answer.targets:
            _best(target, known_time(answer) is not None)


def _best(target: TargetBatches, timed: bool) -> None:
    best: BestBatch | None = target.best_time if timed else target.best_throughput
    if best is None:
        return
    near = "no other within 5 %" if best.low == best.high else f"{best.low:,} to {best.high:,} within 5 %"
    what = "shortest time to the loss, predicted" if timed else f"most samples per second, {best.label}"
    meaning = f"The batch with the {what}, within memory."
    metric(f"Best on {short(target.title, 30)}", f"batch {best.batch:,}", near, meaning)


def notices(run: Run, studies: Evidence, answer: BatchAnswer) -> None:
    """Show what qualifies the verdict."""
    status = "" if studies.noise is None else studies.noise[1].status
    for text in stopped(status, "noise study", "what follows rests on what was measured until then"):
        st.info(plain(text), icon=":material/info:")
    for warning in answer.warnings:
        st.warning(plain(warning.text), icon=":material/warning:")
    if answer.noise is None and (why := noise_refusal(run)) is not None:
        st.caption(plain(why))
    doubt = "" if answer.choice is None or answer.choice.clear else OPEN
    lines = (doubt, *ran_line(run), page.limit_words(run, studies))
    st.caption("  \n".join(plain(line) for line in lines if line))


def chart(name: str, run: Run, studies: Evidence, answer: BatchAnswer, make: Callable[[], go.Figure], alt: str) -> None:
    """Draw one chart of this page, cached for the same evidence."""
    key = (registry.revision(run), studies.ids, repr(answer))
    charts.show(f"batch-{name}", make, alt, f"{run.id}-{name}", key)


def main_picture(run: Run, studies: Evidence, answer: BatchAnswer) -> None:
    """Draw the time to the loss by batch; without a usable noise study, the throughput."""
    if studies.noise is not None and known_time(answer) is not None:
        chart("time-to-loss", run, studies, answer, partial(_main_figure, run, studies, answer),
              f"Predicted time to the loss by batch size. {answer.sentences[0]}")  # fmt: skip
    else:
        _throughput(run, studies, answer)


def _main_figure(run: Run, studies: Evidence, answer: BatchAnswer) -> go.Figure:
    if studies.noise is not None and known_time(answer) is not None:
        return time_to_loss_figure(run, answer, studies.noise[1])
    return throughput_figure(run, answer)


def _throughput(run: Run, studies: Evidence, answer: BatchAnswer) -> None:
    chart("throughput", run, studies, answer, lambda: throughput_figure(run, answer),
          f"Throughput by batch size. {answer.sentences[0]}")  # fmt: skip


def rates(run: Run, studies: Evidence, answer: BatchAnswer) -> None:
    """Draw the time per sample, and the throughput unless it is the verdict's picture."""
    with st.grid(2, min_column_width=560, gap="medium"):
        if known_time(answer) is not None:
            _throughput(run, studies, answer)
        chart("time-per-sample", run, studies, answer, lambda: sample_time_figure(run, answer),
              f"Time per sample by batch size. {answer.step_verdict.sentence}")  # fmt: skip


def noise(run: Run, studies: Evidence, answer: BatchAnswer) -> None:
    """Show noise scale and loss along the training, how they were measured, and the form for a study."""
    if studies.noise is None or answer.noise is None:
        st.markdown(
            "How many steps a batch saves follows from the **gradient noise scale**: how large a batch must be for its "
            "gradient to be more signal than noise. It is measured while the workload really trains, on a task that "
            "can be learnt."
        )
        st.caption(f"{RANDOM_LABELS} Step times of a sweep do not depend on labels, so that a sweep may draw them.")
        return  # its button stands under the heading
    (study_id, study), scale = studies.noise, answer.noise
    picture = partial(noise_scale_figure, study, scale)
    with st.grid(2, min_column_width=560, gap="medium"):
        chart("noise-scale", run, studies, answer, picture,
              f"Gradient noise scale along the training. {noise_sentence(scale)}")  # fmt: skip
        chart("loss", run, studies, answer, lambda: loss_figure(study), "Held-out loss along the training.")
    st.caption(
        plain(
            f"{study.plan.title}; learning rate {study.plan.rate:g}; {study.steps:,} steps and "
            f"{len(study.draws):,} draws of gradients in {duration(study.elapsed_s)}. {RANDOM_LABELS}"
        )
    )
    query = {"run": run.id, "noise": study_id}
    share.study(GRADIENT_NOISE, study_id, study, query, picture, lambda data: data["record"]["draws"])
    st.header("Measure it again", anchor=False)
    form.noise(run)


def cost(run: Run, studies: Evidence, answer: BatchAnswer, prices: PriceOutcome) -> None:
    """Draw the fields for prices, the resulting costs, and the chart."""
    form.price_fields(run, prices)
    if not prices.prices:
        st.caption(
            "With a price for a target: the cost of a million samples and of an epoch by batch. With one for "
            "the first target, too: the batch from which the more expensive of the two is the cheaper one."
        )
        return
    for text in answer.cost_sentences[:1]:
        st.header(plain(text), anchor=False)
    for text in answer.cost_sentences[1:]:
        st.markdown(plain(text))
    sentence = " ".join(answer.cost_sentences)
    chart("cost", run, studies, answer, lambda: cost_figure(run, answer),
          f"Cost of a million samples by batch size. {sentence}")  # fmt: skip
    for target in answer.targets:
        if target.price is not None:
            st.markdown(f"**{plain(sentence_case(f'{target.title} at {target.price.amount}'))}**")
            _table(run, target, ("cost_per_million", "cost_per_epoch", "cost_to_loss"), "cost")


def numbers(run: Run, studies: Evidence, answer: BatchAnswer) -> None:
    """Show every measured batch of every target, and the machine."""
    for target in answer.targets:
        st.markdown(f"**{plain(sentence_case(target.title))}**")
        _table(run, target, tuple(COLUMNS), "all")
    st.caption(
        f"Batches with a step time that is {run.label}; those in between are interpolated and stand in the file. In "
        "brackets: 95 % intervals. Steps and times to the loss are predicted."
    )
    evidence.machine(run.environment)
    if studies.noise is not None and (other := studies.noise[1].environment) is not None and other != run.environment:
        st.caption(f"The noise scale: {plain(environment_line(studies.noise[1]))}")


def _table(run: Run, target: TargetBatches, columns: tuple[str, ...], place: str) -> None:
    points = [point for point in target.points if point.label != "interpolated"]
    known = [name for name in columns if any(getattr(point, name) is not None for point in points)]
    rows = [
        {
            "batch": f"{point.batch:,}",
            **{name: _words(getattr(point, name)) for name in known},
            **({} if point.fits is None else {"fits": "yes" if point.fits else "no"}),
            "label": point.label,
        }
        for point in points
    ]
    config: dict[str, Any] = {
        name: st.column_config.TextColumn(COLUMNS[name][0], help=COLUMNS[name][1]) for name in known
    }
    config |= {"batch": "Batch", "fits": "Fits into memory", "label": "Step time is"}
    evidence.table(pd.DataFrame(rows), f"batch-{place}-{run.id}-{target.name}", config,
                   f"One row for each measured batch of {target.title}.")  # fmt: skip


def _words(value: Quantity | None) -> str:
    return "" if value is None else bounded(value.value, value.low, value.high)


def sharing(run: Run, studies: Evidence, answer: BatchAnswer) -> None:
    """Draw link and files of the page's result for this run."""
    named = (study_page.address for study_page in page.PAGES)
    shown = {name: st.query_params[name] for name in named if name in st.query_params}
    files = study_files(
        f"{run.id}-batch", partial(content, run, studies, answer), text=lambda: in_lines(answer.sentences),
        figure=partial(_main_figure, run, studies, answer), rows=_points,
        meaning="What is said here with your prices, and the noise and memory studies that it follows from.",
    )  # fmt: skip
    share.panel(f"{run.id}-batch", {"run": run.id} | shown | money.address(), files)


def _points(data: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield one row per target and batch."""
    for target in data["targets"]:
        yield from ({"target": target["name"]} | point for point in target["points"])


def content(run: Run, studies: Evidence, answer: BatchAnswer) -> dict[str, Any]:
    """Return the result as ``python -m core batch --out`` writes it, with the memory studies."""
    data = batch_data(run, answer, None if studies.noise is None else studies.noise[1])
    memory = [memory_data(study, page.answer_of_memory(study_id, study)) for study_id, study in studies.memory.values()]
    return data | {"memory": memory}
