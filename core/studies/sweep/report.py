"""One HTML file with everything about a run: opens offline, sends nothing anywhere, light and dark.

Every text that came from outside is escaped, and a content security policy forbids the page any connection, so that
a report can be passed on without thought.
"""

from __future__ import annotations

import html
from collections.abc import Iterable
from importlib.resources import files

from core.evidence import Environment
from core.numbers import table_number
from core.studies.sweep.answer import Answer
from core.studies.sweep.baseline import baseline_table
from core.studies.sweep.card_export import card_lines
from core.studies.sweep.card_use import UTILISATION, card_rows, card_text
from core.studies.sweep.energy import energy_of
from core.studies.sweep.export import CellRow, all_warnings, cell_rows
from core.studies.sweep.loop import loop_lines, loop_notes
from core.studies.sweep.quantised import output_difference_lines
from core.studies.sweep.ran_as import ran_line, ran_words
from core.studies.sweep.record import Run
from core.text import clean, sentence_case

POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"
LABELS = {
    "measured": "measured on the machine below",
    "recorded": "recorded elsewhere and imported",
    "published": "published by a public source; not measured here",
    "modelled": "modelled: computed, not measured",
}
NUMBERS = (
    ("Batch", "batch"),
    ("Rounds", "rounds"),
    ("Step ms", "step_ms"),
    ("95 % from", "low_ms"),
    ("to", "high_ms"),
    ("Samples/s", "samples_per_s"),
    ("µs a sample", "us_per_sample"),
    ("Overhead share, fitted", "overhead_share_fitted"),
    ("First call ms", "first_call_ms"),
    ("Warm-up ms", "warmup_ms"),
    ("Latency ms", "latency_ms"),
)
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
"""Title, field of a :class:`CardLine`, and what its numbers are multiplied with."""


def html_report(run: Run, answer: Answer | None) -> str:
    """The whole page. ``answer`` is None for a run without a round; then the page says so and has no chart."""
    sentence = answer.verdict.sentence if answer else "Nothing was measured, so there is no verdict."
    warnings = "".join(f"<li>{escape(w.text)}</li>" for w in all_warnings(run, answer))
    sections = [
        f'<p class="quiet">Breakeven · {escape(run.name)}</p>',
        f"<h1>{escape(sentence)}</h1>",
        f'<p><span class="label {run.label}">{LABELS[run.label]}</span> {_reason(run, answer)}</p>',
        *(f"<p>{escape(line)}</p>" for line in (*ran_line(run), *output_difference_lines(run))),
        *(f"<p>{escape(line)}</p>" for line in loop_lines(run, answer)),
        f"<h2>To know when reading this</h2><ul>{warnings}</ul>" if warnings else "",
        _against_baseline(run, answer) if answer and answer.fastest is not None else "",
        _charts(run, answer) if answer else "",
        f'<h2>Cells ({run.label})</h2><div class="scroll">{_cells_table(run, cell_rows(run, answer))}</div>',
        _cards(run),
        f"<h2>How it was measured</h2>{_pairs(_method(run))}",
        f"<h2>Machine</h2>{_machine(run.environment)}",
    ]
    head = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(run.name)} · Breakeven</title><style>\n{_beside('report.css')}</style></head><body>"
    )
    script = f"<script>\n{_beside('report.js')}</script>" if answer else ""
    return f"{head}{''.join(sections)}{script}</body></html>\n"


def escape(text: str) -> str:
    """Text from outside as a browser shows it as it is, in one line."""
    return html.escape(clean(text))


def _beside(name: str) -> str:
    """The text of a file beside this one. The script repaints charts in dark and light, which no style sheet can."""
    return (files(__package__) / name).read_text(encoding="utf-8")


def _reason(run: Run, answer: Answer | None) -> str:
    parts = [f"{run.status}, {run.created_at}"]
    if answer:
        parts.append(f"reason: {answer.verdict.reason}")
        if answer.verdict.lead and answer.verdict.lead.low is not None and answer.verdict.lead.high is not None:
            lead = answer.verdict.lead
            parts.append(
                f"{run.name_of(lead.target)} ahead by at least {100 * lead.margin:g} % from batch "
                f"{lead.from_batch:,.0f} (95 % interval {lead.low:,.0f} to {lead.high:,.0f})"
            )
        if answer.verdict.next_batch is not None:
            parts.append(f"next batch size worth measuring: {answer.verdict.next_batch:,}")
    return f'<span class="quiet">{escape(" · ".join(parts))}</span>'


