"""What modelled numbers rest on, on a page: the host overhead, the model's errors, the facts of cards, the machine."""

from __future__ import annotations

from typing import Any

import pandas as pd
import streamlit as st

from core.figures.style import number
from core.hardware.host import Cost, host_lines
from core.hardware.interval import REGION_WORDS, Modelled, errors
from core.host_study import HostStudy
from core.ui import evidence, hardware_choices, hardware_form
from core.ui.hardware import Compared
from core.ui.verdict import plain


def host(seen: Compared) -> None:
    """The host's costs: measured or assumed, from what, and the button that measures them."""
    found = seen.host
    costs = found.costs
    st.subheader(f"Host overhead: {costs.label}", anchor=False)
    with st.container(horizontal=True):
        _cost("A step", costs.step)
        if costs.execution != "xla":
            _cost("An operation", costs.op)
    st.caption(plain(costs.source))
    hardware_form.host(seen.run, found)
    if found.study is not None:
        _host_table(found.study[1])


def _cost(name: str, cost: Cost) -> None:
    bounds = "no interval"
    if cost.low_us is not None and cost.high_us is not None:
        bounds = f"{number(cost.low_us)} to {number(cost.high_us)} µs"
    st.metric(name, f"{number(cost.us)} µs", delta=bounds, delta_color="off", delta_arrow="off")


def _host_table(study: HostStudy) -> None:
    rows = [
        {
            "execution": line.execution,
            "mode": line.mode,
            "step": _microseconds(line.step),
            "op": _microseconds(line.op),
            "misfit": f"{100 * line.misfit:.0f} %",
        }
        for line in host_lines(study)
    ]
    names: dict[str, Any] = {
        "execution": "Execution", "mode": "Mode", "step": "A step (µs)", "op": "An operation (µs)",
        "misfit": st.column_config.TextColumn("Farthest from the line", help="Of the networks that were measured."),
    }  # fmt: skip
    st.dataframe(pd.DataFrame(rows), hide_index=True, key="hardware-host", column_config=names, height="content",
                 alt="Host overhead by execution and mode.")  # fmt: skip
    for warning in study.warnings:
        st.warning(plain(warning.text), icon=":material/warning:")


def _microseconds(cost: Cost) -> str:
    if cost.low_us is None or cost.high_us is None:
        return number(cost.us)
    return f"{number(cost.us)} ({number(cost.low_us)} to {number(cost.high_us)})"


def accuracy() -> None:
    """How far the model errs on cards that it never saw, with the date."""
    known = errors()
    with st.expander(f"How far the model errs on cards held out of its fit ({known.dated})"):
        by_card: dict[str, Any] = {
            "family": "Measurements of", "phase": "Phase", "gpu": "Card held out", "points": "Points",
            "median": st.column_config.TextColumn("Median error", help="Of modelled ÷ measured − 1, without its sign."),
            "ninety": st.column_config.TextColumn("90th percentile", help="Nine in ten points err less."),
            **{region: st.column_config.TextColumn(
                words.capitalize(), help="Median / 90th percentile (points) in this region of batch.")
               for region, words in REGION_WORDS.items()},
        }  # fmt: skip
        st.dataframe(pd.DataFrame(hardware_choices.card_errors(known)), hide_index=True, key="hardware-errors-card",
                     column_config=by_card, height=420, alt="Held-out errors of the model card by card.")  # fmt: skip
        by_class: dict[str, Any] = {
            "family": "Family", "region": "Region of batch", "phase": "Phase", "gpus": "Cards", "points": "Points",
            "median": st.column_config.TextColumn("Leaning", help="Median of measured over modelled, card by card."),
            "interval": st.column_config.TextColumn(
                "90 % of measured ÷ modelled", help="For a card that is not in the data: what intervals are made of."),
            "held": st.column_config.TextColumn(
                "Held", help="Share of held-out points inside 90 % intervals made without their chip."),
            "evidence": "Rests on",
        }  # fmt: skip
        st.dataframe(pd.DataFrame(hardware_choices.class_errors(known)), hide_index=True, key="hardware-errors-class",
                     column_config=by_class, height="content",
                     alt="Held-out errors of the model by family, region and phase.")  # fmt: skip
        st.caption(plain(f"Sources: {'; '.join(known.sources)}. Every row is from constants fitted without that card."))


def show(seen: Compared) -> None:
    """What everything rests on: host, accuracy, the facts of the chosen cards, the machine of the run."""
    host(seen)
    accuracy()
    with st.expander("Facts of the chosen cards, each with its source"):
        for one in seen.chosen:
            st.markdown(f"**{plain(one.spec.title)}**")
            facts = [(field, getattr(one.spec, field, None), source) for field, source in one.spec.sources.items()]
            rows = [{"fact": name, "value": "" if value is None else str(value), "source": source}
                    for name, value, source in facts]  # fmt: skip
            st.dataframe(pd.DataFrame(rows), hide_index=True, key=f"facts-{one.spec.name}", height="content",
                         column_config={"fact": "Fact", "value": "Value", "source": "Source"})  # fmt: skip
    bases = dict.fromkeys(p.basis for one in seen.chosen for p in one.curve.known if isinstance(p, Modelled))
    for basis in bases:
        st.caption(plain(f"Intervals of modelled steps rest on {basis}."))
    evidence.environment(seen.run)
