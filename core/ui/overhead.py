"""Where a step goes: the choice of target and cell, the answer in words, both charts, the tables."""

from __future__ import annotations

from collections.abc import Callable, Hashable

import plotly.graph_objects as go
import streamlit as st

from core import figures
from core.analysis.answer import Answer, Fit
from core.figures.style import environment_line, number, workload_line
from core.figures.trace_charts import traced_cells
from core.results import Run
from core.traced import TRUSTED_RATIO, TracedCell
from core.ui import charts, registry, traced_words
from core.ui.verdict import LABEL_COLOURS, plain
from core.ui.words import LABEL_ICONS, LABELS

SIDES = ("first", "second")  # how an address names the targets of a run
TARGET_KEY, BATCH_KEY, JUMP = "overhead_target", "overhead_batch", "overhead_jump"
LONG_NAME = 60  # characters; where a kernel's name is longer, a column shows it whole


def target_of(run: Run) -> int:
    """The target to show: the one in the address or chosen, else the second one, unless only the first was traced."""
    asked = st.query_params.get("target")
    target = SIDES.index(asked) if asked in SIDES else max((cell.target for cell in run.traces), default=1)
    if st.context.is_embedded:
        return target
    chosen = st.segmented_control(
        "Target", (0, 1), default=target, required=True, key=f"{TARGET_KEY}-{run.id}",
        format_func=lambda index: plain(run.target_names[index]),
    )  # fmt: skip
    st.query_params["target"] = SIDES[target if chosen is None else chosen]
    return target if chosen is None else chosen


def cell_of(run: Run, target: int, answer: Answer | None) -> TracedCell | None:
    """The traced cell to show: the batch in the address or chosen, else the one that says most; None where no cell
    of the target was traced."""
    cells = {cell.batch: cell for cell in traced_cells(run, target)}
    if not cells:
        return None
    asked = st.query_params.get("batch", "")
    batch = int(asked) if asked in map(str, cells) else _most_telling(tuple(cells.values()), answer)
    if st.context.is_embedded:
        return cells[batch]
    key = f"{BATCH_KEY}-{run.id}-{target}"
    if (wanted := st.session_state.get(JUMP)) and wanted[:2] == (run.id, target) and wanted[2] in cells:
        st.session_state[key] = st.session_state.pop(JUMP)[2]  # the cell just traced, once it is there
    options = list(cells)
    chosen = st.selectbox(
        "Batch size of the traced step", options, index=options.index(batch), key=key, width=240,
        format_func=lambda size: f"{size:,}" if cells[size].trusted else f"{size:,} (not to be trusted)",
    )  # fmt: skip
    batch = batch if chosen is None else int(chosen)
    st.query_params["batch"] = str(batch)
    return cells[batch]


