"""Export of a check: its own JSON, and Bencher Metric Format."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from datetime import datetime
from statistics import median
from typing import Any

from core.base.evidence import Environment
from core.base.numbers import bounded, counted, duration, number, table
from core.base.schema import UserError
from core.base.text import in_lines, in_markdown
from core.rounds.answer.reliability import disturbances
from core.rounds.show.report import markdown_table
from core.studies.check.answer import CheckAnswer, Compared
from core.studies.check.record import CheckRecord, Side
from core.workload.names import all_of


def differences(then: Environment | None, now: Environment) -> tuple[str, ...]:
    """Return one sentence per difference that a step time may depend on."""
    if then is None:
        return ("The stored run does not say on which machine it was measured.",)
    sentences = []
    versions = [
        f"{name} {then.versions.get(name, 'none')} then, {now.versions.get(name, 'none')} now"
        for name in sorted({*then.versions, *now.versions})
        if then.versions.get(name) != now.versions.get(name)
    ]
    if then.python != now.python:
        versions.append(f"Python {then.python} then, {now.python} now")
    if versions:
        sentences.append(f"Other versions: {'; '.join(versions)}.")
    settings = [
        f"{what} {before} then, {after} now"
        for what, before, after in (
            ("usable cores", then.usable_cores, now.usable_cores),
            ("frequency governor", then.governor, now.governor),
            ("operating system", then.os, now.os),
            ("GPUs", _gpus(then), _gpus(now)),
        )
        if before is not None and after is not None and before != after
    ]
    if settings:
        sentences.append(f"Other settings: {'; '.join(settings)}.")
    return tuple(sentences)


def _gpus(environment: Environment) -> str:
    return ", ".join(f"{gpu.name} (driver {gpu.driver or 'unknown'})" for gpu in environment.gpus) or "none"


WORDS = {"unchanged": "not slower", "faster": "faster", "slower": "slower", "inconclusive": "not clear"}
COLUMNS = ("batch", "baseline ms", "now ms", "times as long", "95 % interval", "")


def sentence(record: CheckRecord, answer: CheckAnswer) -> str:
    """Return the verdict as a sentence."""
    allowed, against = percent_of(record.plan.max_slowdown), record.plan.baseline
    whole, many = answer.overall, len(answer.batches) > 1
    where = f"in {record.plan.sides[-1].title} " if record.plan.sides[-1].python else ""
    takes = f"{where}the step takes {_ratio(whole)} times as long as in {against}" + (
        f" over {counted(len(answer.batches), 'batch size')}" if many else f" at batch {answer.batches[0].batch:,}"
    )
    if answer.verdict == "slower":
        if whole.verdict == "slower":
            return f"Slower: {takes}."
        at = [
            f"{_ratio(compared)} times as long at batch {compared.batch:,}"
            for compared in answer.batches
            if compared.verdict == "slower"
        ]
        return f"Slower than in {against}: {where}the step takes {all_of(at)}."
    if answer.verdict == "faster":
        return f"Faster: {takes}."
    if answer.verdict == "unchanged":
        at_all = f" at {'both' if len(answer.batches) == 2 else 'all'} batch sizes" if many else ""
        return f"Not slower: {takes}; a slowdown of more than {allowed} is excluded{at_all}."
    return f"Not clear: {_unclear(answer, takes, allowed)} {_settles(record, answer)}"


def _unclear(answer: CheckAnswer, takes: str, allowed: str) -> str:
    failed = [compared for compared in answer.batches if compared.ratio is None]
    if failed:
        return f"batch {failed[0].batch:,} could not be compared. {failed[0].reason}"
    return f"{takes}, and {allowed} slower is neither shown nor excluded."


def _settles(record: CheckRecord, answer: CheckAnswer) -> str:
    if answer.settles_s is not None:
        return f"A budget of about {answer.settles_s:,.0f} s should settle it."
    if any(compared.ratio is None for compared in answer.batches):
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


def _ratio(compared: Compared) -> str:
    return "" if compared.ratio is None else bounded(compared.ratio, compared.low, compared.high)


def notes(record: CheckRecord) -> tuple[str, ...]:
    """Return differences between the sides, warnings, and a premature end."""
    plan, run = record.plan, record.run
    sentences = [warning.text for warning in (*run.warnings, *disturbances([item.interference for item in run.rounds]))]
    if plan.stored is not None and run.environment is not None:
        sentences = [*differences(plan.stored.environment, run.environment), *sentences]
    sizes = [side.workload.network.parameters for side in plan.sides]
    if len(set(sizes)) > 1:
        sentences.append(f"The network has {sizes[-1]:,} parameters, and {sizes[0]:,} in {plan.baseline}.")
    if len(plan.sides) == 2 and plan.sides[0].python is not None and plan.sides[0].python == plan.sides[1].python:
        sentences.append("Both sides are the same environment, so whatever differs is noise.")
    if run.status != "finished":
        sentences.append(f"The check was {run.status} after {duration(run.elapsed_s)}.")
    return tuple(sentences)


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
            "all" if row.batch is None else f"{row.batch:,}",
            _ms(row.baseline_ms),
            _ms(row.step_ms),
            "" if row.ratio is None else number(row.ratio),
            "" if row.low is None or row.high is None else f"{number(row.low)} to {number(row.high)}",
            WORDS[row.verdict],
        )
        for row in every
    ]


def _ms(value: float | None) -> str:
    return "" if value is None else number(value)


def check_text(record: CheckRecord, answer: CheckAnswer) -> str:
    """Return lines for a terminal."""
    lines = [sentence(record, answer), "", *table(COLUMNS, rows(answer)), "", how(record)]
    return in_lines([*lines, *(f"Note: {text}" for text in notes(record))])


def check_markdown(record: CheckRecord, answer: CheckAnswer) -> str:
    """Return the same for a pull request or a job's summary."""
    listed = "\n".join(f"- {in_markdown(text)}" for text in notes(record))
    headline = f"### {in_markdown(sentence(record, answer))}"
    parts = [headline, markdown_table(COLUMNS, rows(answer)), in_markdown(how(record)), listed]
    return "\n\n".join(filter(None, parts))


