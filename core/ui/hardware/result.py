"""Results of the Hardware page, modelled GPUs beside a measured CPU: verdict, chart, table, limits, file."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import asdict
from functools import partial
from operator import itemgetter
from typing import Any

import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from core.base.numbers import counted
from core.base.text import in_lines
from core.figures.style import environment_line
from core.hardware.catalogue import checked_on
from core.hardware.compare import CardReading, SortKey, roof_of, roofline, sort_readings
from core.hardware.crossing import Needed, what_would_have_to_be_true
from core.hardware.export import comparison_data, roofline_data
from core.hardware.figures import (
    MAX_CARDS,
    against_figure,
    clear_figure,
    clear_words,
    limits_figure,
    roofline_figure,
    withheld_lines,
)
from core.hardware.interval import Modelled, errors
from core.hardware.model import modelled_as
from core.rounds.answer.best_cpu import choice_line
from core.rounds.answer.loop import loop_name
from core.rounds.show.figures import workload_line
from core.ui import charts, money, share, verdict
from core.ui.card import Badge, Colour, label_badge, result_card
from core.ui.downloads import study_files
from core.ui.hardware import draft, form, look, modelled, page
from core.ui.hardware.page import Compared
from core.ui.places import KEEP
from core.ui.tables import cleaned
from core.ui.words import plain
from core.workload.spec import MAX_BATCH, MIN_BATCH

SORTS: dict[SortKey, str] = {"crossover": "Crossover", "speed_up": "Speed-up at your batch", "cost": "Cost"}
HOST_PART = "Host overhead"
CLEARLY = (
    "Clearly: the 95 % interval of the speed-up, of model and measured noise together, lies on one side of 1. That "
    "is of each card by itself: of all cards together, some may be called wrongly."
)
RESOLVE_HELP = (
    "Which measurement would make the interval exclude equal speed, and to what, if the estimate stays where it is. "
    "Host study: of this machine, below. Self-check: the file of a machine with such a card, for predict --host. "
    "Recorded sweep: of another such network on such a card, imported in History."
)
HOST_COLOURS: dict[str, Colour] = {"assumed": "orange", "measured": "green", "recorded": "blue"}
HOST_HELP = {
    "assumed": "What the framework costs on such a host is taken from published step times. Name the machine around "
    "the card above, or measure this one below.",
    "measured": "What the framework costs on this machine’s CPU was measured here.",
    "recorded": "Measured on another machine and kept here.",
}


UNDER_FIT = (
    "The modelled steps hold what {loop} itself adds, the CPU’s measured steps do not. Against a CPU under {loop}, the "
    "cards would be faster from an earlier batch on, and by more than is said here."
)


def card(seen: Compared) -> None:
    """Show the result card: what is clear over all batches and at the user's, with labels and subject."""
    run, costs = seen.run, seen.host.costs
    overhead = Badge(f"host overhead {costs.words}", ":material/developer_board:", HOST_COLOURS[costs.label],
                     HOST_HELP[costs.label])  # fmt: skip
    badges = [label_badge("modelled"), label_badge(run.label, "CPU"), overhead, *verdict.machine_badges(seen.answer)]
    about = [choice_line(run, seen.answer), f"{workload_line(run)}; {environment_line(run)}"]
    result_card("Against GPUs that are not here", badges, seen.decision.headline, about, status=run.status,
                more=[seen.decision.sentence])  # fmt: skip


def notices(seen: Compared) -> None:
    """Show the notices that qualify the verdict."""
    assert seen.run.plan is not None
    modelled.not_modelled_notice(seen.run)
    look.offer(seen.run.plan.workload)
    if problem := page.own_cards()[1]:
        st.warning(plain(problem), icon=":material/search_off:")
    if seen.host.problem:
        st.warning(plain(seen.host.problem), icon=":material/warning:")
    elif page.other_machine(seen.run, seen.host):
        st.info(page.NOT_THIS_HOST, icon=":material/info:")
    if seen.options.conditions.under_fit:
        st.warning(plain(UNDER_FIT.format(loop=loop_name(seen.run))), icon=":material/warning:")
    if why := draft.unmeasured_batch(seen.run, seen.answer, seen.options.index, seen.options.batch):
        st.info(plain(why), icon=":material/info:")
    for line in withheld_lines(seen.chosen):
        st.warning(plain(line), icon=":material/visibility_off:")
    lines = [*draft.settings_lines(seen.how, sort_readings(seen.chosen or seen.readings, "crossover"))]
    lines += [f"{name}: {sentence}" for name, sentence in seen.named]
    corrected = ((reading.spec.name, reading.curve.corrected_by) for reading in seen.chosen)
    lines += [f"{name} is corrected by what was {recordings}." for name, recordings in corrected if recordings]
    st.caption("  \n".join(plain(line) for line in lines))
    _what_would_help(seen)


