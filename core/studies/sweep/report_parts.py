"""Content shared by all reports of a run, in words and as one picture, so that HTML, Markdown and notebooks agree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from core.figures.style import machine_parts
from core.numbers import bounded, interval_words, moment, number, percent
from core.studies.sweep.answer import Answer, CellStats, Fit, SpeedUp
from core.studies.sweep.baseline import baseline_table
from core.studies.sweep.export import all_warnings
from core.studies.sweep.loop import loop_notes
from core.studies.sweep.next_step import next_step
from core.studies.sweep.ran_as import ran_words
from core.studies.sweep.record import Run
from core.text import sentence_case

if TYPE_CHECKING:
    import plotly.graph_objects as go

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
    lines = []
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
        found = baseline_table(run, answer)
        title = f"Speed-up over {run.names[0]}, the baseline ({run.label})"
        return Table(title, found.columns, found.rows)
    names = [sentence_case(name) for name in run.names]
    batches = sorted({cell.batch for cell in answer.cells})
    ratios = {one.batch: one for one in answer.speed_ups}
    last = "Fixed-cost share (fitted)" if len(names) == 1 else f"Speed-up of {run.names[1]} over {run.names[0]}"
    rows = tuple(
        (
            f"{batch:,}",
            *(_step(answer.cell(target, batch)) for target in range(len(names))),
            _share(answer.fits[0], batch) if len(names) == 1 else _ratio(ratios.get(batch)),
        )
        for batch in batches
    )
    return Table(f"By batch size ({run.label})", ("Batch size", *(f"{name} (ms a step)" for name in names), last), rows)


def _step(cell: CellStats | None) -> str:
    return "not measured" if cell is None else bounded(cell.step_ms, cell.low_ms, cell.high_ms)


def _ratio(found: SpeedUp | None) -> str:
    if found is None:
        return ""
    if found.low is None or found.high is None:
        return "no interval"
    return f"{number(found.ratio)}× ({number(found.low)} to {number(found.high)})"


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
            ("FLOPs a sample", f"{workload.flops_per_sample:,} (a multiply-add counts 2)"),
            ("Pipeline", run.plan.pipeline.title),
            ("Budget", f"{run.plan.budget_s:,.0f} s"),
        ]
    return facts


def picture(run: Run, answer: Answer) -> go.Figure:
    """Return the main picture of a run: for two targets the speed-up with its crossover, for one its step time and fit,
    for more the bands of the fastest above their step times.
    """
    from core.studies.sweep.figures import step_time_figure
    from core.studies.sweep.speed_up_figure import speed_up_figure

    return (speed_up_figure if len(run.names) == 2 else step_time_figure)(run, answer)


def picture_words(run: Run, answer: Answer | None) -> str:
    """Describe the picture for those who cannot see it."""
    title = "Speed-up and crossover" if len(run.names) == 2 else "Step time by batch size"
    return f"{title} of {run.name}. {sentence(answer)}"
