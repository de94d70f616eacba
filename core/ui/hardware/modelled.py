"""“Against a modelled GPU” beside the real targets: the choice, its result card under a verdict, its marks in charts.

Measured results stay unchanged: the result card of the modelled GPU stands beside the measured verdict, and exports of
a run contain nothing of it. The choice is the same on every page of a session and stands in the address as ``gpu``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import streamlit as st

from core.base.numbers import first_batch, number
from core.base.text import clean
from core.hardware.catalogue import GpuSpec, UnknownGpu, find_gpu
from core.hardware.compare import Against, against, card_target, compared_with, not_modelled
from core.hardware.curve import card_curve, unnamed_conditions
from core.hardware.host import USUAL_KIND, Modelling, costs_of_kind
from core.hardware.interval import Modelled
from core.hardware.model import modelled_as
from core.rounds.answer.answer import Answer
from core.rounds.answer.best_cpu import choice_line
from core.rounds.plan import SweepPlan
from core.rounds.run import Run
from core.ui import machine, navigation, registry
from core.ui.card import label_badge, metric, result_card
from core.ui.hardware import page
from core.ui.hardware.draft import USUAL_CARDS, usual_options
from core.ui.sweep.form import CardField
from core.ui.words import plain
from core.workload.execution import expected
from core.workload.names import all_of, shown_names

QUERY = "gpu"
KEY, PUT = "modelled_gpu", "modelled_gpu_put"
NONE = ""
WIDTH_PX = 560
TITLE = "Against a modelled GPU"
HELP = (
    "A card that need not be here. Its step times are computed from its data sheet and from errors seen on other "
    "cards; it runs no worker and takes none of the budget."
)


def choose(*, folded: bool, width: Any = "stretch") -> None:
    """Show the choice among all cards, folded if a real GPU can be measured; it is kept in session and address."""
    known = _known()
    opened = st.session_state.get(KEY) is not None
    place: Any = st.expander(TITLE, icon=":material/function:", expanded=opened) if folded else st.container()
    with place:
        _field("Modelled GPU" if folded else TITLE, [NONE, *known], width)


def pick(width: int) -> GpuSpec:
    """Show the choice where a card is required: that of the session or the address, else the first usual one."""
    known = _known()
    if not st.session_state.get(KEY):
        st.session_state[KEY] = next(name for name in (*USUAL_CARDS, *known) if name in known)
    return known[_field("Modelled GPU", list(known), width)]


def _known() -> dict[str, GpuSpec]:
    """Return every card, after following the address and forgetting a choice that no longer exists."""
    known = page.cards()
    if problem := page.own_cards()[1]:
        st.warning(plain(problem), icon=":material/search_off:")
    _follow_address(known)
    if st.session_state.get(KEY, NONE) not in known:
        st.session_state.pop(KEY, None)
    return known


def _field(label: str, names: list[str], width: Any) -> str:
    name: str = st.selectbox(
        label, names, key=KEY, help=HELP, persist_state="session", width=width,
        format_func=lambda name: clean(f"{name} (modelled, runs no worker)" if name else "None"),
    )  # fmt: skip
    st.session_state[PUT] = name
    navigation.put(**{QUERY: name})
    return name


def offer(run: Run) -> None:
    """Show the choice on the page of a run if it has a CPU target, and never in the view without menus."""
    targets = () if run.plan is None else run.plan.targets
    if st.context.is_embedded or not any(target.device == "cpu" for target in targets):
        _follow_address(page.cards())
        return
    choose(folded=machine.devices().has_gpu or any(target.is_gpu for target in targets), width=WIDTH_PX)


def _follow_address(known: Mapping[str, GpuSpec]) -> None:
    """Take the card named in the address, unless this session put it there itself."""
    name = st.query_params.get(QUERY)
    if name is None or name == st.session_state.get(PUT):
        return
    try:
        st.session_state[KEY] = find_gpu(name, known).name
    except UnknownGpu as error:
        st.info(plain(str(error)), icon=":material/search_off:")


def address() -> dict[str, str]:
    """Return the address parameters that a link to a run needs to show the same card."""
    name = st.session_state.get(KEY)
    return {QUERY: name} if name else {}


def chosen() -> GpuSpec | None:
    """Return the card that is compared with the measurements, or None."""
    name = st.session_state.get(KEY)
    return page.cards().get(name) if name else None


def explain(place: Any, plan: SweepPlan | None) -> None:
    """Say below the choice in the form what it means for the planned sweep, or why it has no effect."""
    spec = chosen()
    if spec is None or plan is None:
        return
    cpu = next((target for target in plan.targets if target.device == "cpu"), None)
    if cpu is None:
        place.info("No target is a CPU, so this sweep leaves the modelled GPU out.", icon=":material/info:")
        return
    ends = sorted({plan.batches[0], plan.batches[len(plan.batches) // 2], plan.batches[-1]})
    target = card_target(cpu)
    costs = costs_of_kind(USUAL_KIND, expected(plan.workload.network, target).execution)
    curve = card_curve(spec, Modelling(plan.workload, target, costs, unnamed_conditions(plan)), ends)
    if not curve.known:
        place.info(plain(f"{spec.name} gets no number for this workload: {curve.reason}"), icon=":material/function:")
        return
    settings = modelled_as(spec, plan.workload, target)
    measured = f"The sweep measures {all_of(shown_names(plan.targets))} alone."
    words = f"{spec.name} is modelled and runs no worker. {measured} The card as modelled: {settings}."
    place.caption(f":material/function: {plain(words)}")


def shown(run: Run, answer: Answer | None) -> Against | None:
    """Show the result card of the chosen GPU, or the reason why there is none; return None if no chart can show it."""
    spec = None if answer is None else chosen()
    if answer is None or spec is None:
        return None
    try:
        comparison, note = compared_card(run, answer, spec)
    except ValueError as error:
        st.info(plain(f"{spec.name}, modelled: {error}"), icon=":material/function:")
        return None
    not_modelled_notice(run)
    _card(run, comparison, choice_line(run, answer), note)
    return comparison if comparison.curve.stretch else None


def not_modelled_notice(run: Run) -> None:
    """Say at once that no GPU step of the run's network is modelled, and what to run instead."""
    if run.plan is not None and (why := not_modelled(run.plan.workload)) is not None:
        st.info(plain(why), icon=":material/visibility_off:")


