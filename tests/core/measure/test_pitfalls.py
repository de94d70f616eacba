"""The live demonstration of timing pitfalls, with a real process, and with processes that fail."""

from __future__ import annotations

import sys

import pytest

from core.families import network_from_name
from core.measure import pitfalls
from core.measure.pitfalls import TITLES, run_pitfalls
from core.measure.protocol import WorkerLost
from core.spec import Workload

WORKLOAD = Workload(network=network_from_name("100-50-10"))


def test_every_method_is_timed_and_predict_is_far_from_the_step():
    heard = []
    report = run_pitfalls(WORKLOAD, 16, 120, heard.append)
    assert set(heard) == {"infer", "train", *TITLES}
    figures = {figure.method: figure for figure in report.figures}
    assert tuple(figures) == tuple(TITLES)
    for method, figure in figures.items():
        ours = report.train_step_ms if method == "first_epoch" else report.infer_step_ms
        assert figure.ratio == pytest.approx(figure.step_ms / ours)
        assert figure.title
        assert figure.explanation.endswith(".")
    assert figures["predict_first"].step_ms > figures["predict_loop"].step_ms > 3 * report.infer_step_ms
    assert figures["single_call"].ratio > 2
    assert figures["first_epoch"].ratio > 1.5


@pytest.mark.parametrize(
    ("code", "deadline_s", "outcome", "says"),
    [
        ("print('no json')", 30, "crashed", "without"),
        ("raise SystemExit('alas')", 30, "crashed", "“alas”"),
        ("raise MemoryError", 30, "out_of_memory", "MemoryError"),
        ("import time; time.sleep(600)", 0.5, "hung", "longer than"),
    ],
)
def test_a_process_that_fails_is_told(monkeypatch, code, deadline_s, outcome, says):
    monkeypatch.setattr(pitfalls, "COMMAND", (sys.executable, "-c", code))
    with pytest.raises(WorkerLost) as caught:
        run_pitfalls(WORKLOAD, 16, deadline_s)
    assert caught.value.outcome == outcome
    assert says in caught.value.reason
