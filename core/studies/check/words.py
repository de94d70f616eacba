"""Text of a check: sentences, a table and Markdown."""

from __future__ import annotations

from core.names import all_of
from core.numbers import bounded, counted, duration, number, table
from core.studies.check.answer import CheckAnswer, Compared
from core.studies.check.differences import differences
from core.studies.check.record import CheckRecord
from core.studies.sweep.reliability import disturbances
from core.studies.sweep.report_markdown import table as markdown_table
from core.text import in_lines, in_markdown

WORDS = {"unchanged": "not slower", "faster": "faster", "slower": "slower", "inconclusive": "not clear"}
COLUMNS = ("batch", "baseline ms", "now ms", "times as long", "95 % interval", "")


def sentence(record: CheckRecord, answer: CheckAnswer) -> str:
    """Return the verdict as a sentence."""
    allowed, against = percent_of(record.plan.max_slowdown), record.plan.baseline
    whole, many = answer.overall, len(answer.batches) > 1
    takes = f"the step takes {_ratio(whole)} times as long as in {against}" + (
        f" over {counted(len(answer.batches), 'batch size')}" if many else f" at batch {answer.batches[0].batch:,}"
    )
    if answer.verdict == "slower":
        if whole.verdict == "slower":
            return f"Slower: {takes}."
        at = [
            f"{_ratio(one)} times as long at batch {one.batch:,}" for one in answer.batches if one.verdict == "slower"
        ]
        return f"Slower than in {against}: the step takes {all_of(at)}."
    if answer.verdict == "faster":
        return f"Faster: {takes}."
    if answer.verdict == "unchanged":
        where = f" at {'both' if len(answer.batches) == 2 else 'all'} batch sizes" if many else ""
        return f"Not slower: {takes}; a slowdown of more than {allowed} is excluded{where}."
    return f"Not clear: {_unclear(answer, takes, allowed)} {_settles(record, answer)}"


def _unclear(answer: CheckAnswer, takes: str, allowed: str) -> str:
    failed = [one for one in answer.batches if one.ratio is None]
    if failed:
        return f"batch {failed[0].batch:,} could not be compared. {failed[0].reason}"
    return f"{takes}, and {allowed} slower is neither shown nor excluded."


def _settles(record: CheckRecord, answer: CheckAnswer) -> str:
    if answer.settles_s is not None:
        return f"A budget of about {answer.settles_s:,.0f} s should settle it."
    if any(one.ratio is None for one in answer.batches):
        return "More time would not settle it."
    if record.plan.stored is not None:
        return (
            "No budget settles it against a stored run, since occasions differ, too: measure both with --against, or "
            "allow more with --max-slowdown."
        )
    return "It is too near to the limit for any budget; choose another --max-slowdown."


def percent_of(share: float) -> str:
    """Return ``5 %``, ``2.5 %``."""
    return f"{100 * share:.3g} %"


def _ratio(one: Compared) -> str:
    return "" if one.ratio is None else bounded(one.ratio, one.low, one.high)


def notes(record: CheckRecord) -> tuple[str, ...]:
    """Return differences from the stored run, warnings, and a premature end."""
    plan, run = record.plan, record.run
    found = [warning.text for warning in (*run.warnings, *disturbances([item.interference for item in run.rounds]))]
    if plan.stored is not None and run.environment is not None:
        found = [*differences(plan.stored.environment, run.environment), *found]
    sizes = [side.workload.network.parameters for side in plan.sides]
    if len(set(sizes)) > 1:
        found.append(f"The network has {sizes[-1]:,} parameters, and {sizes[0]:,} in {plan.baseline}.")
    if run.status != "finished":
        found.append(f"The check was {run.status} after {duration(run.elapsed_s)}.")
    return tuple(found)


def how(record: CheckRecord) -> str:
    """Describe in one line how the check was measured."""
    run, plan = record.run, record.plan
    starts = len({process.index for process in run.processes})
    ways = "in turn" if len(plan.sides) == 2 else f"against {plan.baseline}"
    return (
        f"{plan.sides[-1].workload.title} on {plan.target}, {plan.pipeline.title}: {counted(len(run.rounds), 'round')} "
        f"in {counted(starts, 'start')} of the workers, {ways}, within {duration(run.elapsed_s)}; {run.label}."
    )


def rows(answer: CheckAnswer) -> list[tuple[str, str, str, str, str, str]]:
    """Return one row per batch, and one for all together if there are several."""
    every = [*answer.batches, *([answer.overall] if len(answer.batches) > 1 else [])]
    return [
        (
            "all" if one.batch is None else f"{one.batch:,}",
            _ms(one.baseline_ms),
            _ms(one.step_ms),
            "" if one.ratio is None else number(one.ratio),
            "" if one.low is None or one.high is None else f"{number(one.low)} to {number(one.high)}",
            WORDS[one.verdict],
        )
        for one in every
    ]


def _ms(value: float | None) -> str:
    return "" if value is None else number(value)


def check_text(record: CheckRecord, answer: CheckAnswer) -> str:
    """Return lines for a terminal."""
    lines = [sentence(record, answer), "", *table(COLUMNS, rows(answer)), "", how(record)]
    return in_lines([*lines, *(f"Note: {text}" for text in notes(record))])


def check_markdown(record: CheckRecord, answer: CheckAnswer) -> str:
    """Return the same for a pull request or a job's summary."""
    said = "\n".join(f"- {in_markdown(text)}" for text in notes(record))
    headline = f"### {in_markdown(sentence(record, answer))}"
    parts = [headline, markdown_table(COLUMNS, rows(answer)), in_markdown(how(record)), said]
    return "\n\n".join(filter(None, parts))
