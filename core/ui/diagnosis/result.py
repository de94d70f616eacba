"""A diagnosis on a page: the verdict, the chart, every remedy, what was not tried, how it was measured."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from operator import itemgetter

import streamlit as st

from core.base.evidence import same_machine
from core.base.numbers import counted, duration
from core.figures.style import environment_line
from core.rounds.ran_as import ran_line
from core.rounds.run import Run
from core.rounds.show.figures import workload_line
from core.studies.diagnosis.answer import MIN_GAIN, DiagnosisAnswer, Finding, Judgement, diagnose
from core.studies.diagnosis.export import diagnosis_data, diagnosis_text
from core.studies.diagnosis.figures import diagnosis_figure, gain_words, measured_findings, variant_title, whole_title
from core.studies.diagnosis.kind import DIAGNOSIS
from core.studies.diagnosis.record import Diagnosis
from core.studies.diagnosis.run import EXPERIMENT_SHARE, DiagnosisPlan
from core.studies.experiment.run import longer_budget_s
from core.ui import charts, evidence, more_time, registry, share
from core.ui.card import DRAW_NOTICE, Badge, draw_notes, label_badge, result_card
from core.ui.downloads import study_files
from core.ui.notices import ICONS, Level, Notice, few_starts, stopped
from core.ui.tables import static_table
from core.ui.words import plain

UNFOLDED = 1  # of the notes
HEADS: dict[str, Badge] = {
    "helps": Badge("helps", ":material/check_circle:", "green"),
    "helps_but_behind": Badge("helps, still slower", ":material/trending_up:", "orange"),
    "none_helps": Badge("none helps", ":material/do_not_disturb_on:", "grey"),
    "none_helps_behind": Badge("none helps", ":material/do_not_disturb_on:", "grey"),
    "open": Badge("not clear", ":material/help:", "orange"),
    "failed": Badge("nothing measured", ":material/error:", "red"),
}
JUDGEMENTS: dict[Judgement, tuple[str, str]] = {
    "helps": (":material/check_circle:", "helps"),
    "unclear": (":material/help:", "not clear, the interval is too wide"),
    "no effect": (":material/trending_flat:", "no effect"),
    "hurts": (":material/trending_down:", "hurts"),
    "failed": (":material/error:", "failed"),
    "not tried": (":material/remove:", "not tried"),
}


class Parts:
    """The parts of a result's frame, for one diagnosis of a run."""

    def __init__(self, run: Run, study_id: str, diagnosis: Diagnosis) -> None:
        self._run, self._id, self._diagnosis = run, study_id, diagnosis
        self._key = (registry.revision(run), study_id)
        self._answer = registry.once(("diagnosis", *self._key), partial(diagnose, run, diagnosis))

    def verdict(self) -> None:
        """Show the card, with the effect of more time if this diagnosis is this machine's."""
        _card(self._run, self._diagnosis, self._answer)

    def picture(self) -> None:
        if not any(finding.low is not None for finding in measured_findings(self._answer)):
            return
        make = partial(diagnosis_figure, self._run, self._diagnosis, self._answer)
        alt = f"What each remedy gains, with 95 % intervals. {self._answer.sentence}"
        charts.show("diagnosis", make, alt, f"{self._run.id}-diagnosis", self._key)

    def notes(self) -> None:
        draw_notes(notices(self._run, self._diagnosis, self._answer), UNFOLDED)

    def evidence(self) -> dict[str, Callable[[], None]]:
        """Return the available evidence by title."""
        parts: dict[str, Callable[[], None]] = {}
        if measured_findings(self._answer):
            parts["Every remedy that was tried"] = partial(_remedies, self._diagnosis, self._answer)
        if any(finding.gain is None for finding in self._answer.findings):
            parts["Not measured"] = partial(_not_measured, self._answer)
        if self._answer.readings:
            parts["Seen in the sweep itself"] = partial(_readings, self._answer)
        return parts | {"How it was measured": partial(_how_measured, self._run, self._diagnosis)}

    def share(self) -> None:
        name, query = f"{self._run.id}-diagnosis", {"run": self._run.id, "study": self._id}
        data = partial(diagnosis_data, self._diagnosis, self._answer)
        text = partial(diagnosis_text, self._run, self._diagnosis, self._answer)
        drawn = measured_findings(self._answer)
        figure = partial(diagnosis_figure, self._run, self._diagnosis, self._answer) if drawn else None
        share.panel(name, query, study_files(name, data, text=text, figure=figure, rows=itemgetter("findings")))


def so_far(run: Run, diagnosis: Diagnosis | None) -> None:
    """Draw the gains of a running diagnosis, without a claim: those come when it ends."""
    if diagnosis is None or diagnosis.run_id != run.id:
        return
    answer = diagnose(run, diagnosis)
    open_yet = tuple(replace(f, judgement="unclear") if f.gain is not None else f for f in answer.findings)
    answer = replace(answer, findings=open_yet, warnings=())
    if not any(finding.low is not None for finding in measured_findings(answer)):
        return
    starts = counted(_starts(diagnosis), "start")
    charts.show(
        "diagnosis-live", partial(diagnosis_figure, run, diagnosis, answer), f"Gains after {starts} of the workers.",
        f"{run.id}-diagnosis-so-far", border=False,
    )  # fmt: skip
    st.caption(plain(f"After {starts} of the workers. What helps is said when the diagnosis ends."))


