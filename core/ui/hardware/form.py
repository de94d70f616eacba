"""The forms of the Hardware page: options, host overhead with its button, prices, the user's own card."""

from __future__ import annotations

from datetime import date
from typing import Any, get_args

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from core.base.frameworks import Execution, Precision
from core.base.text import clean
from core.hardware.catalogue import FILE_NAME, CardPrice, GpuSpec, OwnCard, add_own, save_own
from core.hardware.constants import EXECUTIONS, PRECISIONS
from core.hardware.figures import MAX_CARDS
from core.hardware.host import KIND_WORDS, USUAL_KIND, Build, Conditions, kind_of
from core.rounds.answer.loop import loop_name
from core.rounds.run import Run
from core.store.database import data_dir
from core.studies.host.run import HostPlan
from core.ui import machine, money, registry, shown_run
from core.ui.hardware import page
from core.ui.hardware.draft import (
    OTHER_LINK,
    Options,
    OwnDraft,
    build_own,
    changed_words,
    links,
    own_prices,
    wrong_batch,
)  # fmt: skip
from core.ui.places import KEEP, Places
from core.ui.study_page import busy_notice, busy_sentence
from core.ui.words import EXECUTION_HELP, TF32_HELP, plain

FED, RESIDENT = "Fed each step", "Resident"
MEASURED_HERE, MEASURED_ELSEWHERE = "Measured on this machine", "Measured on another machine"
BUILDS: dict[Build, str] = {"unnamed": "Not named", "keras": "Keras 3", "fused": "A fused build"}
PROBLEM = "hardware_problem_card"
KINDS: dict[str, str] = {str(kind): words.capitalize() for kind, words in KIND_WORDS.items()} | {"unnamed": "Not named"}


def decisive(run: Run, current: Options) -> Build:
    """Ask in plain words for the two most decisive conditions: the machine around the card, and whose code runs on it.

    The host is kept only in the address, where a newly measured study replaces it.
    """
    with st.container(horizontal=True, vertical_alignment="bottom"):
        _host(run, current.host)
        build: Build = st.segmented_control(
            "Whose code runs on it", get_args(Build), default=current.conditions.build, required=True,
            key=f"hardware_build-{run.id}", format_func=BUILDS.__getitem__,
            help="A vendor’s fused build (NVIDIA’s containers, PyTorch) runs normalisation, loss and optimizer as one "
            "kernel each; Keras 3 writes them as many small operations. Until it is named the intervals span both.",
        )  # fmt: skip
    return build


def choices(run: Run, current: Options, build: Build) -> tuple[Precision, Execution, Conditions]:
    """Ask for the settings that are rarely changed."""
    with st.popover("How steps run", icon=":material/tune:", width="content"):
        loop = loop_name(run)
        under_fit = st.checkbox(
            f"Under {plain(loop)}", value=current.conditions.under_fit, key=f"hardware_fit-{run.id}",
            help=f"Adds what Keras’s own loop ({plain(loop)}: callbacks, metrics, progress bar) costs per step. The "
            "CPU’s steps were measured without it.",
        )  # fmt: skip
        with st.container(horizontal=True):
            precision: Precision = st.selectbox(
                "Precision", PRECISIONS, index=PRECISIONS.index(current.precision), width=170,
                key=f"hardware_precision-{run.id}", help=f"On the GPU. {TF32_HELP}",
            )  # fmt: skip
            execution: Execution = st.selectbox(
                "Execution", EXECUTIONS, index=EXECUTIONS.index(current.execution), width=130,
                key=f"hardware_execution-{run.id}", help=f"On the GPU. {EXECUTION_HELP}",
            )  # fmt: skip
        data = st.segmented_control(
            "Data", [RESIDENT, FED], default=FED if current.conditions.fed else RESIDENT, required=True,
            key=f"hardware_data-{run.id}", help="Already on the card, or over the link in each step.",
        )  # fmt: skip
    return precision, execution, Conditions(fed=data == FED, build=build, under_fit=under_fit)


def _host(run: Run, current: str) -> None:
    """Ask for the machine that drives the cards.

    The field's key contains the host in use, since that may change without the field.
    """
    known = page.studies(run)
    counts = page.counting(current, known)
    measured = [counts] if counts in known else list(known)[:1]
    names = {key: MEASURED_HERE if known[key].label == "measured" else MEASURED_ELSEWHERE for key in measured}
    names |= KINDS
    like_this = kind_of(machine.now().cpu, machine.now().usable_cores)
    if like_this != USUAL_KIND:
        names[like_this] += " (like this one)"
    key = f"hardware_host-{run.id}-{counts}"
    st.selectbox(
        "Machine around the card", list(names), index=list(names).index(counts), format_func=names.__getitem__,
        key=key, on_change=_turn, args=(key,), width=330,
        help="Its CPU hands over every operation. A weak cloud machine has 2 virtual cores, as free notebooks have. "
        "Until it is named the intervals span the machines in which such cards are found. “Host and evidence” below "
        "measures this machine.",
    )  # fmt: skip


