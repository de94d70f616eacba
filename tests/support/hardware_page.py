"""What tests of the Hardware page share: a run with a host study in the store, tabs, and a running study."""

from __future__ import annotations

import json
from typing import Any

from streamlit.testing.v1 import AppTest

from core.measure.progress import Progress
from core.measure.studies import StudySnapshot
from core.results import Gpu, Run
from core.spec import Target
from tests.support.hosts import make_host_study
from tests.support.pages import chart_titles, keep
from tests.support.runs import make_environment, make_run

RUN = make_run(4, label="measured")
FIRST, SECOND = RUN.target_names
STEP, OVERTAKES = "Step time: measured CPU, modelled GPUs", "Where each card overtakes (modelled)"
AT = Progress("measuring", "Measuring steps of tiny networks in turn", 3, 14, 5.0, 10.0)
LABELS = {"modelled", "recorded", "measured", "assumed"}
STUDY = make_host_study(noise=0.02).model_copy(update={"environment": make_environment()})


def kept(engine: Any, run: Run = RUN, *, host: Any = None) -> str:
    run_id = keep(engine.store, run)
    if host is not None:
        engine.store.add_study("host", "20260107-host", None, host.to_json())
    return run_id


def turn(at: AppTest, tab: str) -> AppTest:
    at.session_state["hardware_tab"] = tab
    at.run()
    assert not at.exception, at.exception
    return at


def titles(at: AppTest) -> list[str]:
    return [title.removeprefix("<b>").removesuffix("</b>") for title in chart_titles(at)]


def traces(at: AppTest) -> list[str]:
    return [trace["name"] for chart in at.get("plotly_chart") for trace in json.loads(chart.proto.spec)["data"]]


def gpu_run() -> Run:
    """CPU against a T4, both measured."""
    assert RUN.plan is not None
    plan = RUN.plan.model_copy(update={"targets": (Target(threads=1), Target(device="gpu:0"))})
    machine_of = make_environment().model_copy(update={"gpus": (Gpu(name="Tesla T4"),)})
    names = plan.target_names
    return RUN.model_copy(
        update={"id": "20260105-t4", "plan": plan, "target_names": names, "environment": machine_of}
    )  # fmt: skip


def running() -> StudySnapshot:
    return StudySnapshot("host", "Measuring the host overhead of this machine", active=True, progress=AT)
