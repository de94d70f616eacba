"""Chart of a compiled step: the kernels that cost most, by the time that the card's rates allow, and their limits."""

from __future__ import annotations

import plotly.graph_objects as go

from core.base.numbers import byte_size, number
from core.base.text import sentence_case
from core.figures.style import TARGET_LOOKS, frame, linear_axis, literal, short
from core.studies.compiled.answer import CardStep, KernelTime, Limit
from core.studies.compiled.export import CLASS_WORDS, label_words, sentence, share_sentence
from core.studies.compiled.record import CompileStudy

ROW_PX, MAX_NAME = 30, 34
LIMIT_LOOKS: dict[Limit, tuple[int, str]] = {"memory": (0, "/"), "products": (1, ""), "shortest kernels": (2, ".")}
"""Look of a target and pattern of the bars; no target is drawn here."""
FOOT = (
    "Bars: bytes through memory and caches, products at the card's peak, or 1 µs per kernel, whichever is longest. No "
    "run of these kernels is faster; launches and waiting come on top."
)


def kernels_figure(study: CompileStudy, step: CardStep) -> go.Figure:
    """Draw the floor of the costliest kernels of one step, in µs per step, and all others together."""
    figure, times = go.Figure(), step.costliest
    names = [_name(time) for time in times]
    rest_us = 1000 * step.floor_ms - sum(time.total_us for time in times)
    longest = max([time.total_us for time in times] + [rest_us])
    shown = [limit for limit in LIMIT_LOOKS if any(time.limit == limit for time in times)]
    for limit in shown:
        look, pattern = TARGET_LOOKS[LIMIT_LOOKS[limit][0]], LIMIT_LOOKS[limit][1]
        mine = [(row, time) for row, time in enumerate(times) if time.limit == limit]
        figure.add_bar(
            x=[time.total_us for _, time in mine], y=[row for row, _ in mine], orientation="h", width=0.62,
            name=sentence_case(f"limited by {limit}"),
            marker={
                "color": look.band(), "line": {"color": look.colour, "width": 1.6},
                "pattern": {"shape": pattern, "fgcolor": look.colour, "fgopacity": 0.5, "size": 7, "solidity": 0.15},
            },
            text=[f"{number(time.total_us)} µs, {byte_size(time.kernel.bytes)}" for _, time in mine],
            textposition="outside", cliponaxis=False, hoverinfo="skip",
        )  # fmt: skip
    if rest_us > 0 and len(step.kernels) > len(times):
        names.append(f"{len(step.kernels) - len(times)} other kinds")
        figure.add_bar(
            x=[rest_us], y=[len(times)], orientation="h", width=0.62, name="all others", showlegend=False,
            marker={"color": "rgba(128,128,128,0.3)", "line": {"color": "#808080", "width": 1.2}},
            text=[f"{number(rest_us)} µs"], textposition="outside", cliponaxis=False, hoverinfo="skip",
        )  # fmt: skip
    figure.update_xaxes(linear_axis("Least time (µs per step)", (0, 1.35 * longest)))
    figure.update_yaxes(
        range=(len(names) - 0.4, -0.6), tickvals=list(range(len(names))), ticktext=[literal(name) for name in names],
        showgrid=False, zeroline=False, ticklabelstandoff=6, automargin=True,
    )  # fmt: skip
    figure.update_layout(barmode="overlay")
    under = [f"{study.plan.workload.title}, {study.plan.precision}", sentence(step), share_sentence(step)]
    title = f"Kernels of one step on {step.spec.name}, batch {step.batch:,}"
    foot = [FOOT, sentence_case(f"{label_words(study)}.")]
    return frame(
        figure, title, [line for line in under if line], foot, legend_rows=len(shown), plot_px=ROW_PX * len(names) + 20
    )


def _name(time: KernelTime) -> str:
    times = f" ×{time.kernel.times:,}" if time.kernel.times > 1 else ""
    return short(", ".join(filter(None, (CLASS_WORDS[time.kernel.kind][0], time.kernel.layer))), MAX_NAME) + times
