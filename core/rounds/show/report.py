"""One HTML file with everything about a run: opens offline, sends nothing, runs no script, light and dark.

Its pictures are static (:mod:`core.figures.svg`): plotly's hover texts become tooltips.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from core.base.evidence import Environment
from core.base.numbers import bounded, byte_size, interval_words, moment, number, percent, table_number
from core.base.text import sentence_case
from core.figures.page import escape, folded, page, pairs, paragraphs
from core.figures.page import table as html_table
from core.figures.style import machine_parts
from core.rounds.answer.answer import Answer, CellStats, Fit, SpeedUp, machine_badge, machine_line
from core.rounds.answer.baseline import baseline_table
from core.rounds.answer.card_use import UTILISATION, card_rows, card_text
from core.rounds.answer.energy import energy_of
from core.rounds.answer.loop import loop_lines, loop_notes
from core.rounds.answer.more_time import next_step
from core.rounds.answer.reliability import output_difference_lines
from core.rounds.answer.verdict import sample_line
from core.rounds.ran_as import ran_line, ran_words
from core.rounds.run import OUTCOMES, STOPS, Run
from core.rounds.show.export import CellRow, all_warnings, card_lines, cell_rows

if TYPE_CHECKING:
    import plotly.graph_objects as go
from collections.abc import Iterable, Sequence

from core import __version__
from core.base.text import in_markdown

NOTHING = "Nothing was measured, so there is no verdict."
Facts = list[tuple[str, str]]


@dataclass(frozen=True)
class Table:
    """Table of texts; the first column names the row, the others are numbers with their intervals."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def sentence(answer: Answer | None) -> str:
    return answer.verdict.sentence if answer is not None else NOTHING


def origin(run: Run) -> str:
    """Return how the sweep ended unless as planned, its date, and its machine."""
    ended = [] if run.status == "finished" else [run.status]
    where = machine_parts(run.environment) if run.environment is not None else ["machine unknown"]
    return " · ".join([*ended, *([moment(run.created_at)] if run.created_at else []), *where])


def conclusions(run: Run, answer: Answer) -> list[str]:
    """Return the lines below the verdict: from where one target is faster by the margin, and the next step."""
    lines = [sample_line(answer)]
    lead = answer.verdict.lead
    if lead is not None and lead.low is not None and lead.high is not None:
        faster = f"{sentence_case(run.name_of(lead.target))} at least {number(100 * lead.margin)} % faster"
        bounds = interval_words(lead.from_batch, lead.low, lead.high).replace("(", "(95 % interval ", 1)
        lines.append(f"{faster} from batch {bounds}.")
    return [line for line in (*lines, next_step(run, answer).sentence) if line]


def notes(run: Run, answer: Answer | None) -> tuple[str, ...]:
    return tuple(warning.text for warning in all_warnings(run, answer))


def answer_table(run: Run, answer: Answer) -> Table:
    """Return the numbers behind the verdict: for one target its step times and fixed-cost shares, for two both step
    times and the speed-up, for more each against the baseline.
    """
    if len(run.names) > 2:
        table = baseline_table(run, answer)
        title = f"Speed-up over {run.names[0]}, the baseline ({run.label})"
        return Table(title, table.columns, table.rows)
    names = [sentence_case(name) for name in run.names]
    batches = sorted({cell.batch for cell in answer.cells})
    ratios = {speed_up.batch: speed_up for speed_up in answer.speed_ups}
    last = "Fixed-cost share (fitted)" if len(names) == 1 else f"Speed-up of {run.names[1]} over {run.names[0]}"
    rows = tuple(
        (
            f"{batch:,}",
            *(_step(answer.cell(target, batch)) for target in range(len(names))),
            _share(answer.fits[0], batch) if len(names) == 1 else _ratio(ratios.get(batch)),
        )
        for batch in batches
    )
    columns = ("Batch size", *(f"{name} (ms per step)" for name in names), last)
    return Table(f"By batch size ({run.label})", columns, rows)


