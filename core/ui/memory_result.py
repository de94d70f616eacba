"""The memory of a run's targets, on a page: the largest batch that fits, predicted and confirmed, parts, wrong rate."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from core import figures
from core.analysis.memory_answer import MemoryAnswer, MemoryPrediction, wrong_fits
from core.figures.memory_charts import batch_words, memory_figure, parts_figure, parts_of
from core.figures.style import environment_line
from core.memory_study import MemoryStudy
from core.results import Run
from core.ui import batch, batch_form, charts
from core.ui.batch import Evidence
from core.ui.batch_choices import target_order
from core.ui.batch_result import drawn
from core.ui.choices import size_words
from core.ui.diagnosed import same_machine
from core.ui.states import progress_words
from core.ui.verdict import LABEL_COLOURS, plain
from core.ui.words import LABEL_ICONS, LABELS, OUTCOMES


def show(run: Run, found: Evidence) -> None:
    """One target at a time: what is predicted and confirmed for it, and the button that confirms it."""
    target = _target(run, found)
    limit_bytes = batch_form.memory(run, target)
    if run.plan is None:
        return
    study = found.memory.get(run.target_names[target])
    if study is not None:
        if limit_bytes not in (None, study[1].plan.limit_bytes):
            st.caption(plain(batch.prediction_of(run, target, limit_bytes).sentence))
        _confirmed(run, target, *study)
    elif limit_bytes is not None:
        _predicted(run, target, batch.prediction_of(run, target, limit_bytes))
    else:
        st.info(
            f"How much memory {plain(run.target_names[target])} has is not known here, so no largest batch can be "
            "predicted.", icon=":material/info:",
        )  # fmt: skip
    _wrong_rate()


def _target(run: Run, found: Evidence) -> int:
    default = target_order(run.target_names, tuple(found.memory))
    chosen = st.segmented_control(
        "Target", (0, 1), default=default, required=True, key=f"batch_memory_target-{run.id}",
        format_func=lambda index: plain(run.target_names[index]),
    )  # fmt: skip
    return default if chosen is None else chosen


def _predicted(run: Run, target: int, prediction: MemoryPrediction) -> None:
    with st.container(border=True):
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            st.markdown("**Largest batch that fits**", width="content")
            st.badge("predicted", icon=":material/functions:", color="violet", help=prediction.basis)
        st.subheader(plain(prediction.sentence), anchor=False)
        st.caption(plain(f"{prediction.basis} On {prediction.target}; {environment_line(run)}"))
    _pictures(run, target, prediction, None, None)


def _confirmed(run: Run, target: int, study_id: str, study: MemoryStudy) -> None:
    answer = batch.answer_of_memory(study_id, study)
    with st.container(border=True):
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            st.markdown("**Largest batch that fits**", width="content")
            st.badge(study.label, icon=LABEL_ICONS[study.label], color=LABEL_COLOURS[study.label],
                     help=LABELS[study.label])  # fmt: skip
            if study.status != "finished":
                st.badge(study.status, icon=":material/flag:", color="orange")
        st.subheader(plain(answer.sentence), anchor=False)
        st.caption(plain(f"{study.plan.title}; {len(study.probes)} batches in {progress_words(study.elapsed_s)}")
                   + f"  \n{plain(environment_line(study))}")  # fmt: skip
        with st.container(horizontal=True):
            for name, value, beside, meaning in facts(study, answer):
                st.metric(name, value, delta=beside or None, delta_color="off", delta_arrow="off", help=plain(meaning))
    if not same_machine(run.environment, study.environment):
        st.warning("The sweep and this search name different machines: step times are of one, memory of the other.",
                   icon=":material/warning:")  # fmt: skip
    if study.status == "cancelled":
        st.info("This search was cancelled; what it tried until then counts.", icon=":material/info:")
    _pictures(run, target, answer.prediction, answer, (study_id, study))
    st.subheader("What was tried", anchor=False)
    st.table(probes_table(study), border="horizontal", hide_index=True)


def facts(study: MemoryStudy, answer: MemoryAnswer) -> list[tuple[str, str, str, str]]:
    """Numbers of a search: name, value, what stands beside it, meaning."""
    largest = answer.prediction.largest
    found = [
        ("Predicted before", batch_words(largest.batch), f"{largest.low:,} to {batch_words(largest.high)}",
         f"{answer.prediction.basis} With its 95 % interval."),
        ("Limit", size_words(study.plan.limit_bytes), "", "Chosen; the framework's own memory counts."),
    ]  # fmt: skip
    if answer.confirmed is not None:
        found.insert(0, ("Confirmed, fits", f"{answer.confirmed:,}", "", f"It got through, {study.label}."))
    if answer.refused is not None:
        found.insert(1, ("Smallest that ran out", f"{answer.refused:,}", "", f"It passed the limit, {study.label}."))
    return found


def _pictures(
    run: Run, target: int, prediction: MemoryPrediction, answer: MemoryAnswer | None,
    found: tuple[str, MemoryStudy] | None,
) -> None:  # fmt: skip
    """Peak by batch and the parts at one batch, side by side, and the parts as a table."""
    assert run.plan is not None
    workload = run.plan.workload
    key = (run.id, target, repr(prediction), repr(answer))
    evidence = run if found is None else found[1]
    sentence = prediction.sentence if answer is None else answer.sentence
    peak = drawn(("memory", *key), charts.is_dark(),
                 lambda: memory_figure(workload, target, prediction, answer, evidence))  # fmt: skip
    parts = drawn(("parts", *key), charts.is_dark(),
                  lambda: parts_figure(workload, target, prediction, answer, evidence))  # fmt: skip
    named = ", ".join(f"{name} {size_words(size)}" for name, size in parts_of(prediction, answer))
    with st.grid(2, min_column_width=560, gap="medium"):
        for name, figure, alt in (
            ("memory", peak, f"Peak memory by batch size. {sentence}"),
            ("parts", parts, f"Predicted parts of the memory: {named}."),
        ):
            with st.container(border=True):
                st.plotly_chart(figure, theme=None, key=f"chart-batch-{name}", alt=alt,
                                config=figures.chart_config("svg", f"breakeven-{run.id}-{name}"))  # fmt: skip


def probes_table(study: MemoryStudy) -> pd.DataFrame:
    """One row a batch that was tried, in the order they were."""
    return pd.DataFrame(
        {
            "Batch": f"{probe.batch:,}",
            "Outcome": "fitted" if probe.fitted else OUTCOMES[probe.outcome],
            f"Peak ({study.label})": "" if probe.peak_bytes is None else size_words(probe.peak_bytes),
            "Predicted before (95 %)": f"{size_words(probe.predicted_bytes)} "
            f"({size_words(probe.predicted_low_bytes)} to {size_words(probe.predicted_high_bytes)})",
            "Said to fit": "yes" if probe.predicted_fits else "no",
            "Why": plain(probe.reason),
        }
        for probe in study.probes
    )


def _wrong_rate() -> None:
    """How often “fits” was wrong over all searches on this machine that were kept."""
    st.subheader("How often “fits” was wrong", anchor=False)
    kept = batch.searches_here()
    st.markdown(plain(wrong_fits(kept).sentence))
    st.caption(
        f"Over {len(kept):,} {'search' if len(kept) == 1 else 'searches'} kept of this machine, measured. A "
        "prediction says that a batch fits where even the upper end of its 95 % interval is within the limit."
    )
