"""The evidence under a verdict: the table of cells, how it was measured, the machine."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

import pandas as pd
import streamlit as st

from core.analysis.answer import Answer, Fit
from core.export import placement_lines
from core.figures.style import number
from core.results import Noise, Run
from core.ui import charts
from core.ui.states import progress_words
from core.ui.tables import cells_table, environment_table
from core.ui.verdict import plain

COLUMNS = (
    "batch", "target", "step_ms", "low_ms", "high_ms", "rounds", "outcome", "stop_reason", "samples_per_s",
    "us_per_sample", "overhead_pct", "first_call_ms", "warmup_ms", "latency_ms", "memory_mb", "reason", "label",
)  # fmt: skip


def cells(run: Run, answer: Answer | None) -> None:
    """Every cell with its step time, interval, and what was kept outside the step time."""
    column = st.column_config.NumberColumn
    ms = "%.4g"
    table = cells_table(run, answer)
    if table.empty:
        st.caption("This run has no cells.")
        return
    st.dataframe(
        table.dropna(axis="columns", how="all"),
        hide_index=True,
        key="cells",
        column_order=COLUMNS,
        alt="One row a cell with step time, interval, rounds and outcome.",
        column_config={
            "batch": column("Batch", format="localized", pinned=True, width=70),
            "target": st.column_config.TextColumn("Target", pinned=True),
            "step_ms": column("Step (ms)", format=ms, help=f"Median over rounds, {run.label}."),
            "low_ms": column("95 % from (ms)", format=ms),
            "high_ms": column("95 % to (ms)", format=ms),
            "rounds": column("Rounds", format="localized"),
            "samples_per_s": column("Samples/s", format="compact"),
            "us_per_sample": column("µs a sample", format=ms),
            "first_call_ms": column("First call (ms)", format="%.0f", help="Trace and compile; not in the step time."),
            "warmup_ms": column("Warm-up (ms)", format="%.0f", help="Spent until steady; not in the step time."),
            "latency_ms": column("Latency (ms)", format=ms, help="One step with a synchronisation of its own."),
            "memory_mb": column("Memory peak (MB)", format="%.0f"),
            "overhead_pct": column("Overhead, fitted (%)", format="%.0f"),
            "stop_reason": "Stopped because",
            "outcome": "Outcome",
            "reason": "Reason",
            "label": "Label",
        },
    )


def fits(run: Run, answer: Answer) -> None:
    """Floor and slope of both targets, with intervals, and where half of the step is overhead."""
    rows = [fit_row(run, fit) for fit in answer.fits if fit is not None]
    if not rows:
        return
    st.subheader("Floor and slope (fitted)", anchor=False)
    st.caption(
        "T(batch) = (floor^q + (slope × batch)^q)^(1/q): the fixed cost of a step, and the marginal cost of a sample."
    )
    st.table(pd.DataFrame(rows), border="horizontal", hide_index=True)


def fit_row(run: Run, fit: Fit) -> dict[str, str]:
    """One fit in words, with its 95 % intervals."""

    def with_bounds(value: float | None, low: float | None, high: float | None, scale: float = 1.0) -> str:
        if value is None:
            return "none"
        text = number(scale * value)
        return text if low is None or high is None else f"{text} ({number(scale * low)} to {number(scale * high)})"

    trust = "yes" if fit.trusted else f"no: {fit.note}" if fit.note else "no"
    return {
        "Target": run.target_names[fit.target],
        "Floor (ms)": with_bounds(fit.floor_ms, fit.floor_low_ms, fit.floor_high_ms),
        "Slope (µs a sample)": with_bounds(fit.slope_ms, fit.slope_low_ms, fit.slope_high_ms, 1000.0),
        "q": number(fit.q),
        "Half overhead at batch": with_bounds(fit.half_overhead_batch, fit.half_overhead_low, fit.half_overhead_high),
        "Median error": f"{100 * fit.median_error:.1f} %",
        "Trusted": trust,
    }


def how_measured(run: Run, answer: Answer) -> None:
    """Processes, rounds, passes, noise, environment."""
    st.subheader("How it was measured", anchor=False)
    with st.container(horizontal=True):
        for name, value, meaning in _facts(run):
            st.metric(name, value, help=meaning, border=True)
    if lines := placement_lines(run):
        st.caption("  \n".join(plain(line) for line in lines))
    if any(block.at_s for r in run.rounds[-1:] for block in r.blocks):
        with st.container(border=True):
            charts.chart("noise", run, answer)
    if run.environment is not None:
        environment(run)


def _facts(run: Run) -> list[tuple[str, str, str]]:
    passes = len({r.pass_index for r in run.rounds})
    processes = len({(b.target, b.process) for r in run.rounds for b in r.blocks})
    facts = [
        ("Rounds", f"{len(run.rounds):,}", "One block of each target at one batch size, close together in time."),
        ("Passes", f"{passes}", "How often the sweep came back to the batch sizes."),
        ("Worker processes", f"{processes}", "Started over the sweep, both targets together."),
        ("Time", progress_words(run.elapsed_s) if run.elapsed_s else "not recorded", "Of the whole sweep."),
    ]
    return facts + noise_facts([r.noise for r in run.rounds])


def noise_facts(noises: Sequence[Noise]) -> list[tuple[str, str, str]]:
    """What else the machine did during the rounds: name, value, meaning."""
    facts = []
    busy = [noise.other_cpu_pct for noise in noises if noise.other_cpu_pct is not None]
    if busy:
        meaning = "CPU use of all other processes, in percent of one core: the median over rounds, and the most."
        facts.append(("Other processes", f"{median(busy):.0f} %, at most {max(busy):.0f} %", meaning))
    steal = [noise.steal_pct for noise in noises if noise.steal_pct is not None]
    if steal and max(steal) >= 0.5:
        facts.append(("Steal", f"at most {max(steal):.0f} %", "Time the hypervisor took from this machine."))
    return facts


def environment(run: Run) -> None:
    """The machine of a run, folded."""
    if run.environment is None:
        return
    with st.expander("The machine", icon=":material/memory:"):
        st.dataframe(
            environment_table(run.environment), hide_index=True, key="environment", height="content",
            column_config={"fact": "Fact", "value": "Value"},
        )  # fmt: skip
