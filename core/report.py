"""One HTML file with everything about a run: opens offline, sends nothing anywhere, light and dark.

Every text that came from outside is escaped, and a content security policy forbids the page any connection, so that
a report can be passed on without thought.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from core.analysis.answer import Answer
from core.export import CellRow, all_warnings, cell_rows, short_number
from core.results import Environment, Run

POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"
LABELS = {
    "measured": "measured on the machine below",
    "recorded": "recorded elsewhere and imported",
    "modelled": "modelled: computed, not measured",
}
STYLE = """
:root { color-scheme: light dark; --ink: #1a1c20; --paper: #ffffff; --quiet: #5c6370; --line: #d5d8de; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e8eaee; --paper: #14161a; --quiet: #a2a9b5; --line: #3a3f48; }
}
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper);
       max-width: 78rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.7rem; line-height: 1.25; } h2 { font-size: 1.2rem; margin-top: 2.2rem; }
.quiet { color: var(--quiet); } .label { border: 1px solid var(--line); border-radius: 1rem; padding: .1rem .7rem; }
.label.modelled { border-style: dashed; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .85rem; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .25rem .7rem; border-bottom: 1px solid var(--line); }
td.number, th.number { text-align: right; }
td.why { min-width: 16rem; }
"""
# Charts follow the page between light and dark; plotly cannot do so by style sheet.
PAINT = """
const dark = matchMedia("(prefers-color-scheme: dark)");
function paint() {
  const style = getComputedStyle(document.documentElement);
  const ink = style.getPropertyValue("--ink").trim(), paper = style.getPropertyValue("--paper").trim();
  for (const chart of document.querySelectorAll(".plotly-graph-div"))
    Plotly.relayout(chart, {"font.color": ink, paper_bgcolor: paper, plot_bgcolor: paper});
}
dark.addEventListener("change", paint);
paint();
"""
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


def html_report(run: Run, answer: Answer | None) -> str:
    """The whole page. ``answer`` is None for a run without a round; then the page says so and has no chart."""
    sentence = answer.verdict.sentence if answer else "Nothing was measured, so there is no verdict."
    warnings = "".join(f"<li>{escape(w.text)}</li>" for w in all_warnings(run, answer))
    sections = [
        f'<p class="quiet">Breakeven · {escape(run.name)}</p>',
        f"<h1>{escape(sentence)}</h1>",
        f'<p><span class="label {run.label}">{LABELS[run.label]}</span> {_reason(run, answer)}</p>',
        f"<h2>To know when reading this</h2><ul>{warnings}</ul>" if warnings else "",
        _charts(run, answer) if answer else "",
        f'<h2>Cells ({run.label})</h2><div class="scroll">{_cells_table(cell_rows(run, answer))}</div>',
        f"<h2>How it was measured</h2>{_pairs(_method(run))}",
        f"<h2>Machine</h2>{_machine(run.environment)}",
    ]
    head = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(run.name)} · Breakeven</title><style>{STYLE}</style></head><body>"
    )
    script = f"<script>{PAINT}</script>" if answer else ""
    return f"{head}{''.join(sections)}{script}</body></html>\n"


def _reason(run: Run, answer: Answer | None) -> str:
    parts = [f"{run.status}, {run.created_at}"]
    if answer:
        parts.append(f"reason: {answer.verdict.reason}")
        if answer.verdict.lead and answer.verdict.lead.low is not None and answer.verdict.lead.high is not None:
            lead = answer.verdict.lead
            parts.append(
                f"{lead.target} ahead by at least {100 * lead.margin:g} % from batch {lead.from_batch:,.0f} "
                f"(95 % interval {lead.low:,.0f} to {lead.high:,.0f})"
            )
        if answer.verdict.next_batch is not None:
            parts.append(f"next batch size worth measuring: {answer.verdict.next_batch:,}")
    return f'<span class="quiet">{escape(" · ".join(parts))}</span>'


def _charts(run: Run, answer: Answer) -> str:
    # imported here because most commands of the command line draw nothing, and plotly takes a while to load
    from core.figures import (
        chart_config,
        overhead_figure,
        speed_up_figure,
        step_time_figure,
        throughput_figure,
        trace_share_figure,
    )

    figures = {
        "step-time": step_time_figure(run, answer),
        "speed-up": speed_up_figure(run, answer),
        "throughput": throughput_figure(run, answer),
        "overhead": overhead_figure(run, answer),
    }
    for target in sorted({cell.target for cell in run.traces}):
        figures[f"traced-{target + 1}"] = trace_share_figure(run, target, answer.fits[target])
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


def _cells_table(rows: Iterable[CellRow]) -> str:
    heads = "<th>Target</th>" + "".join(f'<th class="number">{escape(title)}</th>' for title, _ in NUMBERS)
    lines = []
    for row in rows:
        numbers = "".join(f'<td class="number">{short_number(getattr(row, name))}</td>' for _, name in NUMBERS)
        why = row.reason or row.stop_reason
        lines.append(
            f"<tr><td>{escape(row.target)}</td>{numbers}<td>{escape(row.outcome)}</td>"
            f'<td class="why">{escape(why)}</td></tr>'
        )
    return f"<table><thead><tr>{heads}<th>Outcome</th><th>Why</th></tr></thead><tbody>{''.join(lines)}</tbody></table>"


def _method(run: Run) -> list[tuple[str, str]]:
    passes = len({r.pass_index for r in run.rounds})
    processes = len({block.process for r in run.rounds for block in r.blocks})
    facts = [
        ("Targets", f"{run.target_names[0]} against {run.target_names[1]}"),
        ("Rounds", f"{len(run.rounds):,} rounds in {passes:,} passes, workers started {processes:,} times"),
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
