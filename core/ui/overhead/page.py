"""The split of a step's time: the choice of target and cell, the answer in words, both charts, the tables."""

from __future__ import annotations

from functools import partial

import plotly.graph_objects as go
import streamlit as st

from core.base.numbers import counted, number
from core.figures.style import environment_line
from core.rounds.answer.answer import Answer, Fit
from core.rounds.ran_as import ran_line
from core.rounds.run import Run
from core.rounds.show.figures import workload_line
from core.rounds.show.trace_figures import timeline_figure, trace_share_figure, traced_cells
from core.traces.record import TRUSTED_RATIO, AnyTrace, TracedCell
from core.ui import charts, evidence, registry, shown_run
from core.ui.card import Badge, label_badge, result_card
from core.ui.navigation import link
from core.ui.overhead import words
from core.ui.share import addressed_target, target_address
from core.ui.tables import cleaned
from core.ui.words import plain
from core.workload.names import all_of

BATCH_KEY, JUMP = "overhead_batch", "overhead_jump"
LONG_NAME = 60  # characters; kernels with a longer name are shown whole in a separate column


def target_of(run: Run) -> int:
    """Return the target to show: the address's or chosen one, else the last traced one, else the last one."""
    targets = range(len(run.names))
    target = addressed_target(st.query_params.get("target"), targets)
    if target is None:
        _say_left_out("target")
        target = max((cell.target for cell in run.traces), default=targets[-1])
    if st.context.is_embedded or len(targets) == 1:
        return target
    chosen = shown_run.choose_target(run, "Target", targets, target, "overhead_target")
    st.query_params["target"] = target_address(chosen)
    return chosen


def _say_left_out(parameter: str) -> None:
    """Say that the address names a target or a traced batch that this run does not have, if it does."""
    if value := st.query_params.get(parameter, ""):
        text = f"This run has no traced {parameter} “{value}”, so another one is shown."
        st.info(plain(text), icon=":material/link_off:")


def untraced(run: Run) -> None:
    """Show why cells of any target of this run could not be traced: one target's trace says nothing about another's."""
    for warning in run.warnings:
        if warning.code.startswith("trace_"):
            st.warning(plain(warning.text), icon=":material/warning:")


def cell_of(run: Run, target: int, answer: Answer | None) -> TracedCell | None:
    """Return the traced cell to show, or None if no cell of the target was traced.

    It is the batch in the address or chosen, else the most telling one.
    """
    cells = {cell.batch: cell for cell in traced_cells(run, target)}
    if not cells:
        return None
    requested = st.query_params.get("batch", "")
    batch = int(requested) if requested in map(str, cells) else _most_telling(tuple(cells.values()), answer)
    if requested != str(batch):
        _say_left_out("batch")
    if st.context.is_embedded:
        return cells[batch]
    key = f"{BATCH_KEY}-{run.id}-{target}"
    if (wanted := st.session_state.get(JUMP)) and wanted[:2] == (run.id, target) and wanted[2] in cells:
        st.session_state[key] = st.session_state.pop(JUMP)[2]  # the cell just traced, once it is available
    options = list(cells)
    chosen = st.selectbox(
        "Batch size of the traced step", options, index=options.index(batch), key=key, width=240,
        format_func=lambda size: f"{size:,}" if cells[size].trusted else f"{size:,} (not to be trusted)",
    )  # fmt: skip
    batch = batch if chosen is None else int(chosen)
    st.query_params["batch"] = str(batch)
    return cells[batch]


