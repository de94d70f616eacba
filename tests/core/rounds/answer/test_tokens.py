"""Tokens per second and the time to a token, from step times."""

import pytest

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
    most = max(tokens * cell.samples_per_s for cell in answer.cells if cell.target == 0)
    assert f"{most:,.0f}"[:3].rstrip(",.") in lines[0]


def test_another_network_counts_samples() -> None:
    run = make_run(4)
    assert throughput_unit(run)[1:] == ("samples/s", 1)
    assert token_lines(run, analyse(run)) == token_lines(run, None) == []