NS_A_MS = 1e6


def check_data(record: CheckRecord, answer: CheckAnswer) -> dict[str, Any]:
    """Return the check as one JSON object."""
    plan = record.plan
    return {
        "verdict": answer.verdict,
        "ratio": answer.overall.ratio,
        "low": answer.overall.low,
        "high": answer.overall.high,
        "max_slowdown": plan.max_slowdown,
        "settles_s": answer.settles_s,
        "sentence": sentence(record, answer),
        "baseline": plan.baseline,
        "target": str(plan.target),
        "network": plan.sides[-1].workload.network.name,
        "batches": [_one(compared) for compared in answer.batches],
        "notes": list(notes(record)),
        "record": record.model_dump(mode="json"),
    }


def _one(compared: Compared) -> dict[str, Any]:
    names = ("batch", "verdict", "ratio", "low", "high", "baseline_ms", "step_ms", "processes", "reason")
    return {name: getattr(compared, name) for name in names}


def bencher_data(record: CheckRecord, answer: CheckAnswer) -> dict[str, Any]:
    """Return Bencher Metric Format: ``latency`` (ns) of a step, and ``slowdown``, the ratio with its interval."""
    benchmarks: dict[str, Any] = {}
    for compared in answer.batches:
        measures: dict[str, Any] = {}
        if compared.step_ms is not None:
            measures["latency"] = {"value": NS_A_MS * compared.step_ms}
        if compared.ratio is not None:
            measures["slowdown"] = {"value": compared.ratio, "lower_value": compared.low, "upper_value": compared.high}
        if measures:
            benchmarks[f"{step_name(record)} batch {compared.batch}"] = measures
    return benchmarks


def step_name(record: CheckRecord) -> str:
    """Return the name of the measured step in other tools."""
    return f"{record.plan.sides[-1].workload.network.name} {record.plan.sides[-1].workload.mode} {record.plan.target}"


RESULTS, BENCHMARKS, MACHINE = 2, 2, 1
"""Versions of asv's files, as of asv 0.6."""
LIST = "benchmarks.json"


def asv_files(record: CheckRecord) -> dict[str, dict[str, Any]]:
    """Return files by path within asv's results folder: the machine, one file per commit, the list of benchmarks.

    Raises UserError if a side is no commit.
    """
    plan = record.plan
    if len(plan.sides) < 2 or not all(side.commit for side in plan.sides):
        raise UserError(
            "asv keeps results by commit: name a commit with --against, and have nothing changed in the current folder."
        )
    here = record.run.environment
    machine = f"breakeven-{here.hostname_hash if here else 'unknown'}"
    environment = f"breakeven-py{here.python if here else ''}"
    name = _name(record)
    listed = {
        "name": name, "type": "time", "unit": "seconds", "params": [[str(batch) for batch in plan.batches]],
        "param_names": ["batch"], "version": hashlib.sha256(name.encode()).hexdigest(), "code": name, "timeout": 0,
        "number": 0, "repeat": 0,
    }  # fmt: skip
    files: dict[str, dict[str, Any]] = {
        f"{machine}/machine.json": {
            "machine": machine, "os": here.os if here else "", "cpu": here.cpu if here else "", "arch": "", "ram": "",
            "num_cpu": str(here.logical_cores or "") if here else "", "version": MACHINE,
        },
        LIST: {name: listed, "version": BENCHMARKS},
    }  # fmt: skip
    for index, side in enumerate(plan.sides):
        path = f"{machine}/{(side.commit or '')[:8]}-{environment}.json"
        files[path] = _results(record, index, side, listed) | {
            "env_name": environment, "params": {"machine": machine}, "python": here.python if here else "",
        }  # fmt: skip
    return files


def _name(record: CheckRecord) -> str:
    """Return a benchmark name without spaces, as asv expects."""
    return f"breakeven.{step_name(record).replace(' ', '.')}"


def _results(record: CheckRecord, index: int, side: Side, listed: dict[str, Any]) -> dict[str, Any]:
    """Return the results of one side."""
    at_ms = int(1000 * datetime.fromisoformat(record.run.created_at).timestamp())
    samples = [_samples_s(record, index, batch) for batch in record.plan.batches]
    values = [median(of_batch) if of_batch else None for of_batch in samples]
    row = [values, listed["params"], listed["version"], at_ms, None, samples]
    return {
        "commit_hash": side.commit, "date": side.committed_ms, "requirements": {}, "env_vars": {},
        "result_columns": ["result", "params", "version", "started_at", "duration", "samples"],
        "results": {listed["name"]: row}, "durations": {}, "version": RESULTS,
    }  # fmt: skip


def _samples_s(record: CheckRecord, index: int, batch: int) -> list[float]:
    """Return the median step time of each worker process, in seconds."""
    steps: dict[int, list[float]] = defaultdict(list)
    for item in record.run.rounds:
        if item.batch == batch and (step_ms := item.step_ms(index)) is not None:
            steps[item.process].append(step_ms / 1000)
    return [median(values) for _, values in sorted(steps.items())]
