"""Chart of a diagnosis: the gain of each remedy with its interval, ranked, about a line of no change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import plotly.graph_objects as go

from core.base.text import sentence_case
from core.figures.marks import add_upright, add_zone, whiskers
from core.figures.style import GUIDE, flat_legend, frame, literal, log_range, ratio_axis, short, within_reach
from core.rounds.run import Run
from core.rounds.show.figures import workload_line
from core.studies.diagnosis.answer import MIN_GAIN, DiagnosisAnswer, Finding, Judgement
from core.studies.diagnosis.record import Diagnosis

ROW_PX = 46
BESIDE = 0.2  # offset in rows of a mark below the middle of its row; the words stand above it
MAX_TITLE = 38
WIDEST = 2.0  # factor beyond the gains at which whiskers are cut; the words have their ends


@dataclass(frozen=True)
class JudgedLook:
    """Colour, symbol and size of a judgement. No colour of a target is among them; the green (Okabe and Ito) and the
    purple have a contrast of 3 on light and dark paper, and the symbols carry the same information without colour.
    """

    colour: str
    symbol: str
    size: int
    words: str


LOOKS: dict[Judgement, JudgedLook] = {
    "helps": JudgedLook("#009E73", "triangle-right", 12, "helps"),
    "unclear": JudgedLook(GUIDE, "diamond-open", 10, "not clear"),
    "no effect": JudgedLook(GUIDE, "circle", 9, "no effect"),
    "hurts": JudgedLook("#C0408A", "triangle-left", 12, "hurts"),
}
"""In the order of the legend; only judgements of something measured have a mark."""


def measured_findings(answer: DiagnosisAnswer) -> tuple[Finding, ...]:
    """Return the findings that have a number, most gain first within each judgement."""
    return tuple(finding for finding in answer.findings if finding.gain is not None)


def variant_title(diagnosis: Diagnosis, finding: Finding) -> str:
    """Return the measured variant in few words, as in ``8 steps per execution``; the remedy's name without one."""
    index = diagnosis.experiment.index_of(finding.code)
    return finding.title if index is None else diagnosis.experiment.arms[index].title


def whole_title(diagnosis: Diagnosis, finding: Finding) -> str:
    """Return the remedy, with the measured variant unless its name includes it."""
    variant = variant_title(diagnosis, finding)
    return finding.title if variant in finding.title else f"{finding.title}: {variant}"


def gain_words(finding: Finding) -> str:
    """Return ``1.42× (1.38 to 1.46)``; no number without an interval, empty without a gain."""
    if finding.gain is None:
        return ""
    if finding.low is None or finding.high is None:
        return "too few rounds"
    return f"{finding.gain:.2f}× ({finding.low:.2f} to {finding.high:.2f})"


