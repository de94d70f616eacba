"""What a pipeline study says, on a page: the verdict, charts, table, how it was measured, the file and its address."""

from __future__ import annotations

from functools import partial

import pandas as pd
import streamlit as st

from core.analysis.execution import chosen_line
from core.figures.style import environment_line
from core.names import full_name
from core.numbers import duration, number
from core.schema import UserError
from core.studies.experiment.record import Arm, Experiment
from core.studies.pipeline.answer import Fed, PipelineAnswer, pipeline_answer
from core.studies.pipeline.export import pipeline_data
from core.studies.pipeline.figures import calls_figure, cost_figure, feeding_figure
from core.studies.pipeline.plan import BASE, has_work
from core.ui import charts, evidence, share
from core.ui.card import draw_sentences, label_badge, result_card
from core.ui.states import few_starts, stopped
from core.ui.words import OUTCOMES, plain

CHARTS = {
    "feeding": ("Step time by way of feeding", feeding_figure),
    "cost": ("Step time and input-bound share by preprocessing cost", cost_figure),
    "calls": ("Step time by parallel calls", calls_figure),
}
RANDOM_BESIDE = (
    "Your own data are read in all tf.data rows. The resident and the host row use random arrays of the same shape: "
    "they show the step without any reading."
)


def show(study_id: str, experiment: Experiment) -> None:
    """The verdict, charts, table, how it was measured, and the file."""
    try:
        answer = pipeline_answer(experiment)
    except UserError as error:
        st.info(plain(str(error)), icon=":material/info:")
        return
    _card(experiment, answer)
    varies_calls = has_work(_base(experiment).pipeline)
    for name, (title, figure) in CHARTS.items():
        if name != "calls" or varies_calls:
            charts.show(f"pipeline-{name}", partial(figure, experiment, answer), f"{title}. {answer.sentence}",
                        f"pipeline-{study_id}-{name}", (study_id,))  # fmt: skip
    if st.context.is_embedded:
        return
    if not varies_calls:
        st.caption("Parallel calls were not varied: the map has nothing to do without preprocessing or your own data.")
    st.subheader(f"Every way of feeding ({experiment.label})", anchor=False)
    evidence.table(table(experiment, answer), "pipeline-arms",
                   alt="One row for each way of feeding with step time, interval and input-bound share.")  # fmt: skip
    _how_measured(experiment)
    share.heading()
    share.links({"study": study_id})
    share.json_button(f"pipeline-{study_id}", partial(pipeline_data, experiment, answer), share.EVERY_BLOCK)


def _base(experiment: Experiment) -> Arm:
    return experiment.arms[experiment.index_of(BASE) or 0]


def _card(experiment: Experiment, answer: PipelineAnswer) -> None:
    arm = _base(experiment)
    about = f"{experiment.workload.title} on {full_name(arm.target)}, batch {arm.batch:,}; {arm.pipeline.title}"
    more = [part.sentence for part in (answer.prefetch, answer.starvation) if part is not None]
    result_card("Input pipeline", [label_badge(experiment.label)], answer.sentence,
                (about, *chosen_line(experiment.workload, arm.target), environment_line(experiment)),
                status=experiment.status, more=more)  # fmt: skip
    draw_sentences(notices(experiment, answer))


def notices(experiment: Experiment, answer: PipelineAnswer) -> tuple[str, ...]:
    """What qualifies the verdict, as sentences."""
    found = stopped(experiment.status, "study", f"what follows rests on its {len(experiment.rounds):,} rounds")
    if experiment.arms[0].target.device == "cpu":
        found.append(
            "On a CPU target the pipeline and the step share the cores, so the input-bound share also counts the "
            "cores that preprocessing takes from the arithmetic."
        )
    if any(arm.pipeline.data is not None for arm in experiment.arms):
        found.append(RANDOM_BESIDE)
    found += few_starts(max((fed.processes for fed in answer.fed), default=0))
    return (*found, *(warning.text for warning in experiment.warnings))


def table(experiment: Experiment, answer: PipelineAnswer) -> pd.DataFrame:
    """One row for each way of feeding, those without a number with the reason."""
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
    evidence.how_measured(facts, experiment.environment, note)
