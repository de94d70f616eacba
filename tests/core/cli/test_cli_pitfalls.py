"""``pitfalls``: the ways of timing beside our figure, as text and JSON."""

import pytest

from core.cli import pitfalls as command
from core.studies.pitfalls import METHODS, PITFALLS, Figure, PitfallReport
from simulated.commands import Command, as_json, done

REPORT = PitfallReport(
    workload="784-128-10", batch=64, infer_step_ms=0.5, train_step_ms=1.5,
    figures=(Figure(method="predict_first", step_ms=50.0, ratio=100.0),),
)  # fmt: skip


def test_every_way_is_printed_beside_our_figure(cli: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def measured(task: object, request: command.Asked, store: bool) -> PitfallReport:
        asked.append((task, request.plan, store))
        return REPORT

    monkeypatch.setattr(command, "measured_part", measured)
    out, _ = done(cli("pitfalls", "--batch", 64))
    assert METHODS["predict_first"].title in out
    assert "100×" in out
    data = as_json(cli("pitfalls", "--json"))
    assert data["figures"] == [{"method": "predict_first", "step_ms": 50.0, "ratio": 100.0}]
    assert asked == [(PITFALLS, 64, False), (PITFALLS, 32, False)]
