"""What modelled GPUs would do beside a measured CPU, on a page: verdict, pictures, table, limits, the file."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable
from functools import partial
from typing import Any
from urllib.parse import urlencode, urlsplit, urlunsplit

import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from core import figures
from core.figures.hardware_charts import against_figure, crossover_words, crossovers_figure, limits_figure
from core.figures.roofline_chart import roofline_figure
from core.figures.style import environment_line, workload_line
from core.hardware.catalogue import checked_on
from core.hardware.compare import CardReading, SortKey, roof_of, roofline, sort_readings
from core.hardware.crossing import Needed, what_would_have_to_be_true
from core.hardware.interval import Modelled, errors
from core.hardware_export import comparison_data, needed_data, roofline_data
from core.results import Run
from core.spec import MAX_BATCH, MIN_BATCH
from core.ui import charts, hardware, hardware_choices, hardware_form
from core.ui.hardware import Compared
from core.ui.verdict import LABEL_COLOURS, plain
from core.ui.words import LABEL_ICONS, LABELS

SORTS: dict[SortKey, str] = {"crossover": "Crossover", "speed_up": "Speed-up at your batch", "cost": "Cost"}
SHOWN_METRICS = 4
HOST_COLOURS = {"assumed": "orange", "measured": "green", "recorded": "blue"}
HOST_HELP = {
    "assumed": "Nothing was measured on this machine: what the framework costs on the host is taken from published "
    "times. Measure it below.",
    "measured": "What the framework costs on this machine’s CPU was measured here.",
    "recorded": "Measured on another machine and kept here.",
}


def card(seen: Compared) -> None:
    """The verdict with its labels and the crossovers of the chosen cards."""
    shown = sort_readings(seen.chosen or seen.readings, "crossover")
    with st.container(border=True):
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            st.markdown("**Against GPUs that are not here**", width="content")
            st.badge("modelled", icon=LABEL_ICONS["modelled"], color="violet", help=LABELS["modelled"])
            _badges(seen)
        st.subheader(plain(_headline(shown)), anchor=False)
        told = hardware_choices.summary(seen.readings, seen.options.batch, seen.cpu)
        st.caption(f"{plain(told)}  \n{plain(workload_line(seen.run))}  \n{plain(environment_line(seen.run))}")
        with st.container(horizontal=True):
            for one in shown[:SHOWN_METRICS]:
                _metric(one)


def _badges(seen: Compared) -> None:
    run, costs = seen.run, seen.host.costs
    st.badge(f"CPU {run.label}", icon=LABEL_ICONS[run.label], color=LABEL_COLOURS[run.label], help=LABELS[run.label])
    st.badge(f"host overhead {costs.label}", icon=":material/developer_board:", color=HOST_COLOURS[costs.label],  # type: ignore[arg-type]
             help=HOST_HELP[costs.label])  # fmt: skip
    if run.status != "finished":
        st.badge(run.status, icon=":material/flag:", color="orange")


def _headline(shown: tuple[CardReading, ...]) -> str:
    """What is said of the card that overtakes first; of none where every number is withheld."""
    if shown[0].withheld:
        return f"Modelled: no number is given. {shown[0].curve.reason or shown[0].withheld}"
    return shown[0].crossover.sentence


def _metric(one: CardReading) -> None:
    value, _, interval = crossover_words(one.crossover).partition(" (")
    found = one.crossover
    st.metric(
        f"{one.spec.name}, modelled", f"from batch {value}" if found.kind == "from" else value, delta_arrow="off",
        delta=interval.rstrip(")") or None, delta_color="off", help=plain(found.sentence),
    )  # fmt: skip


def notices(seen: Compared) -> None:
    """What qualifies the verdict."""
    if problem := hardware.own_cards()[1]:
        st.warning(plain(problem), icon=":material/search_off:")
    if seen.host.problem:
        st.warning(plain(seen.host.problem), icon=":material/warning:")
    elif hardware.other_machine(seen.run, seen.host):
        st.info(hardware.NOT_THIS_HOST, icon=":material/info:")
    if told := hardware_choices.unmeasured_batch(seen.run, seen.answer, seen.options.index, seen.options.batch):
        st.info(plain(told), icon=":material/info:")
    withheld = [one for one in seen.chosen if not one.curve.known]
    for reason in dict.fromkeys(one.curve.reason for one in withheld):
        names = ", ".join(one.spec.name for one in withheld if one.curve.reason == reason)
        st.warning(plain(f"Withheld for {names}: {reason}"), icon=":material/visibility_off:")


def chart(name: str, seen: Compared, draw: Callable[[], go.Figure], alt: str, more: Hashable = None) -> None:
    """One chart of this page, drawn once for the same evidence."""
    key = (name, seen.key, seen.options, more)
    with st.container(border=True):
        st.plotly_chart(
            drawn(key, charts.is_dark(), draw), theme=None, key=f"chart-hardware-{name}", alt=plain(alt),
            config=figures.chart_config("svg", f"breakeven-{seen.run.id}-modelled-{name}"),
        )  # fmt: skip


@st.cache_resource(max_entries=32, show_spinner=False)
def drawn(key: tuple[Hashable, ...], dark: bool, _draw: Callable[[], go.Figure]) -> go.Figure:  # noqa: ARG001
    """A figure for the theme, cached by its key."""
    figure = _draw()
    return figures.on_dark(figure) if dark else figure


def main_picture(seen: Compared) -> None:
    """The measured CPU and the chosen cards."""
    chart("step-time", seen, partial(_against, seen),
          f"Step time by batch: {seen.cpu}, {seen.run.label}, and modelled GPUs. "
          f"{' '.join(one.crossover.sentence for one in seen.chosen)}")  # fmt: skip


def _against(seen: Compared) -> go.Figure:
    return against_figure(seen.run, seen.answer, seen.options.index, seen.chosen, seen.host.costs)


def pictures(seen: Compared) -> None:
    """Both pictures of the chosen cards beside each other, and a sentence for each card."""
    if not seen.chosen:
        st.info("Choose a GPU above to see it beside the CPU.", icon=":material/info:")
    with st.grid(2, min_column_width=560, gap="medium"):
        with st.container():
            main_picture(seen)
        if any(not one.withheld for one in seen.chosen):
            with st.container():
                draw = partial(crossovers_figure, seen.run, seen.answer, seen.options.index, seen.chosen)
                chart("crossovers", seen, draw, "Where each card overtakes, modelled.")
    lines = [one.crossover.sentence for one in sort_readings(seen.chosen, "crossover")]
    st.markdown("\n".join(f"- {plain(line)}" for line in lines))


def table(seen: Compared) -> None:
    """All cards, sorted as the person likes; those without a number last, with the reason."""
    key = st.segmented_control(
        "Sorted by", list(SORTS), default="crossover", required=True, key="hardware_sort",
        format_func=SORTS.__getitem__, persist_state=hardware_form.KEEP,
    )  # fmt: skip
    rows = pd.DataFrame(
        hardware_choices.card_rows(sort_readings(seen.readings, key or "crossover"), seen.options.batch)
    )
    at = f"{seen.options.batch:,}"
    config: dict[str, Any] = {
        "card": st.column_config.TextColumn("Card", pinned=True, width=150),
        "crossover": st.column_config.TextColumn(
            "Ahead from batch", width=180, help="With its 95 % interval; modelled."
        ),
        "speed_up": st.column_config.TextColumn(
            f"Speed-up at {at}", width=160, help=f"Over {plain(seen.cpu)}; modelled."
        ),
        "step_ms": st.column_config.TextColumn(f"Step at {at} (ms)", width=170, help="With its 95 % interval."),
        "cost": st.column_config.TextColumn("A million samples", width=250, help="Price × step time at your batch."),
        "limited_by": st.column_config.TextColumn(f"Limited at {at} by", help="The largest part of the step."),
        "price": st.column_config.TextColumn("Price an hour", width=185),
        "label": st.column_config.TextColumn("Label", width=90),
        "note": st.column_config.TextColumn("Note", help="Why numbers are withheld, or what corrected them."),
    }
    if not rows["note"].any():
        rows = rows.drop(columns="note")
    st.dataframe(rows, hide_index=True, key=f"hardware-table-{seen.run.id}", column_config=config, height=560,
                 alt="One row for each GPU, modelled unless its label says otherwise.")  # fmt: skip
    st.caption(
        f"Modelled, except where the label says recorded or measured. In brackets: 95 % intervals. Facts of cards as "
        f"found on {checked_on()}; list prices have their day beside them."
    )
    if len({one.cost.price.currency for one in seen.readings if one.cost is not None}) > 1:
        st.caption("Prices in different currencies are not converted, so costs in one cannot be ranked with another.")


def limits(seen: Compared) -> None:
    """What limits one card by batch, its roofline, and what would have to be true for another crossover."""
    names = [one.spec.name for one in (*seen.chosen, *(r for r in seen.readings if r not in seen.chosen))]
    name: str = st.selectbox("Card", names, key=f"hardware_card-{seen.run.id}", width=320)
    one = seen.reading(name)
    if not any(isinstance(point, Modelled) for point in one.curve.known):
        st.info(plain(one.withheld or "Every step of this card was recorded, so no parts of it are modelled."),
                icon=":material/visibility_off:")  # fmt: skip
        return
    assert seen.run.plan is not None
    workload, target = seen.run.plan.workload, seen.options.target
    with st.grid(2, min_column_width=560, gap="medium"):
        with st.container():
            draw = partial(limits_figure, seen.run, one.spec, one.curve, seen.host.costs)
            chart("limits", seen, draw, f"What limits {name} by batch, modelled. {limit_words(one)}", name)
        with st.container():
            points = roofline(one.spec, workload, target, one.curve)
            under = f"{workload_line(seen.run)}, {target.precision}"
            draw = partial(roofline_figure, one.spec, roof_of(one.spec, workload, target), under, points)
            chart("roofline", seen, draw, f"Roofline of {name}; its steps are modelled.", name)
    st.markdown(plain(limit_words(one)))
    _needed(seen, one)


def limit_words(one: CardReading) -> str:
    """Which part of the step is the largest, from batch to batch."""
    spans = [f"{part.by} from batch {part.first:,} to {part.last:,}" for part in one.limits]
    return f"Modelled: {one.spec.name} is limited by {', then by '.join(spans)}."


def _needed(seen: Compared, one: CardReading) -> None:
    st.subheader("What would have to be true", anchor=False)
    measured = [cell.batch for cell in seen.answer.cells if cell.target == seen.options.index]
    batch = st.number_input(
        "For a crossover at batch", value=seen.options.batch, min_value=MIN_BATCH, max_value=MAX_BATCH, step=1,
        key=f"hardware_needed-{seen.run.id}-{seen.options.batch}", width=200,
        help="Which launch spacing, link speed or memory bandwidth would make card and CPU meet there.",
    )  # fmt: skip
    found = needed(seen, one, int(batch))
    if not found:
        st.info(f"Card and CPU can be compared from batch {min(measured):,} to {max(measured):,}; choose one there.",
                icon=":material/info:")  # fmt: skip
    st.markdown("\n".join(f"- {plain(reading.sentence)}" for reading in found))


def needed(seen: Compared, one: CardReading, batch: int) -> tuple[Needed, ...]:
    """Which single fact of the card would move its crossover to ``batch``, and to what value."""
    assert seen.run.plan is not None
    return what_would_have_to_be_true(
        one.spec, seen.run.plan.workload, seen.options.target, seen.host.costs.host, seen.run, seen.answer, one.curve,
        batch, seen.options.fed, seen.options.index,
    )  # fmt: skip


def take_along(seen: Compared) -> None:
    """The address of this evidence, the view without chrome, and the file."""
    st.subheader("Take it along", anchor=False)
    if address := st.context.url:
        parts = {"run": seen.run.id, **seen.options.query(), "host": seen.host.key}
        base = urlunsplit((*urlsplit(address)[:3], urlencode(parts), ""))
        left, right = st.columns(2)
        left.caption("Link to this evidence")
        left.code(base, language=None, wrap_lines=True)
        right.caption("Embedded view, without menus")
        right.code(f"{base}&embed=true", language=None, wrap_lines=True)
    st.download_button(
        "JSON", data=partial(content, seen), file_name=f"breakeven-{seen.run.id}-modelled-hardware.json",
        mime="application/json", icon=":material/download:", on_click="ignore", key="download-hardware",
        help="Every card with its curve, crossover, speed-up and cost; each number says whether it is modelled.",
    )  # fmt: skip


def content(seen: Compared) -> bytes:
    """The file: the whole table, and for the chosen cards roofline and what would have to be true at the batch."""
    assert seen.run.plan is not None
    workload, options = seen.run.plan.workload, seen.options
    details = [
        {
            "gpu": one.spec.name,
            "label": "modelled",
            "roofline": roofline_data(one.spec, roofline(one.spec, workload, options.target, one.curve)),
            "needed": needed_data(needed(seen, one, options.batch)),
        }
        for one in seen.chosen
    ]
    about = _about(seen.run) | {"target": str(options.target), "fed": options.fed, "errors_of": errors().dated}
    data = comparison_data(seen.readings, seen.cpu, options.batch, seen.host.costs) | about | {"chosen": details}
    return json.dumps(data, ensure_ascii=False, allow_nan=False, indent=1).encode()


def _about(run: Run) -> dict[str, Any]:
    assert run.plan is not None
    return {"run": run.id, "run_label": run.label, "workload": run.plan.workload.title}
