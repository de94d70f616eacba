"""The evidence behind modelled numbers on a page: host overhead, the model's errors, facts of cards, the machine."""

from __future__ import annotations

from typing import Any

import pandas as pd
import streamlit as st

from core.base.numbers import bounded, number, percent
from core.hardware.host import Cost
from core.hardware.host_record import HostStudy
from core.hardware.host_study import host_lines
from core.hardware.interval import REGION_WORDS, Modelled, errors
from core.rounds.answer.loop import loop_name
from core.ui import evidence
from core.ui.card import metric
from core.ui.hardware import draft, form
from core.ui.hardware.page import Compared
from core.ui.tables import cleaned
from core.ui.words import plain


def host(seen: Compared) -> None:
    """Show the host's costs, measured or assumed, with their source and the button that measures them."""
    host = seen.host
    costs = host.costs
    st.header(f"Host overhead: {plain(costs.words)}", anchor=False)
    with st.container(horizontal=True):
        _cost("A step", costs.step)
        if costs.execution != "xla":
            _cost("An operation", costs.op)
        if seen.options.conditions.under_fit:
            _cost(f"{loop_name(seen.run)} adds to a step ({costs.fit.label})", costs.fit)
    st.caption(plain(costs.source))
    if seen.options.conditions.under_fit and costs.fit.source != costs.source:
        st.caption(plain(f"What {loop_name(seen.run)} itself adds, {costs.fit.label}: {costs.fit.source}"))
    form.host(host)
    if host.study is not None:
        _host_table(host.study[1])


def _cost(name: str, cost: Cost) -> None:
    bounds = "no interval"
    if cost.low_us is not None and cost.high_us is not None:
        bounds = f"{number(cost.low_us)} to {number(cost.high_us)} µs"
    metric(name, f"{number(cost.us)} µs", bounds)


def _host_table(study: HostStudy) -> None:
    rows = [
        {
            "execution": line.execution,
            "mode": line.mode,
            "step": bounded(line.step.us, line.step.low_us, line.step.high_us),
            "op": bounded(line.op.us, line.op.low_us, line.op.high_us),
            "misfit": percent(line.misfit),
        }
        for line in host_lines(study)
    ]
    names: dict[str, Any] = {
        "execution": "Execution", "mode": "Mode", "step": "A step (µs)", "op": "An operation (µs)",
        "misfit": st.column_config.TextColumn("Farthest from the line", help="Of the networks that were measured."),
    }  # fmt: skip
    evidence.table(pd.DataFrame(rows), "hardware-host", names, "Host overhead by execution and mode.")
    for warning in study.warnings:
        st.warning(plain(warning.text), icon=":material/warning:")


def accuracy() -> None:
    """Show the model's error on cards that were held out of its fit, with the date."""
    known = errors()
    with st.expander(f"How far the model errs on what it was not fitted to ({plain(known.dated)})"):
        by_goal: dict[str, Any] = {
            "what": "Whole networks", "points": "Points", "goal": "Goal for the median error",
            "chip": st.column_config.TextColumn("Chip held out", help="Median error on chips not fitted to."),
            "source": st.column_config.TextColumn("Source held out", help="Median error on sources not fitted to."),
        }  # fmt: skip
        evidence.table(pd.DataFrame(draft.goal_rows(known)), "hardware-goals", by_goal,
                       "Median errors of the model against their goals.")  # fmt: skip
        by_batch: dict[str, Any] = {
            "what": "90 % intervals of whole networks", "points": "Points",
            "chip": st.column_config.TextColumn("Hold, chip held out", help="Share of points inside."),
            "source": st.column_config.TextColumn("Hold, source held out", help="Share of points inside."),
            "ratio": st.column_config.TextColumn("High over low", help="Median of upper over lower bound."),
        }  # fmt: skip
        evidence.table(pd.DataFrame(draft.batch_rows(known)), "hardware-batches", by_batch,
                       "How often the model's intervals hold, and how wide they are.")  # fmt: skip
        by_card: dict[str, Any] = {
            "family": "Measurements of", "phase": "Phase", "name": "Held out", "points": "Points",
            "median": st.column_config.TextColumn("Median error", help="Of modelled ÷ measured − 1, without its sign."),
            "ninety": st.column_config.TextColumn("90th percentile", help="Nine in ten points err less."),
            **{region: st.column_config.TextColumn(
                words.capitalize(), help="Median / 90th percentile (points) there.")
               for region, words in REGION_WORDS.items()},
        }  # fmt: skip
        for errors_of, key, what in ((known.by_card, "card", "card by card"), (known.by_source, "source", "by source")):
            st.dataframe(cleaned(pd.DataFrame(draft.held_out_errors(errors_of))), hide_index=True,
                         key=f"hardware-errors-{key}", column_config=by_card, height=320,
                         alt=f"Held-out errors of the model {what}.")  # fmt: skip
        by_class: dict[str, Any] = {
            "family": "Family", "region": "What limits the step", "gpus": "Cards", "points": "Points",
            "median": st.column_config.TextColumn("Leaning", help="Median of measured over modelled."),
            "interval": st.column_config.TextColumn(
                "90 % of measured ÷ modelled", help="On what was held out: what intervals are made of."),
            "held": st.column_config.TextColumn(
                "Held", help="Share of points inside 90 % intervals made without their chip / without their source."),
            "evidence": "Rests on",
        }  # fmt: skip
        evidence.table(pd.DataFrame(draft.class_errors(known)), "hardware-errors-class", by_class,
                       "Held-out errors of the model by family and what limits the step.")  # fmt: skip
        sources = "; ".join(known.sources)
        st.caption(plain(f"Sources: {sources}. Every row is from constants fitted without what it names."))


def show(seen: Compared) -> None:
    """Show the evidence: accuracy, the facts of the chosen cards, the machine of the run."""
    accuracy()
    with st.expander("Facts of the chosen cards, each with its source"):
        for spec in (reading.spec for reading in seen.chosen):
            st.markdown(f"**{plain(spec.title)}**")
            facts = [(field, getattr(spec, field, None), source) for field, source in spec.sources.items()]
            rows = [{"fact": name, "value": "" if value is None else str(value), "source": source}
                    for name, value, source in facts]  # fmt: skip
            columns = {"fact": "Fact", "value": "Value", "source": "Source"}
            evidence.table(pd.DataFrame(rows), f"facts-{spec.name}", columns)
    bases = dict.fromkeys(p.basis for reading in seen.chosen for p in reading.curve.known if isinstance(p, Modelled))
    for basis in bases:
        st.caption(plain(f"Intervals of modelled steps rest on {basis}."))
    evidence.machine(seen.run.environment)