def _most_telling(cells: tuple[TracedCell, ...], answer: Answer | None) -> int:
    """Return the batch nearest to the crossover, or the middle one; a trusted one if there is any."""
    batches = [cell.batch for cell in cells if cell.trusted] or [cell.batch for cell in cells]
    if answer is not None and answer.verdict.crossovers:
        crossover = answer.verdict.crossovers[0].batch
        return min(batches, key=lambda batch: max(batch / crossover, crossover / batch))
    return batches[len(batches) // 2]


def nothing_traced(run: Run, target: int) -> None:
    """Say that the target has no trace, and which targets have one."""
    sentence = "No batch of this run was traced, so only its fixed-cost share is known, fitted to the step times."
    if any(cell.target != target for cell in run.traces):
        traced = sorted({cell.target for cell in run.traces})
        have = "has" if len(traced) == 1 else "have"
        names = all_of([run.names[index] for index in traced])
        sentence = f"No batch of {run.names[target]} was traced; {names} {have} a trace."
    st.info(plain(sentence), icon=":material/stacked_bar_chart:")
    link("crossover", "The fixed-cost share of every target", run=run.id)


def card(run: Run, cell: TracedCell) -> None:
    """Show the answer for one cell: a sentence with its label."""
    badges = [label_badge(run.label)]
    if not cell.trusted:
        badges.append(Badge("not to be trusted", ":material/warning:", "orange"))
    about = (f"{workload_line(run)}, {run.names[cell.target]} · {environment_line(run)}",)
    result_card("Where a step goes", badges, words.headline(cell), about)


def notes(cell: AnyTrace) -> None:
    """Show what qualifies the answer."""
    for sentence in (words.distrust(cell), words.retraced(cell)):
        if sentence:
            st.warning(plain(sentence), icon=":material/warning:")
    sentences = (*filter(None, [words.all_reduced(cell)]), *cell.notes)
    if sentences:
        st.caption("  \n".join(plain(note) for note in sentences))


def how_traced(run: Run, cell: TracedCell) -> None:
    """Show the step times with and without the profiler, and the machine."""
    steps = counted(len(cell.device.steps), "traced step")
    facts = (
        ("Step, unprofiled", f"{number(cell.unprofiled_step_ms)} ms",
         f"The same steps in the same process without the profiler, {run.label}."),
        ("Step, profiled", f"{number(cell.profiled_step_ms)} ms", f"Over {steps}, {run.label}."),
        ("Profiled ÷ unprofiled", f"{number(cell.profiler_ratio)}×",
         f"Above {TRUSTED_RATIO} the profiler is a large part of what it shows and the split is not to be trusted."),
    )  # fmt: skip
    evidence.show_facts(facts)
    for line in ran_line(run, cell.target):
        st.caption(plain(line))
    evidence.machine(run.environment)


def shares(run: Run, target: int) -> None:
    """Draw the traced parts by batch."""
    named = "; ".join(words.headline(cell) for cell in traced_cells(run, target))
    _chart("where-a-step-goes", run, partial(trace_share_figure, run, target),
           f"Parts of a traced step by batch size. {named}", target)  # fmt: skip


def timeline(run: Run, cell: AnyTrace) -> None:
    """Draw one traced step as rows of events."""
    _chart("timeline", run, partial(timeline_figure, run, cell),
           f"Timeline of one traced step. {words.headline(cell)}", cell.target, cell.place)  # fmt: skip


def _chart(name: str, run: Run, make: partial[go.Figure], alt: str, *key: int | str) -> None:
    charts.show(name, make, alt, f"{run.id}-{name}", (registry.revision(run), *key))


def explanation(cell: TracedCell, fit: Fit | None) -> None:
    """Explain why the fixed-cost share and the overhead share differ."""
    for sentence in words.fitted_against_traced(cell, fit):
        st.markdown(plain(sentence))


def costly_title(cell: AnyTrace) -> str:
    """Return the title of :func:`kernels`."""
    return f"{'Operations' if words.on_cpu(cell) else 'Kernels'} that cost most"


def kernels(run: Run, cell: AnyTrace) -> None:
    """Show the kernels, or a CPU's operations, that cost most."""
    what = "operation" if words.on_cpu(cell) else "kernel"
    table = words.kernels_table(cell)
    if table.empty:
        st.caption(f"The trace names no {what}.")
        return
    steps = len(cell.device.steps)
    st.caption(
        f"Of {cell.device.kernels:,} {what}s in {counted(steps, 'traced step')}, {run.label} "
        "under the profiler. Shares of the busy time may add up to more than 100 %, since several can run at once."
    )
    column = st.column_config.NumberColumn
    shown = ["kernel", "count", "total_ms", "busy_pct"]
    if any(len(name) > LONG_NAME for name in table["name"]) or any(table["name"] != table["kernel"]):
        shown.append("name")
    st.dataframe(
        cleaned(table), hide_index=True, key="kernels", column_order=shown,
        alt=f"One row for each of the {what}s that cost most: name, count, total milliseconds, share of busy time.",
        column_config={
            "kernel": st.column_config.TextColumn(what.capitalize(), width="large"),
            "count": column("Count", format="localized", help="Within the traced steps."),
            "total_ms": column("Total (ms)", format="%.4g", help=f"Within the traced steps, {run.label}."),
            "busy_pct": column("Of busy time (%)", format="%.1f", help="Of the time in which any was running."),
            "name": st.column_config.TextColumn("Whole name", width="large", help="Click it to read it whole."),
        },
    )  # fmt: skip


def host_operations(run: Run, cell: AnyTrace) -> None:
    """Show what ran on the host beside a GPU: expected or fallen back, with its time and bytes moved."""
    fell_back = any(not op.expected for op in cell.host_ops)
    (st.warning if fell_back else st.markdown)(plain(words.placement(cell)))
    if not cell.host_ops:
        return
    column = st.column_config.NumberColumn
    st.dataframe(
        cleaned(words.host_table(run, cell)), hide_index=True, key="host-ops",
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