def _what_would_help(seen: Compared) -> None:
    """Show what would make unclear cards clear, with the button for what can be measured here."""
    if not seen.decision.cpu_known:
        return  # the CPU must be measured more first
    open_ = [card for card in seen.decision.cards if card.standing == "not resolved"]
    helped = sum(any(way.measurement == "host study" and way.resolves for way in card.narrowed) for card in open_)
    if not open_:
        return
    verb = "is" if len(open_) == 1 else "are"
    at = f"{len(open_)} of {len(seen.decision.cards)} cards {verb} not clear at batch {seen.decision.batch:,}"
    if not helped:
        st.caption(plain(f"{at}; “All cards” says which measurement would make each of them clear."))
        return
    with st.container(border=True):
        st.markdown(plain(f"{at}. Measuring this machine’s host overhead would make {helped} of them clear."))
        if not st.session_state.get(f"folded-{HOST_PART}"):  # that part has the same button
            form.host(seen.host)


def chart(name: str, seen: Compared, make: Callable[[], go.Figure], alt: str, more: Hashable = None) -> None:
    """Show one chart of this page, drawn once for the same evidence."""
    charts.show(f"hardware-{name}", make, alt, f"{seen.run.id}-modelled-{name}", (seen.key, seen.options, more))


def main_picture(seen: Compared) -> None:
    """Show where each chosen card is clearly faster than the measured CPU, or the CPU alone if no card has a number."""
    shown = _in_the_picture(seen)
    if _all_withheld(seen):
        step_times(seen)
        return
    make = partial(clear_figure, seen.run, seen.answer, seen.options.index, shown)
    words = "; ".join(f"{reading.spec.name}: {clear_words(reading.crossover)}" for reading in shown)
    chart("clear", seen, make, f"Modelled: where each card is faster than {seen.cpu}. {words}.")


def _in_the_picture(seen: Compared) -> tuple[CardReading, ...]:
    return tuple(seen.chosen or sort_readings(seen.readings, "crossover")[:MAX_CARDS])


def _all_withheld(seen: Compared) -> bool:
    """Check that no card in the picture has a number, so that the picture is that of the CPU's step times."""
    return all(reading.withheld for reading in _in_the_picture(seen))


def step_times_part(seen: Compared) -> dict[str, Callable[[], None]]:
    """Return the folded chart of step times by its title; empty if it already is the page's picture."""
    return {} if _all_withheld(seen) else {"Step times, measured and modelled": partial(step_times, seen)}


def step_times(seen: Compared) -> None:
    """Show the step times of the measured CPU and the chosen cards."""
    make = partial(against_figure, seen.run, seen.answer, seen.options.index, seen.chosen, seen.host.costs)
    chart("step-time", seen, make,
          f"Step time by batch: {seen.cpu}, {seen.run.label}, and modelled GPUs. "
          f"{' '.join(reading.crossover.sentence for reading in seen.chosen)}")  # fmt: skip


def table(seen: Compared) -> None:
    """Show all cards in the order that the user chose; those without a number come last, with the reason."""
    key = st.segmented_control(
        "Sorted by", list(SORTS), default="crossover", required=True, key="hardware_sort",
        format_func=SORTS.__getitem__, persist_state=KEEP,
    )  # fmt: skip
    rows = pd.DataFrame(draft.card_rows(sort_readings(seen.readings, key or "crossover"), seen.decision))
    at, text = f"{seen.options.batch:,}", st.column_config.TextColumn
    config: dict[str, Any] = {
        "card": text("Card", pinned=True, width=150),
        "crossover": text("Faster from batch", width=180, help="With its 95 % interval; modelled."),
        "standing": text(f"At batch {at}", width=120, help=f"{CLEARLY} Modelled."),
        "speed_up": text(f"Speed-up at {at}", width=160, help=f"Over {plain(seen.cpu)}; modelled."),
        "resolve": text("What would make it clear", width=260, help=RESOLVE_HELP),
        "step_ms": text(f"Step at {at} (ms)", width=170, help="With its 95 % interval."),
        "cost": text("A million samples", width=250, help="Price × step time at your batch."),
        "limited_by": text(f"Limited at {at} by", help="The largest part of the step."),
        "price": text("Price per hour", width=185),
        "label": text("Label", width=90),
        "note": text("Note", help="Why numbers are withheld, or what corrected them."),
    }
    rows = rows.drop(columns=[name for name in ("note", "resolve") if not rows[name].any()])
    st.dataframe(cleaned(rows), hide_index=True, key=f"hardware-table-{seen.run.id}", column_config=config, height=560,
                 alt="One row for each GPU, modelled unless its label says otherwise.")  # fmt: skip
    st.caption(
        f"Modelled, except where the label says recorded or measured. In brackets: 95 % intervals. Facts of cards as "
        f"found on {checked_on()}; list prices have their day beside them."
    )
    unit = money.chosen().currency
    left = sum(reading.spec.price is not None and reading.spec.price.currency != unit for reading in seen.readings)
    if left:
        st.caption(plain(f"The price of {counted(left, 'card')} is not in {unit}; without a rate it makes no cost."))


