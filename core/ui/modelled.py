"""“Against a modelled GPU” beside the real targets: the choice, its own card under a verdict, its marks in charts.

What was measured stays as it is: the card of the modelled GPU stands beside the measured verdict, and exports of a run
hold nothing of it. The choice is the same on every page of a session and stands in the address as ``gpu``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import streamlit as st

from core.analysis.answer import Answer
from core.analysis.verdict import show
from core.figures.style import number
from core.hardware.against import Against, against, card_target, compared_with, is_fed
from core.hardware.catalogue import GpuSpec, UnknownGpu, find_gpu
from core.hardware.crossing import ModelledCrossover
from core.hardware.host import HostCosts, assumed_costs
from core.hardware.interval import Modelled
from core.hardware.recorded import Recording, card_curve
from core.results import Run
from core.spec import SweepPlan
from core.ui import hardware, machine, registry
from core.ui.hardware_choices import usual_options
from core.ui.verdict import LABEL_COLOURS, plain
from core.ui.words import LABEL_ICONS, LABELS

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
    """The choice among all cards, folded where a real GPU can be measured; it is kept in session and address."""
    known = hardware.cards()
    if problem := hardware.own_cards()[1]:
        st.warning(plain(problem), icon=":material/search_off:")
    _follow_address(known)
    if st.session_state.get(KEY, NONE) not in known:
        st.session_state.pop(KEY, None)
    opened = st.session_state.get(KEY) is not None
    place: Any = st.expander(TITLE, icon=":material/function:", expanded=opened) if folded else st.container()
    with place:
        name: str = st.selectbox(
            "Modelled GPU" if folded else f"**{TITLE}**", [NONE, *known], format_func=_option, key=KEY, help=HELP,
            persist_state="session", width=width,
        )  # fmt: skip
    _put(name)


def offer(run: Run) -> None:
    """The choice on the page of one run: only where a CPU can be compared, and none in a view without chrome."""
    targets = () if run.plan is None else run.plan.targets
    if st.context.is_embedded or all(target.is_gpu for target in targets):
        _follow_address(hardware.cards())
        return
    choose(folded=machine.devices().has_gpu or any(target.is_gpu for target in targets), width=WIDTH_PX)


def _option(name: str) -> str:
    return f"{name} (modelled, runs no worker)" if name else "None"


def _follow_address(known: Mapping[str, GpuSpec]) -> None:
    """Take a card that an address names, unless the address is what this session put there itself."""
    asked = st.query_params.get(QUERY)
    if asked is None or asked == st.session_state.get(PUT):
        return
    try:
        st.session_state[KEY] = find_gpu(asked, known).name
    except UnknownGpu as error:
        st.info(plain(str(error)), icon=":material/search_off:")


def _put(name: str) -> None:
    st.session_state[PUT] = name
    if name:
        st.query_params[QUERY] = name
    else:
        st.query_params.pop(QUERY, None)


def address() -> dict[str, str]:
    """What a link to a run must hold besides its id, so that it shows the same card."""
    name = st.session_state.get(KEY)
    return {QUERY: name} if name else {}


def chosen(known: Mapping[str, GpuSpec]) -> GpuSpec | None:
    """The card that is set against what was measured, or None."""
    return known.get(st.session_state.get(KEY, NONE))


def tell(place: Any, plan: SweepPlan | None) -> None:
    """Under the choice in the form: what choosing it means for the sweep that is planned, or why it means nothing."""
    spec = chosen(hardware.cards()) if st.session_state.get(KEY) else None
    if spec is None or plan is None:
        return
    cpu = next((target for target in plan.targets if not target.is_gpu), None)
    if cpu is None:
        place.info("Neither target is a CPU, so this sweep leaves the modelled GPU out.", icon=":material/info:")
        return
    ends = sorted({plan.batches[0], plan.batches[len(plan.batches) // 2], plan.batches[-1]})
    curve = card_curve(spec, plan.workload, card_target(cpu), ends, assumed_costs(cpu.execution), is_fed(plan))
    if not curve.known:
        place.info(plain(f"{spec.name} gets no number for this workload: {curve.reason}"), icon=":material/function:")
        return
    first, second = plan.target_names
    words = f"{spec.name} is modelled and runs no worker. The sweep measures {first} and {second} alone."
    place.caption(f":material/function: {plain(words)}")


def shown(run: Run, answer: Answer | None) -> Against | None:
    """The chosen card's own card on the page, or the reason why there is none; None where no chart can show it."""
    if not st.session_state.get(KEY) or answer is None:
        return None
    known = hardware.cards()
    spec = chosen(known)
    if spec is None:
        return None
    try:
        found, note = of(run, answer, spec, known)
    except ValueError as error:
        st.info(plain(f"{spec.name}, modelled: {error}"), icon=":material/function:")
        return None
    _card(run, found, note)
    return found if found.curve.stretch else None


