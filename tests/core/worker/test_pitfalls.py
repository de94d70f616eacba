"""The live demonstration of timing pitfalls, with a real worker."""

import pytest

from core.networks.families import network_from_name
from core.worker.pitfalls import METHODS, run_pitfalls
from core.worker.protocol import WorkerLost
from core.workload.spec import Workload

WORKLOAD = Workload(network=network_from_name("100-50-10"))


@pytest.mark.tensorflow
def test_every_method_is_timed_and_predict_is_far_from_the_step():
    report = run_pitfalls(WORKLOAD, 16, 120)
    figures = {figure.method: figure for figure in report.figures}
    assert tuple(figures) == tuple(METHODS)
    for method, figure in figures.items():
        ours = report.train_step_ms if method == "first_epoch" else report.infer_step_ms
        assert figure.ratio == pytest.approx(figure.step_ms / ours)
        assert figure.title
        assert figure.explanation.endswith(".")
    assert figures["predict_first"].step_ms > figures["predict_loop"].step_ms > 3 * report.infer_step_ms
    assert figures["single_call"].ratio > 2
    assert figures["first_epoch"].ratio > 1.5


def test_a_demonstration_past_its_deadline_is_stopped():
    with pytest.raises(WorkerLost) as caught:
        run_pitfalls(WORKLOAD, 16, 0.1)
    assert caught.value.outcome == "hung"
