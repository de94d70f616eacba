"""The service of a run's targets: verdict, latency and cost over the request rate, every number, and the files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from core.base.numbers import number
from core.base.schema import UserError
from core.base.text import in_lines, sentence_case
from core.figures.style import environment_line
from core.hardware.catalogue import GpuSpec
from core.rounds.run import Run
from core.rounds.show.figures import workload_line
from core.studies.batch.shapes import Price
from core.studies.serving.export import rate_words, sentences, serving_data, serving_text
from core.studies.serving.figures import cost_figure, latency_figure, priced_targets
from core.studies.serving.prediction import ServingAnswer, served_curve, serving_answer
from core.studies.serving.service import Service
from core.ui import charts, evidence, registry, share
from core.ui.card import label_badge, predicted_badge, result_card
from core.ui.downloads import study_files
from core.ui.words import plain

PREDICTED = "Predicted from step times: no server ran, and no request came."


class Result:
    """The parts of the page's frame. Raises UserError if the run does not tell what its targets serve."""

    def __init__(self, run: Run, service: Service, prices: tuple[Price, ...], card: GpuSpec | None) -> None:
        self._run, self._key = run, (*registry.revision(run), repr(service), repr(prices), repr(card))
        if (answer := registry.answer_of(run)) is None:
            raise UserError("No round was measured in this run, so nothing is known of serving.")
        self._answer: ServingAnswer = registry.once(
            ("serving", *self._key),
            lambda: serving_answer(run, answer, service, prices, [served_curve(run, answer, card)] if card else ()),
        )

    def verdict(self) -> None:
        first, *more = sentences(self._answer)
        badges = [predicted_badge(PREDICTED), label_badge(self._run.label, "step times")]
        badges += [label_badge("modelled", "card")] if len(self._answer.targets) > len(self._run.names) else []
        about = (f"{workload_line(self._run)}; {environment_line(self._run)}",)
        result_card("Serving", badges, first, about, more=more)

    def picture(self) -> None:
        self._chart("latency", partial(latency_figure, self._run, self._answer))
        if priced_targets(self._answer):
            self._chart("cost", partial(cost_figure, self._run, self._answer))

    def _chart(self, name: str, make: Callable[[], go.Figure]) -> None:
        alt = f"{name.capitalize()} by request rate. {sentences(self._answer)[0]}"
        charts.show(f"serving-{name}", make, alt, f"{self._run.id}-serving-{name}", self._key,
                    omit=(workload_line(self._run), environment_line(self._run)))  # fmt: skip

    def notes(self) -> None:
        """The picture's footnote has them."""

    def evidence(self) -> dict[str, Callable[[], None]]:
        return {"Every number": self._numbers}

    def _numbers(self) -> None:
        for target in self._answer.targets:
            st.markdown(f"**{plain(sentence_case(target.title))}**: {plain(rate_words(target.capacity_per_s))}")
            rows = [
                {"rate": number(rate), "latency": number(ms)}
                for rate, ms in zip(target.curve.rates_per_s, target.curve.ms, strict=True)
            ]
            columns = {"rate": "Requests/s", "latency": f"Latency, p{self._answer.service.percentile} (ms)"}
            evidence.table(pd.DataFrame(rows), f"serving-{self._run.id}-{target.name}", columns,
                           f"Predicted latency of {target.title} by request rate.")  # fmt: skip

    def share(self) -> None:
        files = study_files(
            f"{self._run.id}-serving", partial(serving_data, self._run, self._answer),
            text=lambda: in_lines(serving_text(self._run, self._answer)),
            figure=partial(latency_figure, self._run, self._answer), rows=_rows,
            meaning="What is said here, with the latency of every target by request rate.",
        )  # fmt: skip
        share.panel(f"{self._run.id}-serving", dict(st.query_params), files)


def _rows(data: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield one row per target and request rate."""
    for target in data["targets"]:
        for rate, ms in zip(target["rates_per_s"], target["latency_ms"], strict=True):
            yield {"target": target["target"], "rate_per_s": rate, "latency_ms": ms}
