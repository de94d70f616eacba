"""One HTML file with everything about a run: opens offline, sends nothing, runs no script, light and dark.

Its pictures are static (:mod:`core.figures.svg`): plotly's hover texts become tooltips.
"""

from __future__ import annotations

import base64
from collections.abc import Callable

from core.evidence import Environment
from core.numbers import byte_size, percent, table_number
from core.page import escape, folded, page, pairs, paragraphs, table
from core.studies.sweep.answer import Answer
from core.studies.sweep.busy import machine_badge, machine_line
from core.studies.sweep.card_export import card_lines
from core.studies.sweep.card_use import UTILISATION, card_rows, card_text
from core.studies.sweep.energy import energy_of
from core.studies.sweep.export import CellRow, cell_rows
from core.studies.sweep.loop import loop_lines
from core.studies.sweep.outcomes import OUTCOMES, STOPS
from core.studies.sweep.quantised import output_difference_lines
from core.studies.sweep.ran_as import ran_line
from core.studies.sweep.record import Run
from core.studies.sweep.report_parts import (
    answer_table,
    conclusions,
    method_facts,
    notes,
    origin,
    picture,
    picture_words,
    sentence,
)
from core.text import sentence_case

LABELS = {
    "measured": "measured on the machine below",
    "recorded": "recorded elsewhere and imported",
    "published": "published by a public source; not measured here",
    "modelled": "modelled: computed, not measured",
}
CHART_PX = 860
CLOCK = "Named as setting the clock"
CELL_COLUMNS = (
    "Target", "Batch size", "Rounds", "Step ms", "95 % from", "to", "Samples/s", "µs a sample",
    "Fixed-cost share, fitted", "First call ms", "Warm-up ms", "Latency ms", "Memory peak", "Outcome", "Why",
)  # fmt: skip
CARD_NUMBERS = (
    ("Batch", "batch", 1),
    ("Energy windows", "energy_windows", 1),
    ("Utilisation %", "utilisation_pct", 1),
    ("SM clock MHz", "sm_mhz", 1),
    ("Memory clock MHz", "memory_mhz", 1),
    ("Power W", "power_w", 1),
    ("°C", "celsius", 1),
    ("Memory MB", "memory_used_mb", 1),
    ("PCIe to GPU MB/s", "pcie_to_gpu_mb_s", 1),
    ("from GPU", "pcie_from_gpu_mb_s", 1),
    ("mJ a sample", "joules", 1000.0),
    ("95 % from", "joules_low", 1000.0),
    ("to", "joules_high", 1000.0),
    ("net of idle", "joules_net", 1000.0),
    ("CPU packages beside", "cpu_package_joules", 1000.0),
)
"""Title, field of a :class:`CardLine`, and the factor on its numbers."""


def html_report(run: Run, answer: Answer | None) -> str:
    """Return the whole page. ``answer`` is None for a run without a round; then the page says so and has no chart."""
    more = (*ran_line(run), *output_difference_lines(run), *loop_lines(run, answer))
    found = notes(run, answer)
    return page(
        run.name,
        [
            f'<p class="quiet">Breakeven · {escape(run.name)}</p>',
            fragment(run, answer, heading="h1"),
            paragraphs(more),
            f"<h2>Notes ({len(found)})</h2><ul>{''.join(f'<li>{escape(note)}</li>' for note in found)}</ul>"
            if found
            else "",
            f"<h2>Charts ({run.label})</h2>{_charts(run, answer)}" if answer else "",
            f"<h2>Every step time ({run.label})</h2>",
            folded("Step time, interval and outcome of every target at every batch size", _cells(run, answer)),
            _cards(run),
            f"<h2>How it was measured</h2>{pairs(method_facts(run))}",
            f"<h2>Machine</h2>{_machine(run.environment)}",
        ],
    )


def picture_html(run: Run, answer: Answer) -> str:
    """Return the run's main picture as an inline element, in the page's colours."""
    from core.figures.svg import svg

    name, alt = f"answer-{run.id}", picture_words(run, answer)
    drawn = svg(picture(run, answer), "page", name=name, width_px=CHART_PX, alt=alt)
    return f'<div class="scroll">{drawn}</div>'


def picture_img(run: Run, answer: Answer) -> str:
    """Return the same as an image, isolated from the styles around it."""
    from core.figures.svg import svg

    drawn = base64.b64encode(svg(picture(run, answer), width_px=CHART_PX).encode()).decode()
    return f'<img alt="{escape(picture_words(run, answer))}" src="data:image/svg+xml;base64,{drawn}">'