def _again(run: Run, diagnosis: Diagnosis, answer: DiagnosisAnswer) -> None:
    """Offer the same diagnosis with a budget that should make it clear."""
    if not more_time.is_of_here(diagnosis.experiment) or run.plan is None or run.label != "measured":
        return
    unclear = [finding for finding in answer.findings if finding.judgement == "unclear"]
    budget_s = longer_budget_s(diagnosis.experiment, halves(unclear), EXPERIMENT_SHARE)
    if budget_s is None:
        return
    names = counted(len(unclear), "remedy", "remedies") if unclear else ""
    plan = DiagnosisPlan(run, diagnosis.target, diagnosis.batch, budget_s)
    more_time.offer_again(DIAGNOSIS, plan, names, urgent=answer.reason == "open")


def halves(unclear: Sequence[Finding]) -> tuple[tuple[float, float], ...]:
    """Return half widths of the intervals, and those at which each would lie on one side of the minimum gain."""
    known = [(f.gain, f.low, f.high) for f in unclear if f.gain and f.low and f.high]
    level = math.log1p(MIN_GAIN)
    return tuple(
        (math.log(high / low) / 2, max(abs(abs(math.log(gain)) - level), level / 3)) for gain, low, high in known
    )


def _card(run: Run, diagnosis: Diagnosis, answer: DiagnosisAnswer) -> None:
    experiment, head = diagnosis.experiment, HEADS[answer.reason]
    about = f"{workload_line(run)}; {run.names[diagnosis.target]} at batch {diagnosis.batch:,}"
    headline, *more = re.split(r"(?<=\.) (?=[A-Z])", answer.sentence)
    result_card(
        "Diagnosis", [head, label_badge(experiment.label)], headline,
        (f"{about} · {environment_line(experiment)}",), status=experiment.status, icon=head.icon, more=more,
        below=partial(_again, run, diagnosis, answer),
    )  # fmt: skip


def notices(run: Run, diagnosis: Diagnosis, answer: DiagnosisAnswer) -> tuple[Notice, ...]:
    """Return what qualifies the verdict, most important first."""
    experiment = diagnosis.experiment
    rounds = counted(len(experiment.rounds), "round")
    kept = f"what follows rests on the {rounds} measured until then" if experiment.rounds else "no round was measured"
    qualifiers = [Notice("info", text) for text in stopped(experiment.status, "diagnosis", kept)]
    unclear = [variant_title(diagnosis, f) for f in answer.findings if f.judgement == "unclear"]
    if unclear:
        text = f"It is not clear whether these help: {', '.join(unclear)}. A larger budget makes their "
        qualifiers.append(Notice("warning", f"{text}intervals narrower."))
    qualifiers += [Notice("info", text) for text in few_starts(_starts(diagnosis), "A larger budget")]
    if same_machine(run.environment, experiment.environment) is False:
        text = (
            "The sweep and this diagnosis name different machines. Gains are of the diagnosis's machine; step times "
            "and crossover of the sweep are of its own."
        )
        qualifiers.append(Notice("warning", text))
    return (*qualifiers, *(Notice("warning", warning.text) for warning in answer.warnings))


def _starts(diagnosis: Diagnosis) -> int:
    return len({block.process for item in diagnosis.experiment.rounds for block in item.blocks})


def _remedies(diagnosis: Diagnosis, answer: DiagnosisAnswer) -> None:
    """Draw one expander per measured remedy; those that help are open."""
    findings = measured_findings(answer)
    for finding in findings:
        icon, words = JUDGEMENTS[finding.judgement]
        label = f"**{plain(whole_title(diagnosis, finding))}**, {plain(words)}, {plain(gain_words(finding))}"
        with st.expander(label, icon=icon, expanded=finding.judgement == "helps"):
            st.markdown("  \n".join(f"**{plain(name)}** {plain(text)}" for name, text in details(finding)))


def details(finding: Finding) -> tuple[tuple[str, str], ...]:
    """Return the known facts about a remedy as pairs of name and text."""
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
    static_table(rows)


def _readings(answer: DiagnosisAnswer) -> None:
    """Show findings of the sweep itself: start-up inside a timing, operations on the host, retracing."""
    for reading in answer.readings:
        level: Level = "warning" if reading.matters else "info"
        DRAW_NOTICE[level](f"**{plain(reading.title)}.** {plain(reading.text)}", icon=ICONS[level])


def _how_measured(run: Run, diagnosis: Diagnosis) -> None:
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
    evidence.how_measured(facts, experiment.environment, note, *ran_line(run, diagnosis.target))