def _turn(key: str) -> None:
    st.query_params["host"] = st.session_state[key]


def options(
    run: Run,
    current: Options,
    usual: Options,
    targets: tuple[int, ...],
    cards: dict[str, GpuSpec],
    beside: DeltaGenerator,
) -> Options:
    """Show the row of choices, what decides ``beside`` the verdict, and write their values to the address."""
    wrong = Places()
    _hold_cards(run, current, cards)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        gpus = st.multiselect(
            "GPUs to compare with (modelled)", list(cards), key=_gpus_key(run), width=520,
            max_selections=MAX_CARDS, format_func=lambda name: clean(f"{name} (yours)" if cards[name].own else name),
            help=f"Up to {MAX_CARDS} in the picture; the table has all of them.",
        )  # fmt: skip
        batch = st.number_input(
            "Your batch", value=current.batch, step=1, key=f"hardware_batch-{run.id}", width=120,
            help="At which speed-up, cost and limit are reported.",
        )  # fmt: skip
        index = _against(run, current, targets)
        folded = st.container()
    with beside:
        build = decisive(run, current)
    with folded:
        precision, execution, conditions = choices(run, current, build)
    wrong.here("batch")
    if sentence := wrong_batch(batch):
        wrong.fill({"batch": f"{sentence} Until then {current.batch:,} counts."})
        batch = current.batch
    chosen = Options(index, int(batch or current.batch), tuple(gpus), precision, execution, conditions, current.host)
    for name, value in chosen.query().items():
        if st.query_params.get(name) != value:
            st.query_params[name] = value
    if changed := changed_words(chosen, usual):
        st.caption(plain(changed))
    return chosen


def _gpus_key(run: Run) -> str:
    return f"hardware_gpus-{run.id}"


def _hold_cards(run: Run, current: Options, cards: dict[str, GpuSpec]) -> None:
    """Keep the chosen cards in the session; a user's own card may have been removed from its file since."""
    key = _gpus_key(run)
    chosen = st.session_state.get(key, current.gpus)
    if key not in st.session_state or not all(name in cards for name in chosen):
        st.session_state[key] = [name for name in chosen if name in cards]


def _against(run: Run, current: Options, targets: tuple[int, ...]) -> int:
    if len(targets) < 2:
        return current.index
    return shown_run.choose_target(run, "Your CPU", targets, current.index, "hardware_against")


def host(host: page.Host) -> None:
    """Show the button that measures the host's costs."""
    busy = busy_sentence()
    again: dict[str, Any] = {"label": "Measure it again", "type": "secondary"}
    page.PAGE.start_button(
        HostPlan(), busy, **({} if host.study is None else again),
        help="Some 15 seconds: tiny networks of several depths on one thread of this machine’s CPU.",
    )  # fmt: skip
    if page.PAGE.running() is not None:
        st.caption("It is being measured; its progress stands at the top of this page.")
    elif busy:
        busy_notice(busy)
    page.PAGE.refusal()


def keep_host(host: page.Host) -> None:
    """Put the active host into the address, except during a measurement, to whose result the page turns afterwards."""
    if page.PAGE.running() is None and host.study is not None:
        st.query_params["host"] = host.key


def _price_key(name: str) -> str:
    return f"hardware_price-{name}"


def prices(cards: dict[str, GpuSpec]) -> tuple[dict[str, CardPrice], dict[str, str]]:
    """Return the user's prices from the session, and their errors."""
    state = st.session_state
    dated = (state.get("hardware_dated") or date.today()).isoformat()
    amounts = {name: state.get(_price_key(name)) for name in cards}
    return own_prices(amounts, dated, money.chosen().currency)


def price_fields(chosen: tuple[GpuSpec, ...], errors: dict[str, str]) -> None:
    """Show the fields that :func:`prices` reads, for the chosen cards."""
    currency = money.chosen().currency
    st.markdown(
        f"What an hour costs, in {plain(currency)}, for the cards that you compare with. Empty: the list price, with "
        "its day."
    )
    with st.container(horizontal=True, vertical_alignment="bottom"):
        money.field()
        for spec in chosen:
            listed = "none" if spec.price is None else spec.price.words
            st.number_input(
                plain(spec.name), value=None, step=0.1, format="%.4g", key=_price_key(spec.name), width=230,
                placeholder=clean(listed), persist_state=KEEP,
                help=None if spec.price is None else plain(spec.price.source),
            )  # fmt: skip
        st.date_input(
            "Your prices are of", value="today", key="hardware_dated", width=150, format="YYYY-MM-DD",
            persist_state=KEEP, help="Prices change, so they are shown with their day.",
        )  # fmt: skip
    money.problem()
    for sentence in errors.values():
        st.error(plain(sentence), icon=":material/error:")


