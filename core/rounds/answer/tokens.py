"""Tokens per second, and the time to the first token, from the step times of a token decoder."""

from __future__ import annotations

from collections.abc import Iterator

from core.base.numbers import bounded, counted
from core.base.text import sentence_case
from core.rounds.answer.answer import Answer
from core.rounds.run import Run

Unit = tuple[str, str, int]


def throughput_unit(run: Run) -> Unit:
    """Return what throughput counts, in words and as a unit, and how many of it a sample has."""
    tokens = None if run.plan is None else run.plan.workload.network.tokens_per_sample
    return ("Samples per second", "samples/s", 1) if tokens is None else ("Tokens per second", "tokens/s", tokens)


def token_lines(run: Run, answer: Answer | None) -> list[str]:
    """Return a sentence per target: the time to a token at its smallest batch, and its throughput at the largest.

    Empty for a network without tokens.
    """
    return [] if answer is None or throughput_unit(run)[1] == "samples/s" else list(_lines(run, answer))


def _lines(run: Run, answer: Answer) -> Iterator[str]:
    _, unit, tokens = throughput_unit(run)
    what = "the next token" if tokens == 1 else f"the first token of {counted(tokens, 'token')} of prompt"
    for target, name in enumerate(run.names):
        cells = sorted((cell for cell in answer.cells if cell.target == target), key=lambda cell: cell.batch)
        if not cells:
            continue
        first, last = cells[0], cells[-1]
        step_ms = bounded(first.step_ms, first.low_ms, first.high_ms)
        slow, fast = (None if ms is None else 1000 * tokens * last.batch / ms for ms in (last.high_ms, last.low_ms))
        yield (
            f"{sentence_case(name)}: {what} takes {step_ms} ms at batch {first.batch:,}; "
            f"{bounded(tokens * last.samples_per_s, slow, fast)} {unit} at batch {last.batch:,}."
        )
