"""Timing pitfalls, with a real worker."""

import threading

import pytest

from core.networks.families import network_from_name
from core.studies import pitfalls
from core.studies.pitfalls import METHODS, run_pitfalls
from core.studies.runner import StudyTools, unheard
from core.worker.clock import WallClock
from core.worker.process import launch_processes
from core.worker.protocol import WorkerLost
from core.workload.spec import Workload

WORKLOAD = Workload(network=network_from_name("100-50-10"))
REAL = StudyTools(launch_processes, WallClock(), threading.Event(), None, unheard)


@pytest.mark.tensorflow
def test_every_method_is_timed_and_predict_is_far_from_the_step():
    report = run_pitfalls(REAL, 16, WORKLOAD)
    figures = {figure.method: figure for figure in report.figures}
    assert tuple(figures) == tuple(METHODS)
    for method, figure in figures.items():
        ours = report.train_step_ms if method == "first_epoch" else report.infer_step_ms
        assert figure.ratio == pytest.approx(figure.step_ms / ours)
        assert figure.title
        assert figure.explanation.endswith(".")
    assert min(figures["predict_first"].step_ms, figures["predict_loop"].step_ms) > 3 * report.infer_step_ms
    assert figures["single_call"].ratio > 2
    assert figures["first_epoch"].ratio > 1.5


def test_a_demonstration_past_its_deadline_is_stopped(monkeypatch):
    monkeypatch.setattr(pitfalls, "DEADLINE_S", 0.1)
    with pytest.raises(WorkerLost) as caught:
        run_pitfalls(REAL, 16, WORKLOAD)
    assert caught.value.outcome == "hung"
