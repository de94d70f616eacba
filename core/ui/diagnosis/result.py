"""What a diagnosis says, on a page: the verdict, the chart, every remedy, what was not tried, how it was measured."""

from __future__ import annotations

from functools import partial

import pandas as pd
import streamlit as st

from core.evidence import same_machine
from core.figures.style import environment_line
from core.numbers import counted, duration
from core.studies.diagnosis.answer import DiagnosisAnswer, Finding, Judgement, diagnose
from core.studies.diagnosis.export import diagnosis_data
from core.studies.diagnosis.figures import diagnosis_figure, gain_words, measured_findings, variant_title, whole_title
from core.studies.diagnosis.record import Diagnosis
from core.studies.sweep.figures import workload_line
from core.studies.sweep.ran_as import ran_line
from core.studies.sweep.record import Run
from core.ui import charts, evidence, registry, share
from core.ui.card import DRAW_NOTICE, Badge, draw_notices, interval_metric, label_badge, result_card
from core.ui.states import ICONS, Level, Notice, few_starts, stopped
from core.ui.tables import written
from core.ui.words import plain

SHOWN_GAINS = 3
HEADS: dict[str, Badge] = {
    "helps": Badge("helps", ":material/check_circle:", "green"),
    "helps_but_behind": Badge("helps, still behind", ":material/trending_up:", "orange"),
    "none_helps": Badge("none helps", ":material/do_not_disturb_on:", "grey"),
    "none_helps_behind": Badge("none helps", ":material/do_not_disturb_on:", "grey"),
    "open": Badge("open", ":material/help:", "orange"),
    "failed": Badge("nothing measured", ":material/error:", "red"),
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
    key = (registry.revision(run), study_id)
    answer = registry.once(("diagnosis", *key), partial(diagnose, run, diagnosis))
    embedded = st.context.is_embedded
    _card(run, diagnosis, answer)
    draw_notices(notices(run, diagnosis, answer)[: 1 if embedded else None])
    if measured_findings(answer):
        alt = f"What each remedy gains, with 95 % intervals. {answer.sentence}"
        charts.show("diagnosis", partial(diagnosis_figure, run, diagnosis, answer), alt, f"{run.id}-diagnosis", key)
    if embedded:
        return
    _remedies(diagnosis, answer)
    _not_measured(answer)
    _readings(run, answer)
    _how_measured(diagnosis)
    share.heading()
    share.links({"run": run.id, "study": study_id})
    share.json_button(f"{run.id}-diagnosis", partial(diagnosis_data, diagnosis, answer), share.EVERY_BLOCK)


def _card(run: Run, diagnosis: Diagnosis, answer: DiagnosisAnswer) -> None:
    experiment, head = diagnosis.experiment, HEADS[answer.reason]
    about = f"{workload_line(run)}; {run.names[diagnosis.target]} at batch {diagnosis.batch:,}"
    card = result_card(
        "Diagnosis", [head, label_badge(experiment.label)], answer.sentence,
        (about, *ran_line(run, diagnosis.target), environment_line(experiment)),
        status=experiment.status, icon=head.icon,
    )  # fmt: skip
    helping = [finding for finding in answer.findings if finding.judgement == "helps"][:SHOWN_GAINS]
    if helping:
        meaning = f"Time per sample against the step as it is, {experiment.label}, with its 95 % interval."
        with card, st.container(horizontal=True):
            for finding in helping:
                interval_metric(variant_title(diagnosis, finding), gain_words(finding), meaning, after=" faster")


def notices(run: Run, diagnosis: Diagnosis, answer: DiagnosisAnswer) -> tuple[Notice, ...]:
    """What qualifies the verdict, most important first."""
    experiment = diagnosis.experiment
    rounds = counted(len(experiment.rounds), "round")
    kept = f"what follows rests on the {rounds} measured until then" if experiment.rounds else "no round was measured"
    found = [Notice("info", text) for text in stopped(experiment.status, "diagnosis", kept)]
    unclear = [variant_title(diagnosis, f) for f in answer.findings if f.judgement == "unclear"]
    if unclear:
        text = f"The rounds do not settle whether these help: {', '.join(unclear)}. A larger budget makes their "
        found.append(Notice("warning", f"{text}intervals narrower."))
    found += [Notice("info", text) for text in few_starts(_starts(diagnosis), "A larger budget")]
    if same_machine(run.environment, experiment.environment) is False:
        text = (
            "The sweep and this diagnosis name different machines. Gains are of the diagnosis's machine; step times "
            "and crossover of the sweep are of its own."
        )
        found.append(Notice("warning", text))
    return (*found, *(Notice("warning", warning.text) for warning in answer.warnings))


def _starts(diagnosis: Diagnosis) -> int:
    return len({block.process for item in diagnosis.experiment.rounds for block in item.blocks})


def _remedies(diagnosis: Diagnosis, answer: DiagnosisAnswer) -> None:
    """A fold for each remedy that was measured; those that help are open."""
    findings = measured_findings(answer)
    if not findings:
        return
    st.subheader(f"Every remedy that was tried ({diagnosis.experiment.label})", anchor=False)
    for finding in findings:
        icon, words = JUDGEMENTS[finding.judgement]
        label = f"**{plain(whole_title(diagnosis, finding))}**, {plain(words)}, {plain(gain_words(finding))}"
        with st.expander(label, icon=icon, expanded=finding.judgement == "helps"):
            st.markdown("  \n".join(f"**{plain(name)}** {plain(text)}" for name, text in details(finding)))


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
        {"Remedy": finding.title, "Outcome": JUDGEMENTS[finding.judgement][1], "Why": finding.evidence}
        for finding in answer.findings
        if finding.gain is None
    ]
    if rows:
        st.subheader("Not measured", anchor=False)
        st.table(written(pd.DataFrame(rows)), border="horizontal", hide_index=True)


def _readings(run: Run, answer: DiagnosisAnswer) -> None:
    """What the sweep itself shows: start-up inside a timing, operations on the host, retracing."""
    if not answer.readings:
        return
    st.subheader(f"Seen in the sweep itself ({run.label})", anchor=False)
    for reading in answer.readings:
        level: Level = "warning" if reading.matters else "info"
        DRAW_NOTICE[level](f"**{plain(reading.title)}.** {plain(reading.text)}", icon=ICONS[level])


def _how_measured(diagnosis: Diagnosis) -> None:
    experiment = diagnosis.experiment
    facts = [
        ("Rounds", f"{len(experiment.rounds):,}", "One block of every variant, in an order that turns each round."),
        ("Variants", f"{len(experiment.arms):,}", "The step as it is, and every remedy with its settings."),
        ("Starts of the workers", f"{_starts(diagnosis)}", "Each start counts as one observation."),
        ("Crossovers re-measured", f"{len(diagnosis.reruns)}", "Whole small sweeps, one a remedy."),
        ("Time", duration(experiment.elapsed_s), f"Of a budget of {duration(experiment.budget_s)}."),
        *evidence.interference_facts([item.interference for item in experiment.rounds]),
    ]
    note = (
        "Gain: time per sample as it is ÷ with the remedy, paired within rounds. A remedy helps when its whole 95 % "
        "interval lies above 1.03×."
    )
    evidence.how_measured(facts, experiment.environment, note)
