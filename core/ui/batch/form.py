"""The forms of the Batch page: noise study, search for the largest batch, prices; each with its button."""

from __future__ import annotations

from datetime import date
from typing import Any

import streamlit as st

from core.base.numbers import duration
from core.base.text import clean
from core.machine.environment import available_memory_bytes
from core.rounds.run import Run
from core.studies.memory.record import DEFAULT_BUDGET_S as MEMORY_BUDGET_S
from core.studies.memory.record import default_limit_bytes
from core.studies.memory.run import MemorySearch
from core.studies.noise.record import DEFAULT_BATCH, DEFAULT_BUDGET_S, DEFAULT_RATES, MIN_BATCH_TRAINED, NoiseStudy
from core.ui import machine, money
from core.ui.batch import page
from core.ui.batch.draft import (
    GB,
    NoiseDraft,
    PriceDraft,
    PriceOutcome,
    build_memory_plan,
    build_noise_plan,
    build_prices,
    memory_refusal,
    noise_refusal,
)
from core.ui.places import Places
from core.ui.study_page import busy_notice, busy_sentence
from core.ui.words import plain
from core.userdata.source import RANDOM_LABELS, Source, check_labelled
from core.workload.spec import MAX_BATCH, Workload

KEEP: Any = "session"  # choices survive a visit to another page
LOOK_AGAIN_S = 5.0  # a folder is not reread at every keystroke elsewhere in the form
TEACHER, OWN = "Labels of a teacher network", "Your own labelled data"


def noise(run: Run) -> None:
    """Draw the button of a noise study, its choices folded beside it; or say why there can be none."""
    if (why := noise_refusal(run)) is not None:
        st.info(plain(why), icon=":material/info:")
        return
    assert run.plan is not None
    busy, wrong = busy_sentence(), Places()
    row = st.container(horizontal=True, vertical_alignment="center")
    place = row.container(width="content")
    with row.popover("Choices", icon=":material/tune:"):
        own, data = _task(wrong)
        with st.grid(2, min_column_width=160, gap="small"):
            draft = NoiseDraft(own, data, *_training(run.plan.workload))
        for field in ("batch", "rate", "loss", "budget", "plan"):
            wrong.here(field)
    workload = run.plan.workload
    outcome = build_noise_plan(run, draft, lambda path: _look(path, workload.model_dump_json(), workload))
    wrong.fill(outcome.errors)
    with place:
        page.NOISE_PAGE.start_button(outcome.plan, busy)
    with row:
        if outcome.plan is None:
            st.caption(":material/error: Something under “Choices” is not possible; it says what is accepted.")
        else:
            st.caption(plain(f"About {duration(outcome.plan.budget_s)}. {RANDOM_LABELS if not own else ''}".strip()))
    if outcome.source is not None:
        st.caption(plain(f"{outcome.source.name}: {outcome.source.words}."))
    _below(busy)


def _task(wrong: Places) -> tuple[bool, str]:
    chosen = st.segmented_control(
        "Task to learn", [TEACHER, OWN], default=TEACHER, required=True, key="batch_task", persist_state=KEEP,
        help="A teacher is a network of the same architecture with other random weights; its labels can be learnt. "
        "Your own data show the noise of your own problem.",
    )  # fmt: skip
    own = chosen == OWN
    data = ""
    if own:
        data = st.text_input(
            "Path on this machine", key="batch_data", persist_state=KEEP, placeholder="/data/train.npz",
            help="An .npz file with labels beside the samples, TFRecord files, or a folder with a sub-folder a class.",
        )  # fmt: skip
    wrong.here("data")
    return own, data


def _training(workload: Workload) -> tuple[str, int | None, float | None, float | None, float | None]:
    """Draw device, reference batch, learning rate, loss and budget, in columns; return them."""
    here = machine.devices()
    device: str = st.selectbox(
        "Train on", here.names, index=here.names.index(here.default_targets()[1].device),
        format_func=lambda name: clean(here.title(name)), key="batch_device", persist_state=KEEP,
        help="Noise scale and steps do not depend on it; a faster one gets further.",
    )  # fmt: skip
    size = st.number_input(
        "Reference batch", value=DEFAULT_BATCH, step=1, key="batch_reference", persist_state=KEEP,
        help=f"At which it trains and steps are counted: {MIN_BATCH_TRAINED} to {MAX_BATCH:,}.",
    )  # fmt: skip
    usual = DEFAULT_RATES[workload.optimizer]
    rate = st.number_input(
        "Learning rate", value=None, key="batch_rate", format="%g", placeholder=f"{usual:g}",
        persist_state=KEEP, help=f"Empty: {usual:g}, Keras's own for this optimizer.",
    )  # fmt: skip
    loss = st.number_input(
        "Loss to reach", value=None, key="batch_loss", format="%g", placeholder="half of it",
        persist_state=KEEP, help="On held-out samples. Empty: half of the untrained network's loss.",
    )  # fmt: skip
    budget_s = st.number_input(
        "Budget (s)", value=DEFAULT_BUDGET_S, step=30.0, format="%.0f", key="batch_budget",
        persist_state=KEEP, help="It ends earlier where the loss is reached.",
    )  # fmt: skip
    return device, size, rate, loss, budget_s


