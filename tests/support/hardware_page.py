"""Shared support for tests of the Hardware page: its titles, a host study, and the traces of its charts."""

import json

from streamlit.testing.v1 import AppTest

from core.rounds.run import Run
from simulated.kinds import RUN, cases
from simulated.runs import on_card

STEP, CLEAR = "Step time: measured CPU, modelled GPUs", "Where each card is faster than 2 threads (modelled)"
STEPS = "Step times, measured and modelled"
ACCURACY = "How far the model errs, facts of the cards, the machine"
LABELS = {"modelled", "recorded", "measured", "assumed"}
STUDY = cases()["host"].study()


def traces(at: AppTest) -> list[str]:
    return [trace["name"] for chart in at.get("plotly_chart") for trace in json.loads(chart.proto.spec)["data"]]


def gpu_run() -> Run:
    """Return a run of a CPU against a T4, both measured."""
    return on_card(RUN).model_copy(update={"id": "20260105-t4"})
