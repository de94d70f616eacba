"""Memory of a run's targets on a page: the largest batch that fits, predicted and confirmed, parts, wrong rate."""

from __future__ import annotations

from functools import partial

import pandas as pd
import streamlit as st

from core.base.evidence import same_machine
from core.base.numbers import byte_size, counted, duration
from core.figures.style import environment_line
from core.rounds.run import Run
from core.studies.kind import Context
from core.studies.memory.answer import MemoryAnswer, MemoryPrediction, batch_words, steady_words, wrong_fits
from core.studies.memory.figures import memory_figure, parts_figure
from core.studies.memory.kind import MEMORY
from core.studies.memory.record import MemoryStudy
from core.ui import charts, share, shown_run
from core.ui.batch import form, page
from core.ui.batch.draft import target_order
from core.ui.batch.page import Evidence
from core.ui.card import label_badge, metric, predicted_badge, result_card
from core.ui.notices import stopped
from core.ui.tables import static_table
from core.ui.words import OUTCOMES, plain
from core.workload.execution import chosen_line

HEADING = "Largest batch that fits"


def show(run: Run, studies: Evidence) -> None:
    """Show one target at a time: its predicted and confirmed batch, and the button that confirms it."""
    target = _target(run, studies)
    limit_bytes = form.memory(run, target)
    if run.plan is None:
        return
    study = studies.memory.get(run.target_names[target])
    if study is not None:
        if limit_bytes not in (None, study[1].plan.limit_bytes):
            st.caption(plain(page.prediction_of(run, target, limit_bytes).sentence))
        _confirmed(run, target, *study)
    elif limit_bytes is not None:
        _predicted(run, target, page.prediction_of(run, target, limit_bytes))
    else:
        st.info(
            f"How much memory {plain(run.names[target])} has is not known here, so no largest batch can be "
            "predicted.", icon=":material/info:",
        )  # fmt: skip
    _wrong_rate()


def _target(run: Run, studies: Evidence) -> int:
    default = target_order(run.target_names, tuple(studies.memory))
    if len(run.names) == 1:
        return default
    return shown_run.choose_target(run, "Target", range(len(run.names)), default, "batch_memory_target")


def _predicted(run: Run, target: int, prediction: MemoryPrediction) -> None:
    about = f"{prediction.basis} On {prediction.target}; {environment_line(run)}"
    result_card(HEADING, [predicted_badge(prediction.basis)], prediction.sentence, [about])
    _pictures(run, target, prediction, None, run)


def _confirmed(run: Run, target: int, study_id: str, study: MemoryStudy) -> None:
    answer = page.answer_of_memory(study_id, study)
    tried = f"{study.plan.title}; {len(study.probes)} batches in {duration(study.elapsed_s)}"
    badges, about = (
        [label_badge(study.label)],
        (tried, *chosen_line(study.plan.workload, study.plan.target), environment_line(study)),
    )
    with result_card(HEADING, badges, answer.sentence, about, status=study.status), st.container(horizontal=True):
        for name, value, beside, meaning in facts(study, answer):
            metric(name, value, beside, meaning)
    if same_machine(run.environment, study.environment) is False:
        st.warning("The sweep and this search name different machines: step times are of one, memory of the other.",
                   icon=":material/warning:")  # fmt: skip
    for text in stopped(study.status, "search", "what it tried until then counts"):
        st.info(plain(text), icon=":material/info:")
    for warning in study.warnings:
        st.warning(plain(warning.text), icon=":material/warning:")
    _pictures(run, target, answer.prediction, answer, study)
    share.study(
        MEMORY, study_id, study, {"run": run.id, "memory": study_id},
        partial(memory_figure, study.plan.workload, target, answer.prediction, answer, study),
        lambda data: data["record"]["probes"],
        Context(earlier=page.memory_studies()),
    )  # fmt: skip
    st.header("What was tried", anchor=False)
    static_table(probes_table(study))
    if words := steady_words(study):
        st.caption(plain(words))


def facts(study: MemoryStudy, answer: MemoryAnswer) -> list[tuple[str, str, str, str]]:
    """Return the numbers of a search: name, value, what stands beside it, meaning."""
    largest = answer.prediction.largest
    numbers = [
        ("Predicted before", batch_words(largest.batch), f"{largest.low:,} to {batch_words(largest.high)}",
         f"{answer.prediction.basis} With its 95 % interval."),
        ("Limit", byte_size(study.plan.limit_bytes), "", "Chosen; the framework's own memory counts."),
    ]  # fmt: skip
    if answer.confirmed is not None:
        numbers.insert(0, ("Confirmed, fits", f"{answer.confirmed:,}", "", f"It got through, {study.label}."))
    if answer.refused is not None:
        numbers.insert(1, ("Smallest that ran out", f"{answer.refused:,}", "", f"It passed the limit, {study.label}."))
    return numbers


def _pictures(
    run: Run, target: int, prediction: MemoryPrediction, answer: MemoryAnswer | None, evidence: Run | MemoryStudy
) -> None:
    """Draw peak memory by batch and the parts at one batch, side by side."""
    assert run.plan is not None
    sentence = prediction.sentence if answer is None else answer.sentence
    named = ", ".join(f"{name} {byte_size(size)}" for name, size in (answer or prediction).named_parts.items())
    key = (run.id, target, repr(prediction), repr(answer))
    with st.grid(2, min_column_width=560, gap="medium"):
        for name, figure, alt in (
            ("memory", memory_figure, f"Peak memory by batch size. {sentence}"),
            ("parts", parts_figure, f"Predicted parts of the memory: {named}."),
        ):
            make = partial(figure, run.plan.workload, target, prediction, answer, evidence)
            charts.show(f"batch-{name}", make, alt, f"{run.id}-{name}", key)


def probes_table(study: MemoryStudy) -> pd.DataFrame:
    """Return one row per tried batch, in order."""
    return pd.DataFrame(
        {
            "Batch": f"{probe.batch:,}",
            "Outcome": "fitted" if probe.fitted else OUTCOMES[probe.outcome],
            f"Peak ({study.label})": "" if probe.peak_bytes is None else byte_size(probe.peak_bytes),
            "Predicted before (95 %)": f"{byte_size(probe.predicted_bytes)} "
            f"({byte_size(probe.predicted_low_bytes)} to {byte_size(probe.predicted_high_bytes)})",
            "Said to fit": "yes" if probe.predicted_fits else "no",
            "Why": probe.reason,
        }
        for probe in study.probes
    )


def _wrong_rate() -> None:
    """Show how often “fits” was wrong over all stored searches on this machine."""
    st.header("How often “fits” was wrong", anchor=False)
    kept = page.searches_here()
    st.markdown(plain(wrong_fits(kept).sentence))
    st.caption(
        f"Over {counted(len(kept), 'search', 'searches')} kept of this machine, measured. A "
        "prediction says that a batch fits where even the upper end of its 95 % interval is within the limit."
    )