def _step(cell: CellStats | None) -> str:
    return "not measured" if cell is None else bounded(cell.step_ms, cell.low_ms, cell.high_ms)


def _ratio(speed_up: SpeedUp | None) -> str:
    if speed_up is None:
        return ""
    if speed_up.low is None or speed_up.high is None:
        return "no interval"
    return f"{number(speed_up.ratio)}× ({number(speed_up.low)} to {number(speed_up.high)})"


def _share(fit: Fit | None, batch: int) -> str:
    if fit is None or not fit.trusted or (bounds := fit.overhead_bounds(batch)) is None:
        return "no interval"
    low, high = (percent(share) for share in bounds)
    return f"{percent(fit.overhead_share(batch))} ({low.removesuffix(' %')} to {high})"


def method_facts(run: Run) -> Facts:
    """Return how the run was measured, as (name, text)."""
    passes = len({r.pass_index for r in run.rounds})
    processes = len({block.process for r in run.rounds for block in r.blocks})
    facts = [
        *((f"Target {n}", f"{sentence_case(name)}: {run.target_names[n - 1]}") for n, name in enumerate(run.names, 1)),
        *(("Ran as", words) for words in ran_words(run)),
        ("Rounds", f"{len(run.rounds):,} rounds in {passes:,} passes, workers started {processes:,} times"),
        *(("Keras's own loop", note) for note in loop_notes(run)),
        ("Took", f"{run.elapsed_s:,.0f} s" if run.elapsed_s else "not known"),
        ("Measured", moment(run.created_at) if run.created_at else "not known"),
        ("Run", f"{run.id}, schema version {run.schema_version}"),
    ]
    if run.plan:
        workload = run.plan.workload
        facts[len(run.names) : len(run.names)] = [
            ("Workload", workload.title),
            ("Parameters", f"{workload.network.parameters:,}"),
            ("FLOPs per sample", f"{workload.flops_per_sample:,} (a multiply-add counts 2)"),
            ("Pipeline", run.plan.pipeline.title),
            ("Budget", f"{run.plan.budget_s:,.0f} s"),
        ]
    return facts


def picture(run: Run, answer: Answer) -> go.Figure:
    """Return the main picture of a run: for two targets the speed-up with its crossover, for one its step time and fit,
    for more the bands of the fastest above their step times.
    """
    from core.rounds.show.figures import speed_up_figure, step_time_figure

    return (speed_up_figure if len(run.names) == 2 else step_time_figure)(run, answer)


def picture_words(run: Run, answer: Answer | None) -> str:
    """Describe the picture for those who cannot see it."""
    title = "Speed-up and crossover" if len(run.names) == 2 else "Step time by batch size"
    return f"{title} of {run.name}. {sentence(answer)}"


LABELS = {
    "measured": "measured on the machine below",
    "recorded": "recorded elsewhere and imported",
    "published": "published by a public source; not measured here",
    "modelled": "modelled: computed, not measured",
    "simulated": "simulated: made up to show what such a result looks like; no machine ran it",
}
CHART_PX = 860
CLOCK = "Named as setting the clock"
CELL_COLUMNS = (
    "Target", "Batch size", "Rounds", "Step ms", "95 % from", "to", "Samples/s", "µs per sample",
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
    ("mJ per sample", "joules", 1000.0),
    ("95 % from", "joules_low", 1000.0),
    ("to", "joules_high", 1000.0),
    ("net of idle", "joules_net", 1000.0),
    ("CPU packages beside", "cpu_package_joules", 1000.0),
)
"""Title, field of a :class:`CardLine`, and the factor on its numbers."""


