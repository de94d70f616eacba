"""The form of the Sweep page: network, batch sizes, prefetch, targets; all else folded; one button."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import streamlit as st

from core.base.numbers import byte_size, large
from core.hardware.compare import not_modelled
from core.machine.environment import available_memory_bytes
from core.networks.families import families
from core.rounds.plan import SweepPlan
from core.studies.sweep.kind import new_run
from core.studies.sweep.proposal import budget_words
from core.ui import machine
from core.ui.fields import PREFETCH, lengths_field, mode_fields
from core.ui.network_form import network_fields
from core.ui.places import KEEP, Places
from core.ui.sweep import settings
from core.ui.sweep.draft import RANGE, SweepOutcome, build, says
from core.ui.sweep.live import PAGE
from core.ui.sweep.settings import INPUT, INPUTS, PLAN
from core.ui.sweep.targets import OPEN, TargetRows
from core.ui.words import plain
from core.workload.cudnn import cudnn_note
from core.workload.execution import expected_words, place_words
from core.workload.memory import estimate_bytes
from core.workload.spec import MAX_BATCH, MIN_BATCH

ACTIVATION_BYTES = 4
PREFETCH_HELP = (
    "How a batch reaches the step. Resident: it lies on the device, so that the step alone is timed. Host array: NumPy "
    "hands it over in every step. tf.data: an input pipeline that prepares so many batches before they are asked for; "
    "its other settings are below."
)


class CardField(NamedTuple):
    """Field for a modelled card beside the sweep: the chosen card's name, the field, and its explanation of a plan."""

    name: Callable[[], str | None]
    choose: Callable[[], None]
    explain: Callable[[Any, SweepPlan | None], None]


def show(busy: str | None, card: CardField, top: Any = None) -> None:
    """Draw the whole form.

    Args:
        busy: A sentence why nothing can be started now, or None.
        card: The field for a modelled card.
        top: The place of the button, else above the fields.
    """
    here = machine.devices()
    top = top or st.container(gap="xsmall")
    settings.follow(here)
    wrong, places = Places(), [st.container() for _ in range(2)]
    changed = settings.differences()
    if name_of_card := card.name():
        changed.append(f"against a modelled {name_of_card}")
    targets_place = st.container()
    label = plain(f"More: {', '.join(changed) or 'as proposed'}")
    folded = st.expander(label, icon=":material/tune:", key="form_more")  # its key keeps it open when its label changes
    with folded:
        sizes_place = st.container()
    with places[0]:
        network = network_fields(wrong, sizes_place)
        about_network = st.empty()
    with places[1]:
        batches, prefetch = _batches(wrong)
    with folded:
        mode, optimizer = mode_fields("form", families()[network["family"]].trains)
        lengths = lengths_field(wrong, network["family"])
        more, name = _more(prefetch, wrong)
        card.choose()
        about_card = st.empty()
    missing = machine.missing_frameworks()
    with targets_place:
        targets = TargetRows(here, mode, wrong, missing, several=bool(lengths.strip()))
    recurrent = st.empty()
    inputs = {"targets": targets.chosen, "batches": batches, "mode": mode, "optimizer": optimizer, "lengths": lengths}
    inputs |= network | more
    outcome = build(inputs, available_memory_bytes(), machine.now().limited_words, missing)
    targets.finish(outcome.targets, outcome.workload)
    if outcome.workload is not None and (why := not_modelled(outcome.workload)) is not None:
        about_network.info(plain(why), icon=":material/visibility_off:")
    if outcome.plan is not None:
        if (note := cudnn_note(outcome.plan.workload, outcome.plan.targets)) is not None:
            recurrent.info(plain(note), icon=":material/speed:")
        settings.put_into_address(outcome.plan, name, here)
    card.explain(about_card, outcome.plan)
    machine.gpu_notice(here)
    _cost(outcome, here)
    wrong.fill(outcome.errors)
    with top:
        begin = lambda plan: PAGE.start(new_run(plan, name.strip() or None))  # noqa: E731
        PAGE.form_button(outcome, busy, says, begin)