def own(run: Run, cards: dict[str, GpuSpec]) -> None:
    """Show the user's cards and the form for another one."""
    kept = page.own_cards()[0].gpus
    for card in kept:
        with st.container(horizontal=True, vertical_alignment="center"):
            st.markdown(plain(own_words(card)), width="content")
            if not registry.read_only():
                st.button("Remove", icon=":material/delete:", key=f"remove-{card.name}", on_click=_remove,
                          args=(run, card.name))  # fmt: skip
    if registry.read_only():
        return
    st.caption(f"Facts as its maker states them. They stay on this machine, in “{FILE_NAME}” of the data folder; "
               "“python -m core gpus --add FILE” takes cards from a file.")  # fmt: skip
    wrong = Places()
    draft = _own_fields(wrong)
    made, errors = build_own(draft, tuple(cards))
    if draft.name.strip() or draft.fp32_tflops is not None:
        wrong.fill(errors)
    st.button("Keep this card", type="primary", icon=":material/add:", key="keep_card", disabled=made is None,
              on_click=_keep, args=(run, made))  # fmt: skip
    if problem := st.session_state.pop(PROBLEM, None):
        st.error(plain(problem), icon=":material/error:")


def own_words(card: OwnCard) -> str:
    """Describe a user's card in one line."""
    half = "" if card.half_tflops is None else f" (half {card.half_tflops:g})"
    price = "" if card.price is None else f", {card.price.per_hour:g} {card.price.currency} ({card.price.dated})"
    return (
        f"{card.name}: {card.fp32_tflops:g} TFLOP/s{half}, {card.memory_gb:g} GB, {card.bandwidth_gb_s:g} GB/s, "
        f"{card.link}{price}"
    )


def _own_fields(wrong: Places) -> OwnDraft:
    values: dict[str, float | None] = {}
    with st.grid(3, min_column_width=240, gap="small"):
        with st.container():
            name = st.text_input("Name", key="own_name", max_chars=80, placeholder="Our card")
            wrong.here("name")
        for field, label, meaning in (
            ("fp32_tflops", "Peak in float32 (TFLOP/s)", "Outside tensor cores."),
            ("half_tflops", "Peak in half precision (TFLOP/s)", "Tensor cores, dense; empty where it has none."),
            ("memory_gb", "Memory (GB)", "Gigabytes of 10⁹ bytes."),
            ("bandwidth_gb_s", "Memory bandwidth (GB/s)", "Of the card’s own memory."),
        ):
            with st.container():
                values[field] = st.number_input(label, value=None, key=f"own_{field}", format="%g", help=meaning)
                wrong.here(field)
        link: str = st.selectbox("Link", links(), key="own_link", help="From host to card.")
        with st.container():
            values["link_gb_s"] = st.number_input(
                "Link carries (GB/s)", value=None, key="own_link_gb_s", format="%g", disabled=link != OTHER_LINK,
                help="Needed for another link than the known ones.",
            )  # fmt: skip
            wrong.here("link_gb_s")
        with st.container():
            label = f"Price per hour ({money.chosen().currency})"
            per_hour = st.number_input(label, value=None, key="own_price", format="%g", placeholder="none")
            wrong.here("price")
    wrong.here("card")
    return OwnDraft(
        name=name,
        link=link,
        per_hour=per_hour,
        dated=date.today().isoformat(),
        currency=money.chosen().currency,
        **values,
    )


def _keep(run: Run, card: OwnCard) -> None:
    """Keep a card, add it to the comparison and clear the form."""
    try:
        add_own(data_dir() / FILE_NAME, (card,))
    except ValueError as error:
        st.session_state[PROBLEM] = str(error)
        return
    chosen = list(st.session_state.get(_gpus_key(run), []))
    st.session_state[_gpus_key(run)] = [*chosen[: MAX_CARDS - 1], card.name]
    st.session_state["own_name"] = ""
    for field in ("fp32_tflops", "half_tflops", "memory_gb", "bandwidth_gb_s", "link_gb_s", "price"):
        st.session_state[f"own_{field}"] = None


def _remove(run: Run, name: str) -> None:
    path = data_dir() / FILE_NAME
    try:
        save_own(path, [card for card in page.own_cards()[0].gpus if card.name != name])
    except ValueError as error:
        st.session_state[PROBLEM] = str(error)
        return
    chosen = st.session_state.get(_gpus_key(run), [])
    st.session_state[_gpus_key(run)] = [kept for kept in chosen if kept != name]