def html_report(run: Run, answer: Answer | None) -> str:
    """Return the whole page. ``answer`` is None for a run without a round; then the page says so and has no chart."""
    more = (*ran_line(run), *output_difference_lines(run), *loop_lines(run, answer))
    lines = notes(run, answer)
    return page(
        run.name,
        [
            f'<p class="quiet">Breakeven · {escape(run.name)}</p>',
            fragment(run, answer, heading="h1"),
            paragraphs(more),
            f"<h2>Notes ({len(lines)})</h2><ul>{''.join(f'<li>{escape(note)}</li>' for note in lines)}</ul>"
            if lines
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
        rows = answer_table(run, answer)
        parts += [
            paragraphs(conclusions(run, answer)),
            draw(run, answer),
            f"<p>{escape(rows.title)}. In brackets: 95 % intervals.</p>{html_table(rows.columns, rows.rows)}",
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
    from core.rounds.show.card_figures import energy_figure, utilisation_figure
    from core.rounds.show.figures import speed_up_figure, step_time_figure, throughput_figure
    from core.rounds.show.overhead_figure import overhead_figure
    from core.rounds.show.trace_figures import trace_share_figure

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
    return html_table(CELL_COLUMNS, (_cell(run, row) for row in cell_rows(run, answer)), words=("Outcome", "Why"))


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
    text = paragraphs(card_text(run))
    if not (lines := card_lines(run)):
        return f"<h2>What the GPU was doing</h2>{text}" if text else ""
    rows = []
    for line in lines:
        values = ((getattr(line, name), scale) for _, name, scale in CARD_NUMBERS)
        shown = (table_number(None if value is None else value * scale) for value, scale in values)
        rows.append((sentence_case(run.name_of(line.target)), *shown, line.clock_reasons))
    columns = ("Target", *(title for title, _, _ in CARD_NUMBERS), CLOCK)
    return (
        f"<h2>What the GPU was doing ({run.label})</h2>{text}<p>{escape(UTILISATION)}</p>"
        f"{folded('What it did at every batch size', html_table(columns, rows, words=(CLOCK,)))}"
    )


def _machine(environment: Environment | None) -> str:
    if environment is None:
        return "<p>Not known: only points were imported.</p>"
    return pairs(environment.facts)


def markdown_report(run: Run, answer: Answer | None, picture: str | None = None) -> str:
    """Return the text. ``picture`` is the path or address of the picture."""
    escaped = in_markdown
    parts = [f"### {escaped(sentence(answer))}", escaped(f"{run.label} · {origin(run)}")]
    if answer is not None:
        parts += [f"**{escaped(line)}**" for line in machine_line(answer.verdict.machine)]
        table = answer_table(run, answer)
        parts += [" ".join(map(escaped, conclusions(run, answer)))]
        parts += [f"![{escaped(picture_words(run, answer))}]({picture})"] if picture else []
        parts += [f"{escaped(table.title)}. In brackets: 95 % intervals.", markdown_table(table.columns, table.rows)]
    parts += [_folded(run, answer), f"<sub>{escaped(run.name)} ({run.id}), written by Breakeven {__version__}</sub>"]
    return "\n\n".join(filter(None, parts)) + "\n"


def _folded(run: Run, answer: Answer | None) -> str:
    """Return notes and the targets' actual settings as a collapsed section."""
    sentences = [*notes(run, answer), *ran_line(run), *output_difference_lines(run), *loop_lines(run, answer)]
    lines = "\n".join(f"- {in_markdown(note)}" for note in sentences)
    title = "1 note" if len(sentences) == 1 else f"{len(sentences)} notes"
    return f"<details><summary>{title}</summary>\n\n{lines}\n\n</details>" if sentences else ""


def markdown_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table of texts; all but the first column are right-aligned."""

    def line(cells: Iterable[str]) -> str:
        return f"| {' | '.join(cells)} |"

    rule = line("---" if i == 0 else "---:" for i in range(len(columns)))
    return "\n".join([line(map(in_markdown, columns)), rule, *(line(map(in_markdown, row)) for row in rows)])