def limits(seen: Compared) -> None:
    """Show what limits one card by batch, its roofline, and the facts that would move its crossover."""
    names = dict.fromkeys(reading.spec.name for reading in (*seen.chosen, *seen.readings))
    name: str = st.selectbox("Card", list(names), key=f"hardware_card-{seen.run.id}", width=320)
    reading = seen.reading(name)
    if not any(isinstance(point, Modelled) for point in reading.curve.known):
        st.info(plain(reading.withheld or "Every step of this card was recorded, so no parts of it are modelled."),
                icon=":material/visibility_off:")  # fmt: skip
        return
    with st.grid(2, min_column_width=560, gap="medium"):
        make = partial(limits_figure, seen.run, reading.spec, reading.curve, seen.host.costs)
        chart("limits", seen, make, f"What limits {name} by batch, modelled. {limit_words(reading)}", name)
        points = roofline(reading.spec, seen.how, reading.curve)
        under = f"{workload_line(seen.run)}; {modelled_as(reading.spec, seen.how.workload, seen.how.target)}"
        make = partial(roofline_figure, reading.spec, roof_of(reading.spec, seen.how), under, points)
        chart("roofline", seen, make, f"Roofline of {name}; its steps are modelled.", name)
    st.markdown(plain(limit_words(reading)))
    st.markdown(plain(seen.decision.card(name).sentence))
    _needed(seen, reading)


def limit_words(reading: CardReading) -> str:
    """Describe the largest part of the step over the batches."""
    spans = [f"{part.by} from batch {part.first:,} to {part.last:,}" for part in reading.limits]
    return f"Modelled: {reading.spec.name} is limited by {', then by '.join(spans)}."


def _needed(seen: Compared, reading: CardReading) -> None:
    st.header("What would have to be true", anchor=False)
    measured = [cell.batch for cell in seen.answer.cells if cell.target == seen.options.index]
    batch = st.number_input(
        "For a crossover at batch", value=seen.options.batch, min_value=MIN_BATCH, max_value=MAX_BATCH, step=1,
        key=f"hardware_needed-{seen.run.id}-{seen.options.batch}", width=200,
        help="Which launch spacing, link speed or memory bandwidth would make card and CPU meet there.",
    )  # fmt: skip
    facts = needed(seen, reading, int(batch))
    if not facts:
        st.info(f"Card and CPU can be compared from batch {min(measured):,} to {max(measured):,}; choose one there.",
                icon=":material/info:")  # fmt: skip
    st.markdown("\n".join(f"- {plain(fact.sentence)}" for fact in facts))


def needed(seen: Compared, reading: CardReading, batch: int) -> tuple[Needed, ...]:
    """Return the value of each single fact of the card that would move its crossover to ``batch``."""
    index = seen.options.index
    return what_would_have_to_be_true(seen.run, seen.answer, index, reading.spec, seen.how, reading.curve, batch)


def sharing(seen: Compared) -> None:
    """Show the link and the files of the page's results for these cards."""
    name, shown = f"{seen.run.id}-modelled-hardware", _in_the_picture(seen)
    files = study_files(
        name, partial(content, seen), text=lambda: in_lines(reading.crossover.sentence for reading in shown),
        figure=partial(clear_figure, seen.run, seen.answer, seen.options.index, shown), rows=itemgetter("cards"),
        meaning="Every card with its curve, crossover, speed-up and cost; each number says whether it is modelled.",
    )  # fmt: skip
    share.panel(name, {"run": seen.run.id, **seen.options.query(), "host": seen.host.key, **money.address()}, files)


def content(seen: Compared) -> dict[str, Any]:
    """Return the whole table as JSON, with roofline and needed facts of the chosen cards at the batch."""
    how = seen.how
    details = [
        {
            "gpu": reading.spec.name,
            "label": "modelled",
            "settings": modelled_as(reading.spec, how.workload, how.target),
            "roofline": roofline_data(reading.spec, roofline(reading.spec, how, reading.curve)),
            "needed": [asdict(each) for each in needed(seen, reading, seen.options.batch)],
        }
        for reading in seen.chosen
    ]
    about: dict[str, Any] = {"run": seen.run.id, "run_label": seen.run.label, "workload": how.workload.title}
    about |= {"target": str(how.target), **how.conditions.chosen, "errors_of": errors().dated}
    return comparison_data(seen.readings, seen.decision, seen.host.costs) | about | {"chosen": details}