def fragment(
    run: Run,
    answer: Answer | None,
    *,
    heading: str = "h2",
    draw: Callable[[Run, Answer], str] = picture_html,
) -> str:
    """Return verdict, picture and table as static HTML for a page or a notebook."""
    parts = [
        f"<{heading}>{escape(sentence(answer))}</{heading}>",
        f'<p><span class="label {run.label}">{LABELS[run.label]}</span> '
        f'<span class="quiet">{escape(origin(run))}</span></p>',
        _busy(answer),
    ]
    if answer is not None:
        found = answer_table(run, answer)
        parts += [
            paragraphs(conclusions(run, answer)),
            draw(run, answer),
            f"<p>{escape(found.title)}. In brackets: 95 % intervals.</p>{table(found.columns, found.rows)}",
        ]
    return "".join(parts)


def _busy(answer: Answer | None) -> str:
    """Return the badge of a busy or unsteady machine with its reason, if it was one."""
    if answer is None or not (badge := machine_badge(answer.verdict.machine)):
        return ""
    why = " ".join(machine_line(answer.verdict.machine))
    return f'<p><span class="label busy">{badge}</span> <span class="quiet">{escape(why)}</span></p>'


def _charts(run: Run, answer: Answer) -> str:
    """Return every other chart of a run; the main one stands above, with the verdict."""
    # imported here because most commands draw nothing, and plotly takes a while to load
    from core.figures.svg import svg
    from core.studies.sweep.card_figures import energy_figure, utilisation_figure
    from core.studies.sweep.figures import step_time_figure, throughput_figure
    from core.studies.sweep.overhead_figure import overhead_figure
    from core.studies.sweep.speed_up_figure import speed_up_figure
    from core.studies.sweep.trace_figures import trace_share_figure

    figures = {
        **({"step-time": step_time_figure(run, answer)} if len(run.names) == 2 else {}),
        **({"speed-up": speed_up_figure(run, answer)} if len(run.names) > 2 else {}),
        "throughput": throughput_figure(run, answer),
        "overhead": overhead_figure(run, answer),
    }
    for target in range(len(run.names)):
        if any(cell.target == target for cell in run.traces):
            figures[f"traced-{target + 1}"] = trace_share_figure(run, target)
        rows = card_rows(run, target)
        if any(row.util_pct for row in rows):
            figures[f"utilisation-{target + 1}"] = utilisation_figure(run, target, rows)
    if (energy := energy_of(run)).cells:
        figures["energy"] = energy_figure(run, energy)
    drawn = (svg(figure, "page", name=name, width_px=CHART_PX) for name, figure in figures.items())
    return "".join(f'<div class="scroll">{chart}</div>' for chart in drawn)


def _cells(run: Run, answer: Answer | None) -> str:
    return table(CELL_COLUMNS, (_cell(run, row) for row in cell_rows(run, answer)), words=("Outcome", "Why"))


def _cell(run: Run, row: CellRow) -> tuple[str, ...]:
    share, memory = row.overhead_share_fitted, row.memory_peak_bytes
    times = (row.step_ms, row.low_ms, row.high_ms, row.samples_per_s, row.us_per_sample)
    return (
        sentence_case(run.name_of(row.target)),
        f"{row.batch:,}",
        f"{row.rounds:,}",
        *(table_number(value) for value in times),
        "" if share is None else percent(share),
        *(table_number(value) for value in (row.first_call_ms, row.warmup_ms, row.latency_ms)),
        "" if memory is None else byte_size(memory),
        OUTCOMES.get(row.outcome, row.outcome),
        row.reason or STOPS.get(row.stop_reason, row.stop_reason),
    )


def _cards(run: Run) -> str:
    """Describe the GPUs' activity and the energy per sample, if recorded."""
    said = paragraphs(card_text(run))
    if not (lines := card_lines(run)):
        return f"<h2>What the GPU was doing</h2>{said}" if said else ""
    rows = []
    for line in lines:
        values = ((getattr(line, name), scale) for _, name, scale in CARD_NUMBERS)
        shown = (table_number(None if value is None else value * scale) for value, scale in values)
        rows.append((sentence_case(run.name_of(line.target)), *shown, line.clock_reasons))
    columns = ("Target", *(title for title, _, _ in CARD_NUMBERS), CLOCK)
    return (
        f"<h2>What the GPU was doing ({run.label})</h2>{said}<p>{escape(UTILISATION)}</p>"
        f"{folded('What it did at every batch size', table(columns, rows, words=(CLOCK,)))}"
    )


def _machine(environment: Environment | None) -> str:
    if environment is None:
        return "<p>Not known: only points were imported.</p>"
    return pairs(environment.facts)