def diagnosis_figure(run: Run, diagnosis: Diagnosis, answer: DiagnosisAnswer) -> go.Figure:
    """Plot the speed-up (time per sample) of each remedy, one row each, most gain first.

    ``answer`` must have a finding with a number.
    """
    findings = measured_findings(answer)
    bounds = _bounds(findings)
    figure = go.Figure()
    add_zone(figure, 1 / (1 + MIN_GAIN), 1 + MIN_GAIN, GUIDE, 0.18)
    add_upright(figure, 1, dash=None)
    kinds = [kind for kind in LOOKS if any(f.judgement == kind and f.low is not None for f in findings)]
    for kind in kinds:
        rows = [row for row, finding in enumerate(findings) if finding.judgement == kind and finding.low is not None]
        _add_marks(figure, [findings[row] for row in rows], rows, LOOKS[kind], diagnosis)
    figure.update_xaxes(ratio_axis("Times faster than as it is (time per sample)", bounds))
    figure.update_yaxes(
        range=[len(findings) - 0.4, -0.6], showticklabels=False, showgrid=False, zeroline=False, fixedrange=True
    )
    figure.update_layout(barmode="overlay")
    name = sentence_case(run.names[diagnosis.target])
    under = [workload_line(run), f"{name} at batch {diagnosis.batch:,}, beside the step as it is"]
    framed = frame(
        figure, "What each remedy gains", under, _notes(answer), diagnosis.experiment,
        legend_rows=-(-len(kinds) // 2), plot_px=ROW_PX * len(findings) + 8,
    )  # fmt: skip
    for row, finding in enumerate(findings):
        _add_words(framed, row, variant_title(diagnosis, finding), finding)
    return flat_legend(framed)


def _bounds(findings: Sequence[Finding]) -> tuple[float, float]:
    """Return the range of the axis: all gains and their intervals, cut at ``WIDEST`` beyond the gains."""
    findings = [finding for finding in findings if finding.low is not None]
    gains = [finding.gain for finding in findings if finding.gain is not None]
    ends = [end for finding in findings for end in (finding.low, finding.high)]
    return log_range(within_reach([*gains, 0.94, 1.065], ends, WIDEST), 0.05)


def _add_marks(
    figure: go.Figure, findings: Sequence[Finding], rows: Sequence[int], look: JudgedLook, diagnosis: Diagnosis
) -> None:
    """Draw a pale bar from no change to the gain, the gain as a symbol, its interval as a whisker."""
    y = [row + BESIDE for row in rows]
    gains = [finding.gain or 1.0 for finding in findings]
    figure.add_bar(
        x=[gain - 1 for gain in gains], base=[1.0] * len(gains), y=y, width=0.26, orientation="h", showlegend=False,
        marker={"color": look.colour, "opacity": 0.3, "line": {"width": 0}}, hoverinfo="skip", legendgroup=look.words,
        name=f"{look.words}, bars",
    )  # fmt: skip
    figure.add_scatter(
        x=gains, y=y, mode="markers", name=look.words, legendgroup=look.words,
        marker={
            "color": look.colour, "symbol": look.symbol, "size": look.size,
            "line": {"width": 1.5, "color": look.colour},
        },
        error_x=whiskers([(gain, f.low, f.high) for gain, f in zip(gains, findings, strict=True)], look.colour, 2.2, 6),
        customdata=[_hover(diagnosis, finding) for finding in findings], hovertemplate="%{customdata}<extra></extra>",
    )  # fmt: skip


def _hover(diagnosis: Diagnosis, finding: Finding) -> str:
    lines = [
        f"<b>{literal(whole_title(diagnosis, finding))}</b>",
        f"{gain_words(finding)}, {LOOKS[finding.judgement].words}",
    ]
    return "<br>".join(lines + ([f"others: {literal(finding.others)}"] if finding.others else []))


def _add_words(figure: go.Figure, row: int, title: str, finding: Finding) -> None:
    """Write the remedy above its mark on the left, its gain on the right; bold if it helps."""
    for text, x, anchor, shift in ((short(title, MAX_TITLE), 0, "left", -56), (gain_words(finding), 1, "right", 0)):
        words = literal(text)
        figure.add_annotation(
            text=f"<b>{words}</b>" if finding.judgement == "helps" else words, xref="paper", x=x, xanchor=anchor,
            xshift=shift, y=row, yshift=9, yanchor="middle", showarrow=False, font={"size": 12.5},
        )  # fmt: skip


def _notes(answer: DiagnosisAnswer) -> list[str]:
    threshold = round(100 * MIN_GAIN)
    notes = [f"Whiskers: 95 % intervals. Grey band: less than {threshold} % either way, too little to recommend."]
    if any(finding.gain is not None and finding.low is None for finding in answer.findings):
        notes.append("No mark: too few rounds for an interval.")
    missing = [finding for finding in answer.findings if finding.gain is None]
    if missing:
        notes.append(f"Not measured: {', '.join(f'{f.title} ({f.judgement})' for f in missing)}.")
    return notes
