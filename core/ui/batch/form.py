"""The forms of the Batch page: noise study, search for the largest batch, prices; each with its button."""

from __future__ import annotations

from datetime import date
from typing import Any

import streamlit as st

from core.base.fields import fields_of
from core.base.numbers import duration
from core.base.text import clean
from core.machine.environment import available_memory_bytes
from core.rounds.run import Run
from core.studies.memory.record import MemoryPlan, default_limit_bytes
from core.studies.memory.run import MemorySearch
from core.studies.noise.record import DEFAULT_RATES, NoisePlan, NoiseStudy
from core.ui import machine, money
from core.ui.batch import page
from core.ui.batch.draft import (
    PriceDraft,
    PriceOutcome,
    build_memory_plan,
    build_noise_plan,
    build_prices,
    memory_refusal,
    noise_refusal,
)
from core.ui.places import KEEP, Places
from core.ui.study_page import busy_notice, busy_sentence
from core.ui.words import plain
from core.userdata.source import RANDOM_LABELS, Source, check_labelled
from core.workload.spec import Workload

NOISE, MEMORY = fields_of(NoisePlan), fields_of(MemoryPlan)
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
            inputs = {"own": own, "data": data} | _training(run.plan.workload, wrong)
        wrong.here("plan")
    workload = run.plan.workload
    outcome = build_noise_plan(run, inputs, lambda path: _look(path, workload.model_dump_json(), workload))
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
        data = wrong.plan_field(NOISE["data"], "noise", label="Path on this machine", placeholder="/data/train.npz")
    return own, data


def _training(workload: Workload, wrong: Places) -> dict[str, Any]:
    """Draw device, reference batch, learning rate, loss and budget, in columns; return them."""
    here = machine.devices()
    device: str = st.selectbox(
        "Train on", here.names, index=here.names.index(here.default_targets()[1].device),
        format_func=lambda name: clean(here.title(name)), key="batch_device", persist_state=KEEP,
        help="Noise scale and steps do not depend on it; a faster one gets further.",
    )  # fmt: skip
    rate = f"{DEFAULT_RATES[workload.optimizer]:g}"
    return {
        "device": device,
        "batch": wrong.plan_field(NOISE["batch"], "noise"),
        "learning_rate": wrong.plan_field(NOISE["learning_rate"], "noise", placeholder=rate, format="%g"),
        "target_loss": wrong.plan_field(NOISE["target_loss"], "noise", format="%g"),
        "budget_s": wrong.plan_field(NOISE["budget_s"], "noise"),
    }


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
        limit = MEMORY["limit_bytes"]
        limit_gb = wrong.plan_field(
            limit, "memory", value=None if usual is None else round(limit.on_page(usual), 1), format="%.2f",
            key=f"memory_limit-{chosen.device}",
        )  # fmt: skip
        budget_s = wrong.plan_field(MEMORY["budget_s"], "memory")
        place = st.container()
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