def _charts(run: Run, answer: Answer) -> str:
    # imported here because most commands of the command line draw nothing, and plotly takes a while to load
    from core.figures.style import chart_config
    from core.studies.sweep.card_figures import energy_figure, utilisation_figure
    from core.studies.sweep.figures import step_time_figure, throughput_figure
    from core.studies.sweep.overhead_figure import overhead_figure
    from core.studies.sweep.speed_up_figure import speed_up_figure
    from core.studies.sweep.trace_figures import trace_share_figure

    figures = {
        "step-time": step_time_figure(run, answer),
        **({"speed-up": speed_up_figure(run, answer)} if answer.against else {}),
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
    charts: list[str] = []
    for name, figure in figures.items():
        figure.update_layout(template="plotly_white")
        charts.append(
            figure.to_html(
                full_html=False,
                include_plotlyjs=not charts,
                include_mathjax=False,
                div_id=name,
                config=chart_config("svg", f"breakeven-{name}") | {"responsive": True},
            )
        )
    return f"<h2>Charts ({run.label})</h2>{''.join(charts)}"


def _against_baseline(run: Run, answer: Answer) -> str:
    found = baseline_table(run, answer)
    heads = "".join(f"<th>{escape(name)}</th>" for name in found.columns)
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in found.rows)
    return (
        f"<h2>Speed-up over {escape(run.names[0])}, the baseline ({run.label})</h2><p>In brackets: 95 % intervals.</p>"
        f'<div class="scroll"><table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table></div>'
    )


def _name(run: Run, target: str) -> str:
    return escape(sentence_case(run.name_of(target)))


def _cells_table(run: Run, rows: Iterable[CellRow]) -> str:
    heads = "<th>Target</th>" + "".join(f'<th class="number">{escape(title)}</th>' for title, _ in NUMBERS)
    lines = []
    for row in rows:
        numbers = "".join(f'<td class="number">{table_number(getattr(row, name))}</td>' for _, name in NUMBERS)
        why = row.reason or row.stop_reason
        lines.append(
            f'<tr><td title="{escape(row.target)}">{_name(run, row.target)}</td>{numbers}<td>{escape(row.outcome)}</td>'
            f'<td class="why">{escape(why)}</td></tr>'
        )
    return f"<table><thead><tr>{heads}<th>Outcome</th><th>Why</th></tr></thead><tbody>{''.join(lines)}</tbody></table>"


def _cards(run: Run) -> str:
    """What the GPUs did and what a sample took, where that was looked at."""
    said = "".join(f"<p>{escape(line)}</p>" for line in card_text(run))
    if not (lines := card_lines(run)):
        return f"<h2>What the GPU was doing</h2>{said}" if said else ""
    heads = "<th>Target</th>" + "".join(f'<th class="number">{escape(title)}</th>' for title, _, _ in CARD_NUMBERS)
    body = []
    for line in lines:
        values = ((getattr(line, name), scale) for _, name, scale in CARD_NUMBERS)
        shown = [table_number(None if value is None else value * scale) for value, scale in values]
        numbers = "".join(f'<td class="number">{value}</td>' for value in shown)
        body.append(
            f'<tr><td title="{escape(line.target)}">{_name(run, line.target)}</td>{numbers}'
            f'<td class="why">{escape(line.clock_reasons)}</td></tr>'
        )
    return (
        f"<h2>What the GPU was doing ({run.label})</h2>{said}<p>{escape(UTILISATION)}</p>"
        f'<div class="scroll"><table><thead><tr>{heads}<th>Named as setting the clock</th></tr></thead>'
        f"<tbody>{''.join(body)}</tbody></table></div>"
    )


def _method(run: Run) -> list[tuple[str, str]]:
    passes = len({r.pass_index for r in run.rounds})
    processes = len({block.process for r in run.rounds for block in r.blocks})
    facts = [
        *((f"Target {n}", f"{sentence_case(name)}: {run.target_names[n - 1]}") for n, name in enumerate(run.names, 1)),
        *(("Ran as", words) for words in ran_words(run)),
        ("Rounds", f"{len(run.rounds):,} rounds in {passes:,} passes, workers started {processes:,} times"),
        *(("Keras's own loop", note) for note in loop_notes(run)),
        ("Took", f"{run.elapsed_s:,.0f} s" if run.elapsed_s else "not known"),
        ("Run", f"{run.id}, schema version {run.schema_version}"),
    ]
    if run.plan:
        workload = run.plan.workload
        facts[1:1] = [
            ("Workload", workload.title),
            ("Parameters", f"{workload.network.parameters:,}"),
            ("FLOPs a sample", f"{workload.flops_per_sample:,} (a multiply-add counts 2)"),
            ("Pipeline", run.plan.pipeline.title),
            ("Budget", f"{run.plan.budget_s:,.0f} s"),
        ]
    return facts


def _machine(environment: Environment | None) -> str:
    if environment is None:
        return "<p>Not known: only points were imported.</p>"
    facts: list[tuple[str, str]] = []
    for name, value in environment.model_dump(exclude={"gpus", "versions"}).items():
        if value not in (None, ""):
            facts.append((name.replace("_", " "), f"{value:,}" if isinstance(value, int) else str(value)))
    facts += [("gpu", f"{gpu.name} {gpu.driver or ''}".strip()) for gpu in environment.gpus]
    return _pairs(facts + sorted(environment.versions.items()))


def _pairs(facts: Iterable[tuple[str, str]]) -> str:
    lines = "".join(f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in facts)
    return f"<table><tbody>{lines}</tbody></table>"
