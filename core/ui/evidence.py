"""The evidence below a verdict: the table of cells, how it was measured, the machine."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median
from typing import Any

import pandas as pd
import streamlit as st

from core.base.evidence import Environment, Interference
from core.base.numbers import bounded, duration, number, percent
from core.base.text import clean, sentence_case
from core.rounds.answer.answer import Answer, Fit
from core.rounds.answer.loop import loop_notes
from core.rounds.run import Run
from core.rounds.show.export import placement_lines
from core.ui import charts
from core.ui.tables import cells_table, cleaned, environment_table, static_table
from core.ui.words import plain

Fact = tuple[str, str, str]
"""Name, value, meaning."""
COLUMNS = (
    "batch", "name", "step_ms", "low_ms", "high_ms", "rounds", "outcome", "stop_reason", "samples_per_s",
    "us_per_sample", "overhead_pct", "first_call_ms", "warmup_ms", "latency_ms", "memory_mb", "execution",
    "precision", "difference_pct", "largest_difference_pct", "same_class_pct", "reason", "label", "target",
)  # fmt: skip

DIFFERS = "Of an int8 target's outputs from those in float32, in percent of their range. Trained weights may differ."


def cells(run: Run, answer: Answer | None) -> None:
    """Show every cell with its step time, interval, and the costs outside the step time."""
    column = st.column_config.NumberColumn
    ms = "%.4g"
    table = cells_table(run, answer)
    if table.empty:
        st.caption("This run has no step times.")
        return
    st.dataframe(
        cleaned(table.dropna(axis="columns", how="all")),
        hide_index=True,
        key="cells",
        column_order=COLUMNS,
        alt="One row for each target and batch size with step time, interval, rounds and outcome.",
        column_config={
            "batch": column("Batch", format="localized", pinned=True, width=70),
            "name": st.column_config.TextColumn("Target", pinned=True),
            "target": st.column_config.TextColumn("Written", help="The target as files and commands write it."),
            "step_ms": column("Step (ms)", format=ms, help=f"Median over rounds, {run.label}."),
            "low_ms": column("95 % from (ms)", format=ms),
            "high_ms": column("95 % to (ms)", format=ms),
            "rounds": column("Rounds", format="localized"),
            "samples_per_s": column("Samples/s", format="compact"),
            "us_per_sample": column("µs per sample", format=ms),
            "first_call_ms": column("First call (ms)", format="%.0f", help="Trace and compile; not in the step time."),
            "warmup_ms": column("Warm-up (ms)", format="%.0f", help="Spent until steady; not in the step time."),
            "latency_ms": column("Latency (ms)", format=ms, help="One step with a synchronisation of its own."),
            "memory_mb": column("Memory peak (MB)", format="%.0f"),
            "overhead_pct": column("Fixed cost (%)", format="%.0f", help="Share of a step, by the fit."),
            "stop_reason": "Stopped because",
            "execution": st.column_config.TextColumn("Ran as", help="What the target's execution came to."),
            "precision": "Precision",
            "difference_pct": column("Differs from float32 (%)", format=ms, help=DIFFERS),
            "largest_difference_pct": column("Differs at most (%)", format=ms, help=DIFFERS),
            "same_class_pct": column("Same class (%)", format=ms, help="Share of samples with the class of float32."),
            "outcome": "Outcome",
            "reason": "Reason",
            "label": "Label",
        },
    )


def fits(run: Run, answer: Answer) -> None:
    """Show each target's fixed cost and cost per sample, with intervals, and the batch at half fixed cost."""
    rows = [fit_row(run, fit) for fit in answer.fits if fit is not None]
    if not rows:
        st.caption("Too few batch sizes for a fit, which takes three.")
        return
    st.caption("T(batch) = (fixed cost^q + (cost per sample × batch size)^q)^(1/q), fitted to the step times.")
    static_table(rows)


