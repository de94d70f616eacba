"""A pipeline study on a page: the verdict, charts, table, how it was measured, the file and its address."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from operator import itemgetter

import pandas as pd
import streamlit as st

from core.base.numbers import duration, number
from core.figures.style import environment_line
from core.studies.experiment.record import Arm, Experiment
from core.studies.experiment.run import longer_budget_s
from core.studies.pipeline.answer import Fed, PipelineAnswer, pipeline_answer
from core.studies.pipeline.export import pipeline_data, pipeline_text
from core.studies.pipeline.figures import about_lines, calls_figure, cost_figure, feeding_figure
from core.studies.pipeline.input_share import MODERATE
from core.studies.pipeline.kind import PIPELINE
from core.studies.pipeline.plan import BASE, PipelinePlan, has_work
from core.ui import charts, evidence, more_time, share
from core.ui.card import draw_notes, label_badge, result_card
from core.ui.downloads import study_files
from core.ui.notices import Notice, few_starts, stopped
from core.ui.words import OUTCOMES, plain
from core.workload.execution import chosen_line

CHARTS = {
    "feeding": ("Step time by way of feeding", feeding_figure),
    "cost": ("Step time and input-bound share by preprocessing cost", cost_figure),
    "calls": ("Step time by parallel calls", calls_figure),
}
UNVARIED = "Parallel calls were not varied: the map has nothing to do without preprocessing or your own data."
UNFOLDED = 1  # of the notes
LEAST_HALF = 0.01  # of a share: no interval needs to be narrower than ± 1 % of a step
RANDOM_BESIDE = (
    "Your own data are read in all tf.data rows. The resident and the host row use random arrays of the same shape: "
    "they show the step without any reading."
)


class Parts:
    """The parts of a result's frame, for one study. Raises UserError if it supports no answer."""

    def __init__(self, study_id: str, experiment: Experiment) -> None:
        self._id, self._experiment = study_id, experiment
        self._answer = pipeline_answer(experiment)

    def verdict(self) -> None:
        """Show the card, with the effect of more time if this study is this machine's."""
        _card(self._experiment, self._answer)

    def picture(self) -> None:
        self._chart("feeding", border=True)

    def notes(self) -> None:
        for part in (self._answer.prefetch, self._answer.starvation):
            if part is not None:
                st.markdown(plain(part.sentence))
        draw_notes(tuple(Notice("info", text) for text in notices(self._experiment, self._answer)), UNFOLDED)

    def evidence(self) -> dict[str, Callable[[], None]]:
        """Return the evidence by title."""
        charted: dict[str, Callable[[], None]] = {CHARTS[name][0]: partial(self._chart, name) for name in self._charts}
        if "calls" not in self._charts:
            charted["Step time by parallel calls"] = _unvaried
        return charted | {
            "Every way of feeding": self._table,
            "How it was measured": partial(_how_measured, self._experiment),
        }

    def share(self) -> None:
        name, figure = f"pipeline-{self._id}", partial(feeding_figure, self._experiment, self._answer)
        data = partial(pipeline_data, self._experiment, self._answer)
        text = partial(pipeline_text, self._experiment, self._answer)
        files = study_files(name, data, text=text, figure=figure, rows=itemgetter("arms"))
        share.panel(name, {"study": self._id}, files)

    @property
    def _charts(self) -> tuple[str, ...]:
        """The charts beside the main picture."""
        return ("cost", "calls") if has_work(_base(self._experiment).pipeline) else ("cost",)

    def _chart(self, name: str, border: bool = False) -> None:
        title, figure = CHARTS[name]
        charts.show(
            f"pipeline-{name}", partial(figure, self._experiment, self._answer), f"{title}. {self._answer.sentence}",
            f"pipeline-{self._id}-{name}", (self._id,), border=border, omit=about_lines(self._experiment),
        )  # fmt: skip

    def _table(self) -> None:
        alt = "One row for each way of feeding with step time, interval and input-bound share."
        evidence.table(table(self._experiment, self._answer), "pipeline-arms", alt=alt)