def _most_telling(cells: tuple[TracedCell, ...], answer: Answer | None) -> int:
    """The batch nearest to the crossover, or the middle one; one to be trusted if there is any."""
    found = [cell.batch for cell in cells if cell.trusted] or [cell.batch for cell in cells]
    if answer is not None and answer.verdict.crossovers:
        crossover = answer.verdict.crossovers[0].batch
        return min(found, key=lambda batch: max(batch / crossover, crossover / batch))
    return found[len(found) // 2]


def nothing_traced(run: Run, target: int) -> None:
    """Say that there is nothing to show for the target, and what there is."""
    name = plain(run.target_names[target])
    if any(cell.target != target for cell in run.traces):
        st.info(f"No cell of {name} was traced; the other target has a trace.", icon=":material/stacked_bar_chart:")
    else:
        st.info(
            "No cell of this run was traced, so only the fitted overhead share is known.",
            icon=":material/stacked_bar_chart:",
        )
    st.page_link("pages/crossover.py", label="The fitted share of both targets", icon=":material/line_axis:",
                 query_params={"run": run.id})  # fmt: skip


def card(run: Run, cell: TracedCell, fit: Fit | None) -> None:
    """The answer for one cell: a sentence with its label, the numbers it rests on, and what qualifies it."""
    with st.container(border=True):
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            st.markdown("**Where a step goes**", width="content")
            st.badge(run.label, icon=LABEL_ICONS[run.label], color=LABEL_COLOURS[run.label], help=LABELS[run.label])
            if not cell.trusted:
                st.badge("not to be trusted", icon=":material/warning:", color="orange")
        st.subheader(plain(traced_words.headline(cell)), anchor=False)
        st.caption(
            f"{plain(workload_line(run))}, {plain(run.target_names[cell.target])}  \n{plain(environment_line(run))}"
        )
        _numbers(run, cell, fit)
    for sentence in (traced_words.distrust(cell), traced_words.retraced(cell)):
        if sentence:
            st.warning(plain(sentence), icon=":material/warning:")


def _numbers(run: Run, cell: TracedCell, fit: Fit | None) -> None:
    share = cell.device.mean().overhead_share
    steps = f"{len(cell.device.steps):,} traced {'step' if len(cell.device.steps) == 1 else 'steps'}"
    fitted = "none" if fit is None else traced_words.percent(fit.overhead_share(cell.batch))
    facts = (
        ("Step, unprofiled", f"{number(cell.unprofiled_step_ms)} ms",
         f"The same steps in the same process without the profiler, {run.label}."),
        ("Step, profiled", f"{number(cell.profiled_step_ms)} ms", f"Over {steps}, {run.label}."),
        ("Profiled ÷ unprofiled", f"{number(cell.profiler_ratio)}×",
         f"Above {TRUSTED_RATIO} the profiler is a large part of what it shows and the split is not to be trusted."),
        ("Compute share, traced", traced_words.percent(1 - share), f"Of the mean of {steps}, {run.label}."),
        ("Overhead share, traced", traced_words.percent(share), f"All but compute, {run.label} under the profiler."),
        ("Overhead share, fitted", fitted,
         f"1 − slope × batch ÷ step time, fitted to {run.label} step times without the profiler."),
    )  # fmt: skip
    with st.container(horizontal=True):
        for name, value, meaning in facts:
            st.metric(name, value, help=meaning, border=True)


def shares(run: Run, target: int, fit: Fit | None) -> None:
    """Traced parts by batch under the fitted line."""
    key = ("shares", registry.revision(run), target)
    figure = _drawn(key, charts.is_dark(), lambda: figures.trace_share_figure(run, target, fit))
    named = "; ".join(traced_words.headline(cell) for cell in traced_cells(run, target))
    _chart("where-a-step-goes", run, figure, f"Parts of a traced step by batch size beside the fitted share. {named}")


def timeline(run: Run, cell: TracedCell) -> None:
    """One traced step as rows of events."""
    key = ("timeline", registry.revision(run), cell.target, cell.batch)
    figure = _drawn(key, charts.is_dark(), lambda: figures.timeline_figure(run, cell))
    _chart("timeline", run, figure, f"Timeline of one traced step. {traced_words.headline(cell)}")


def _chart(name: str, run: Run, figure: go.Figure, alt: str) -> None:
    config = figures.chart_config("svg", f"breakeven-{run.id}-{name}")
    with st.container(border=True):
        st.plotly_chart(figure, theme=None, key=f"chart-{name}", config=config, alt=alt)


@st.cache_resource(max_entries=24, show_spinner=False)
def _drawn(key: tuple[Hashable, ...], dark: bool, _draw: Callable[[], go.Figure]) -> go.Figure:  # noqa: ARG001
    figure = _draw()
    return figures.on_dark(figure) if dark else figure


def explanation(cell: TracedCell, fit: Fit | None) -> None:
    """Why the fitted and the traced share differ."""
    st.subheader("Fitted against traced", anchor=False)
    for sentence in traced_words.fitted_against_traced(cell, fit):
        st.markdown(plain(sentence))


def kernels(run: Run, cell: TracedCell) -> None:
    """The kernels, or operations on a CPU, that cost most."""
    what = "operation" if traced_words.on_cpu(cell) else "kernel"
    st.subheader(f"{what.capitalize()}s that cost most", anchor=False)
    table = traced_words.kernels_table(cell)
    if table.empty:
        st.caption(f"The trace names no {what}.")
        return
    steps = len(cell.device.steps)
    st.caption(
        f"Of {cell.device.kernels:,} {what}s in {steps:,} traced {'step' if steps == 1 else 'steps'}, {run.label} "
        "under the profiler. Shares of the busy time may add up to more than 100 %, since several can run at once."
    )
    column = st.column_config.NumberColumn
    shown = ["kernel", "count", "total_ms", "busy_pct"]
    if any(len(name) > LONG_NAME for name in table["name"]) or any(table["name"] != table["kernel"]):
        shown.append("name")
    st.dataframe(
        table, hide_index=True, key="kernels", column_order=shown,
        alt=f"One row for each of the {what}s that cost most: name, count, total milliseconds, share of busy time.",
        column_config={
            "kernel": st.column_config.TextColumn(what.capitalize(), width="large"),
            "count": column("Count", format="localized", help="Within the traced steps."),
            "total_ms": column("Total (ms)", format="%.4g", help=f"Within the traced steps, {run.label}."),
            "busy_pct": column("Of busy time (%)", format="%.1f", help="Of the time in which any was running."),
            "name": st.column_config.TextColumn("Whole name", width="large", help="Click a cell to read it whole."),
        },
    )  # fmt: skip


def host_operations(run: Run, cell: TracedCell) -> None:
    """What ran on the host beside a GPU: expected or fallen back, with what it took and moved."""
    st.subheader("On the host instead of the device", anchor=False)
    fell_back = any(not op.expected for op in cell.host_ops)
    (st.warning if fell_back else st.markdown)(plain(traced_words.placement(cell)))
    if not cell.host_ops:
        return
    column = st.column_config.NumberColumn
    st.dataframe(
        traced_words.host_table(run, cell), hide_index=True, key="host-ops",
        alt="One row for each operation that ran on the host: name, type, why, count, total milliseconds, data moved.",
        column_config={
            "operation": st.column_config.TextColumn("Operation", width="large"),
            "type": "Type",
            "why": "Why",
            "count": column("Count", format="localized", help="Within the traced steps."),
            "total_ms": column("Total (ms)", format="%.4g", help="Within the traced steps, under the profiler."),
            "moved": st.column_config.TextColumn("Moved between host and device", help="Within the traced steps."),
            "label": "Label",
        },
    )  # fmt: skip