def of(run: Run, answer: Answer, spec: GpuSpec, known: Mapping[str, GpuSpec]) -> tuple[Against, str]:
    """The card against a run, with the host and the recordings that the Hardware page takes, and a note on the host.

    Raises ValueError with a sentence where nothing can be compared.
    """
    index = compared_with(run, answer)
    host = hardware.host(run, usual_options(run, answer, index, known))
    note = hardware.NOT_THIS_HOST if hardware.other_machine(run, host) else ""
    # looking through other runs would take time from one that is being measured
    recorded = () if run.status == "running" else hardware.recordings(run, known)
    key = (spec.model_dump_json(), repr(host.costs), tuple((one.run_id, one.gpu) for one in recorded))
    return _against(registry.revision(run), index, repr(key), (run, answer, spec, host.costs, recorded)), note


@st.cache_resource(max_entries=24, show_spinner=False)
def _against(
    revision: registry.Revision,  # noqa: ARG001  # the keys of the cache
    index: int,
    key: str,  # noqa: ARG001
    _parts: tuple[Run, Answer, GpuSpec, HostCosts, tuple[Recording, ...]],
) -> Against:
    run, answer, spec, costs, recorded = _parts
    return against(run, answer, index, spec, costs, recorded)


def _card(run: Run, found: Against, note: str) -> None:
    """Sentence, numbers, and what they rest on; every number says modelled."""
    with st.container(border=True):
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            st.markdown(f"**{TITLE}**", width="content")
            st.badge("modelled", icon=LABEL_ICONS["modelled"], color=LABEL_COLOURS["modelled"], help=LABELS["modelled"])
        st.subheader(f"{plain(found.crossover.sentence)} No worker ran for it.", anchor=False)
        others = [other.sentence for other in found.crossovers[1:] if other.kind != "withheld"]
        st.caption("  \n".join(plain(line) for line in [*others, *_rests_on(found), note] if line))
        _numbers(found)
        if not st.context.is_embedded and run.status != "running":
            st.page_link(
                "pages/hardware.py", label="All cards against this CPU, what limits them, the host's overhead",
                icon=":material/memory:", query_params={"run": run.id, "gpus": found.spec.name},
            )  # fmt: skip


def _rests_on(found: Against) -> list[str]:
    """What was modelled, and what its interval holds."""
    if not found.curve.known:
        return []
    data = "each batch over the link" if found.fed else "data resident on the card"
    basis = next((point.basis for point in found.curve.known if isinstance(point, Modelled)), None)
    about = f"{found.spec.title} as {found.target}, {data}; the host's overhead is {found.costs.label}."
    return [about] if basis is None else [about, f"Interval: {basis}, and the measured noise of {found.crossover.cpu}."]


def _numbers(found: Against) -> None:
    crossover, end = found.crossover, found.at_end
    with st.container(horizontal=True):
        if crossover.kind == "from" and crossover.batch is not None:
            st.metric(
                "Crossover (modelled)", f"batch {show(crossover.batch)}", delta=_bounds(crossover), delta_color="off",
                delta_arrow="off", help="From there on the card is ahead, with the 95 % interval of model and noise.",
            )  # fmt: skip
        if end is not None:
            st.metric(
                f"Speed-up over {crossover.cpu} at batch {end.batch:,} (modelled)", f"{number(end.ratio)}×",
                delta_color="off", delta=f"{number(end.low)}× to {number(end.high)}×", delta_arrow="off",
                help="How many times faster the card is, at the largest batch both have, with the 95 % interval.",
            )  # fmt: skip


def _bounds(crossover: ModelledCrossover) -> str:
    low = f"{crossover.first:,} or less" if crossover.low is None else show(crossover.low)
    return f"{low} to {show(crossover.high)}" if crossover.high is not None else f"{low} or more"