def _batches(wrong: Places) -> tuple[tuple[Any, ...], str]:
    """Draw the batch sizes, and how a batch reaches the step; return both."""
    with st.grid(3, min_column_width=110, gap="small") as grid:
        if st.session_state.get("form_batch_kind", "range") == "list":
            with grid.cell(column_span=2):
                text = st.text_input(
                    "Batch sizes to measure", value="1, 8, 64, 512", key="form_batch_list", persist_state=KEEP,
                    max_chars=600, help=f"Whole numbers from {MIN_BATCH} to {MAX_BATCH:,}, separated by commas.",
                )  # fmt: skip
            chosen: tuple[Any, ...] = ("list", text)
        else:
            chosen = ("range", *(wrong.plan_field(field, "form") for field in RANGE))
        prefetch = st.selectbox(
            "Prefetch", list(INPUTS), format_func=INPUTS.__getitem__, key="form_prefetch", persist_state=KEEP,
            help=PREFETCH_HELP,
        )  # fmt: skip
    wrong.here("batches")
    wrong.here("memory")
    return chosen, prefetch


def _more(prefetch: str, wrong: Places) -> tuple[dict[str, Any], str]:
    """Draw the rarely changed fields: kind of batch sizes, tf.data, refinement, budget, widths, the run's name."""
    st.segmented_control(
        "Batch sizes", ["range", "list"], default="range", required=True, format_func=str.capitalize,
        key="form_batch_kind", persist_state=KEEP,
    )  # fmt: skip
    pipeline = _pipeline(prefetch, wrong)
    with st.grid(3, min_column_width=130, gap="small"):
        more = {"budget_s": wrong.plan_field(PLAN["budget_s"], "form", value=None)}
        for field in ("crossover_width", "step_width"):
            more[field] = wrong.plan_field(PLAN[field], "form")
    more["refine"] = wrong.plan_field(PLAN["refine"], "form")
    name = st.text_input("Name of the run (optional)", max_chars=200, key="form_name", persist_state=KEEP)
    return more | {"pipeline": pipeline}, name


def _pipeline(prefetch: str, wrong: Places) -> dict[str, Any]:
    """Draw the other options of a tf.data pipeline, if one is chosen; return the pipeline."""
    if prefetch not in PREFETCH:
        return {"kind": prefetch}
    values: dict[str, Any] = {"kind": "tfdata", "prefetch": PREFETCH[prefetch]}
    numbers, switches = st.grid(2, min_column_width=130, gap="small"), st.container(horizontal=True)
    for name, field in INPUT.items():
        if name != "prefetch":
            with switches if field.type is bool else numbers:
                values[name] = wrong.plan_field(field, "form")
    return values


def _cost(outcome: SweepOutcome, here: machine.Machine) -> None:
    """Show parameters, FLOPs and memory before the start."""
    work, plan = outcome.workload, outcome.plan
    if work is None:
        return
    facts = [
        f"{large(work.network.parameters)} parameters",
        f"{large(work.flops_per_sample)} FLOPs per sample",
        f"{byte_size(ACTIVATION_BYTES * work.network.activations)} of activations per sample",
    ]
    if plan is None:
        st.caption(plain(f"{', '.join(facts)}."))
        return
    total = max(estimate_bytes(work, target, plan.batches[-1]).total_bytes for target in plan.targets)
    facts.append(f"{byte_size(total)} of memory at batch {plan.batches[-1]:,} (modelled)")
    runs = [f"{place_words(t)}: {expected_words(work, t, here.has_tf32(t.device))}." for t in plan.targets]
    st.caption(
        plain(f"{', '.join(facts)}. {len(plan.batches)} batch sizes: {_listed(plan.batches)}."),
        help="FLOPs: a multiply-add counts 2. Activations: values that the layers output or make inside, in float32. "
        "Memory is computed, not measured: weights, gradients, optimizer, activations and data of the target that "
        "needs most. The framework itself adds about 0.6 GB for the worker process of each target.",
    )  # fmt: skip
    st.caption(("  \n" if len(runs) > OPEN else " ").join(map(plain, runs)))
    if words := budget_words(plan):
        st.caption(plain(words))


def _listed(batches: tuple[int, ...]) -> str:
    shown = [f"{b:,}" for b in batches]
    return ", ".join(shown if len(shown) <= 12 else [*shown[:5], "…", *shown[-4:]])