def compared_card(run: Run, answer: Answer, spec: GpuSpec) -> tuple[Against, str]:
    """Compare the card with a run, with the Hardware page's host and recordings; add a note on the host.

    Raises:
        UserError: Nothing can be compared.
    """
    index, known = compared_with(run, answer), page.cards()
    host = page.host(run, usual_options(run, answer, index, known))
    note = page.NOT_THIS_HOST if page.other_machine(run, host) else ""
    # reading other runs would disturb the one being measured
    recorded = () if run.status == "running" else page.recordings(run, known)
    key = (spec.model_dump_json(), repr(host.costs), tuple((item.run_id, item.gpu) for item in recorded))
    comparison = registry.once(
        ("against", registry.revision(run), index, *key),
        lambda: against(run, answer, index, spec, host.costs, recorded),
    )
    return comparison, note


def _card(run: Run, comparison: Against, choice: str, note: str) -> None:
    """Show sentence, numbers and their basis; every number is labelled modelled."""
    others = [other.sentence for other in comparison.crossovers[1:] if other.kind != "withheld"]
    about = [line for line in [comparison.named, *others, choice, *_rests_on(comparison), note] if line]
    with result_card(TITLE, [label_badge("modelled")], f"{comparison.crossover.sentence} No worker ran for it.", about):
        _numbers(comparison)
        if not st.context.is_embedded and run.status != "running":
            navigation.link("hardware", "All cards against this CPU, what limits them, the host's overhead",
                 run=run.id, gpus=comparison.spec.name)  # fmt: skip


def _rests_on(comparison: Against) -> list[str]:
    """Describe what was modelled and what its interval covers."""
    if not comparison.curve.known:
        return []
    how = comparison.how
    data = "each batch over the link" if how.conditions.fed else "data resident on the card"
    basis = next((point.basis for point in comparison.curve.known if isinstance(point, Modelled)), None)
    about = f"{comparison.spec.title}: {comparison.settings}; {data}; the host's overhead is {how.costs.words}."
    interval = f"Interval: {basis}, and the measured noise of {comparison.crossover.setting}."
    return [about] if basis is None else [about, interval]


def _numbers(comparison: Against) -> None:
    crossover, end = comparison.crossover, comparison.at_end
    with st.container(horizontal=True):
        if crossover.kind == "from" and crossover.batch is not None:
            metric("Crossover (modelled)", f"batch {first_batch(crossover.batch)}", crossover.interval_words,
                   "From there on the card is faster, with the 95 % interval of model and noise.")  # fmt: skip
        if end is not None:
            metric(f"Speed-up over {crossover.cpu} at batch {end.batch:,} (modelled)", f"{number(end.ratio)}×",
                   f"{number(end.low)}× to {number(end.high)}×",
                   "How many times faster the card is, at the largest batch both have, with the 95 % interval.",
                   )  # fmt: skip


FORM_FIELD = CardField(lambda: st.session_state.get(KEY), lambda: choose(folded=False), explain)
"""The field as part of the form of a sweep."""
