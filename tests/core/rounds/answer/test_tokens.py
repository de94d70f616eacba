"""Tokens per second and the time to a token, from step times."""

import pytest

from core.base.numbers import bounded
from core.rounds.answer.analyse import analyse
from core.rounds.answer.tokens import throughput_unit, token_lines
from core.workload.spec import Workload
from simulated.runs import make_run


@pytest.mark.parametrize(("phase", "tokens", "words"), [("prefill", 16, "of prompt"), ("decode", 1, "next token")])
def test_a_decoder_counts_tokens(phase: str, tokens: int, words: str) -> None:
    run = make_run(4)
    work = Workload(network=f"decoder-64x1-h2-s16-f4-v500-{phase}")
    run = run.model_copy(update={"plan": run.plan.model_copy(update={"workload": work})})
    answer = analyse(run)
    assert throughput_unit(run)[1:] == ("tokens/s", tokens)
    lines = token_lines(run, answer)
    assert len(lines) == len(run.names)
    assert all(words in line for line in lines)
    first, *_, last = sorted((cell for cell in answer.cells if cell.target == 0), key=lambda cell: cell.batch)
    assert bounded(first.step_ms, first.low_ms, first.high_ms) in lines[0]
    slow, fast = (1000 * tokens * last.batch / ms for ms in (last.high_ms, last.low_ms))
    assert f"{bounded(1000 * tokens * last.batch / last.step_ms, slow, fast)} tokens/s at batch" in lines[0]


def test_another_network_counts_samples() -> None:
    run = make_run(4)
    assert throughput_unit(run)[1:] == ("samples/s", 1)
    assert token_lines(run, analyse(run)) == token_lines(run, None) == []