def fit_row(run: Run, fit: Fit) -> dict[str, str]:
    """Return one fit in words, with its 95 % intervals."""

    def with_bounds(value: float | None, low: float | None, high: float | None, scale: float = 1.0) -> str:
        if value is None:
            return "none"
        return bounded(scale * value, *(None if end is None else scale * end for end in (low, high)))

    trust = "yes" if fit.trusted else f"no: {fit.note}" if fit.note else "no"
    return {
        "Target": sentence_case(run.names[fit.target]),
        "Fixed cost (ms)": with_bounds(fit.floor_ms, fit.floor_low_ms, fit.floor_high_ms),
        "Cost per sample (µs)": with_bounds(fit.slope_ms, fit.slope_low_ms, fit.slope_high_ms, 1000.0),
        "q": number(fit.q),
        "Half fixed cost at batch": with_bounds(fit.half_overhead_batch, fit.half_overhead_low, fit.half_overhead_high),
        "Median error": percent(fit.median_error, 1),
        "Trusted": trust,
    }


def how_measured(facts: Iterable[Fact], environment: Environment | None, *notes: str) -> None:
    """Show the numbers of a measurement, notes on reading them, and the machine."""
    show_facts(facts)
    if notes:
        st.caption("  \n".join(plain(note) for note in notes))
    machine(environment)


def show_facts(facts: Iterable[Fact]) -> None:
    with st.container(horizontal=True):
        for name, value, meaning in facts:
            st.metric(plain(name), plain(value), help=plain(meaning), border=True)


def how_swept(run: Run, answer: Answer) -> None:
    """Show processes, rounds, passes, noise and environment."""
    how_measured(_facts(run), None, *placement_lines(run), *loop_notes(run))
    if any(block.at_s for r in run.rounds[-1:] for block in r.blocks):
        charts.chart("noise", run, answer, border=True)
    machine(run.environment)


def _facts(run: Run) -> list[Fact]:
    passes = len({r.pass_index for r in run.rounds})
    processes = len({(b.target, b.process) for r in run.rounds for b in r.blocks})
    facts = [
        ("Rounds", f"{len(run.rounds):,}", "One block of each target at one batch size, close together in time."),
        ("Passes", f"{passes}", "How often the sweep came back to the batch sizes."),
        ("Worker processes", f"{processes}", "Started over the sweep, all targets together."),
        ("Time", duration(run.elapsed_s) if run.elapsed_s else "not recorded", "Of the whole sweep."),
    ]
    return facts + interference_facts([r.interference for r in run.rounds])


def interference_facts(samples: Sequence[Interference]) -> list[Fact]:
    """Return the activity of other programs during the rounds, as facts."""
    facts = []
    busy = [sample.other_cpu_pct for sample in samples if sample.other_cpu_pct is not None]
    if busy:
        meaning = "CPU use of all other processes, in percent of one core: the median over rounds, and the most."
        facts.append(("Other processes", f"{median(busy):.0f} %, at most {max(busy):.0f} %", meaning))
    steal = [sample.steal_pct for sample in samples if sample.steal_pct is not None]
    if steal and max(steal) >= 0.5:
        facts.append(
            ("Time taken by the host", f"at most {max(steal):.0f} %", "Time the hypervisor took from this machine.")
        )
    return facts


def machine(environment: Environment | None) -> None:
    """Show the machine of a measurement, folded."""
    if environment is not None:
        with st.expander("The machine", icon=":material/memory:"):
            facts_of(environment, "environment")


def facts_of(environment: Environment, key: str) -> None:
    """Show the facts known about a machine, one per row."""
    table(environment_table(environment), key, {"fact": "Fact", "value": "Value"})


def table(rows: pd.DataFrame, key: str, columns: dict[str, Any] | None = None, alt: str | None = None) -> None:
    """Show a table as high as its rows."""
    st.dataframe(
        cleaned(rows), hide_index=True, key=key, height="content", column_config=columns, alt=clean(alt or "") or None
    )