@st.cache_resource(ttl=LOOK_AGAIN_S, max_entries=4, show_spinner=False)
def _look(path: str, key: str, _workload: Workload) -> Source:  # noqa: ARG001
    return check_labelled(path, _workload)


def memory(run: Run, target: int) -> int | None:
    """Draw limit, budget and button of a search for the largest batch; return the chosen limit in bytes, or None.

    If nothing can be searched, return the limit of the run's own machine.
    """
    if (why := memory_refusal(run)) is not None:
        st.info(plain(why), icon=":material/info:")
        return page.usual_limit_bytes(run, target)
    assert run.plan is not None
    chosen, wrong, busy = run.plan.targets[target], Places(), busy_sentence()
    if chosen.device.startswith("gpu:") and not machine.devices().has_gpu:
        st.info(plain(f"{run.names[target]} is not on this machine now, so no batch can be tried on it."),
                icon=":material/info:")  # fmt: skip
        return page.usual_limit_bytes(run, target)
    free_bytes = available_memory_bytes()
    usual = default_limit_bytes(chosen, free_bytes, machine.now().gpus)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        limit_gb = st.number_input(
            "Memory limit (GB)", value=None if usual is None else round(usual / GB, 1), step=0.5, format="%.2f",
            key=f"batch_limit-{chosen.device}", width=170, persist_state=KEEP,
            help="On a CPU of a whole worker process, TensorFlow included; on a GPU of what TensorFlow may take. A "
            "worker that passes it ends, and nothing else does. Proposed: 90 % of what is free, most of a GPU.",
        )  # fmt: skip
        budget_s = st.number_input(
            "Budget (s)", value=MEMORY_BUDGET_S, step=30.0, format="%.0f", key="batch_memory_budget", width=130,
            persist_state=KEEP, help="At most 8 batches are tried, each in a fresh process of some seconds.",
        )  # fmt: skip
        place = st.container()
    wrong.here("limit")
    wrong.here("budget")
    free = None if chosen.is_gpu else free_bytes
    outcome = build_memory_plan(run, target, limit_gb, budget_s, free, machine.now().limited_words)
    wrong.fill(outcome.errors)
    with place:
        page.MEMORY_PAGE.start_button(
            outcome.plan, busy, lambda plan: page.MEMORY_PAGE.start(MemorySearch(plan, page.memory_studies()))
        )
    _below(busy)
    return outcome.limit_bytes


def _below(busy: str | None) -> None:
    """Show why a button is disabled now, or had no effect."""
    if page.running() is not None:
        st.caption("A study is under way; its progress stands at the top of this page.")
    elif busy:
        busy_notice(busy)
    for study_page in page.PAGES:
        study_page.refusal()


def _price_key(name: str) -> str:
    return f"batch_price-{name}"


def prices(run: Run, study: NoiseStudy | None) -> PriceOutcome:
    """Return the prices in the session, even while their fields are not on the page.

    Without the user's own number, an epoch has the samples of the noise study's data, if it had any.
    """
    state = st.session_state
    samples = study.samples if study is not None and study.plan.data is not None else None
    return build_prices(
        PriceDraft(
            amounts={name: state.get(_price_key(name)) for name in run.target_names},
            currency=money.chosen().currency,
            dated=(state.get("batch_dated") or date.today()).isoformat(),
            epoch_samples=state.get("batch_epoch") or samples,
        )
    )


def price_fields(run: Run, outcome: PriceOutcome) -> None:
    """Draw the fields that :func:`prices` reads, with the errors of ``outcome``."""
    st.markdown("The prices are yours: what an hour on each target costs, owned or rented.")
    with st.container(horizontal=True, vertical_alignment="bottom"):
        for name, shown in zip(run.target_names, run.names, strict=True):
            st.number_input(
                f"An hour on {plain(shown)}", value=None, step=0.1, format="%.4g", key=_price_key(name), width=220,
                placeholder="none", persist_state=KEEP,
            )  # fmt: skip
        money.field()
        st.date_input(
            "Prices of", value="today", key="batch_dated", width=150, format="YYYY-MM-DD", persist_state=KEEP,
            help="Prices change, so they are shown with their day.",
        )  # fmt: skip
        st.number_input(
            "Samples in an epoch", value=None, step=1000, key="batch_epoch", width=180, placeholder="unknown",
            persist_state=KEEP, help="For the cost of an epoch.",
        )  # fmt: skip
    money.problem()
    for sentence in outcome.errors.values():
        st.error(plain(sentence), icon=":material/error:")