def _unvaried() -> None:
    st.caption(UNVARIED)


def _base(experiment: Experiment) -> Arm:
    return experiment.arms[experiment.index_of(BASE) or 0]


def plan_again(experiment: Experiment, budget_s: float) -> PipelinePlan:
    """Return the same study's plan with another budget."""
    base = _base(experiment)
    return PipelinePlan(
        workload=experiment.workload, target=base.target, batch=base.batch, base=base.pipeline, budget_s=budget_s
    )


def _again(experiment: Experiment, answer: PipelineAnswer) -> None:
    """Offer the same study with a budget that should make it clear; not for another machine's."""
    if not more_time.is_of_here(experiment):
        return
    fed = answer.of(BASE)
    unclear = fed is not None and fed.share is not None and not fed.share.is_clear
    budget_s = longer_budget_s(experiment, halves(answer))
    if budget_s is not None:
        plan = plan_again(experiment, budget_s)
        more_time.offer_again(PIPELINE, plan, "it" if unclear else "", urgent=unclear)


def halves(answer: PipelineAnswer) -> tuple[tuple[float, float], ...]:
    """Return the half width of the share's interval, and the one that would tell on which side of 5 % it lies."""
    fed = answer.of(BASE)
    if fed is None or fed.share is None or fed.share.low is None or fed.share.high is None:
        return ()
    half = (fed.share.high - fed.share.low) / 2
    return ((half, max(abs(fed.share.value - MODERATE), LEAST_HALF)),)


def _card(experiment: Experiment, answer: PipelineAnswer) -> None:
    about = ". ".join(about_lines(experiment))
    result_card("Input pipeline", [label_badge(experiment.label)], answer.sentence,
                (f"{about} · {environment_line(experiment)}",), status=experiment.status,
                below=partial(_again, experiment, answer))  # fmt: skip


def notices(experiment: Experiment, answer: PipelineAnswer) -> tuple[str, ...]:
    """Return what qualifies the verdict, as sentences."""
    sentences = stopped(experiment.status, "study", f"what follows rests on its {len(experiment.rounds):,} rounds")
    if experiment.arms[0].target.on_cpu:
        sentences.append(
            "On a CPU target the pipeline and the step share the cores, so the input-bound share also counts the "
            "cores that preprocessing takes from the arithmetic."
        )
    if any(arm.pipeline.data is not None for arm in experiment.arms):
        sentences.append(RANDOM_BESIDE)
    sentences += few_starts(max((fed.processes for fed in answer.fed), default=0))
    return tuple(dict.fromkeys((*sentences, *(warning.text for warning in experiment.warnings))))


def table(experiment: Experiment, answer: PipelineAnswer) -> pd.DataFrame:
    """Return one row per way of feeding; those without a number have the reason."""
    rows = {fed.arm: _row(fed) for fed in answer.fed}
    for missing in answer.missing:
        outcome = f"{OUTCOMES[missing.outcome]}: {missing.reason}"
        rows[missing.arm] = {"Way of feeding": missing.title, "Outcome": outcome}
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


def _how_measured(experiment: Experiment) -> None:
    processes = len({block.process for item in experiment.rounds for block in item.blocks})
    facts = (
        ("Rounds", f"{len(experiment.rounds):,}", "One block of every way of feeding, in an order that turns."),
        ("Starts of the workers", f"{processes}", "Each start counts as one observation; three are needed at least."),
        ("Time", duration(experiment.elapsed_s), f"Of a budget of {duration(experiment.budget_s)}."),
    )
    note = (
        "Input-bound share: 1 − step time with resident data ÷ step time, both of the same round. Up to 5 % of a step "
        "is not input-bound, from 5 % on moderately, from 20 % on highly (the thresholds of TensorFlow's profiler)."
    )
    evidence.how_measured(
        facts, experiment.environment, note, *chosen_line(experiment.workload, _base(experiment).target)
    )
