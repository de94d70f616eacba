"""The part of the Hardware page with the compiler's facts of the chosen cards: kernels, memory, least time."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pandas as pd
import streamlit as st

from core.base.frameworks import Precision
from core.base.numbers import counted
from core.base.schema import UserError
from core.base.text import sentence_case
from core.hardware.catalogue import GpuSpec
from core.hardware.chip import can_be_compiled_for
from core.machine.installed import NO_COMPILER, why_missing
from core.studies.compiled.answer import CardStep, CompileAnswer, compile_answer
from core.studies.compiled.export import (
    AT_LEAST,
    COLUMNS,
    KERNEL_COLUMNS,
    NOT_TUNED,
    between_sentence,
    compile_data,
    fit_sentence,
    kernel_row,
    label_words,
    rows,
    sentence,
    tensorflow_sentence,
)
from core.studies.compiled.figures import kernels_figure
from core.studies.compiled.kind import COMPILED
from core.studies.compiled.record import PRECISIONS, CompilePlan, CompileStudy
from core.studies.compiled.run import CompileSearch
from core.studies.compiled.shipped import study_of
from core.ui import charts, registry, share
from core.ui.card import label_badge, result_card
from core.ui.hardware.page import Compared
from core.ui.study_page import StudyPage, busy_sentence, start
from core.ui.tables import cleaned
from core.ui.words import plain
from core.workload.spec import Workload

TITLE = "What the cards' compiler says"
BUTTON = "Compile for these cards"
PAGE = StudyPage(COMPILED, BUTTON, ":material/build:")
NOT_NVIDIA = "{cards} {verb} not NVIDIA's: no compiler of theirs was asked."
ALIKE = "The step is compiled as Keras with XLA runs it, with the data on the card."


def part(seen: Compared) -> dict[str, Callable[[], None]]:
    """Return this part of the page by its title; it is open if the address names a study."""
    if PAGE.address in st.query_params:
        st.session_state.setdefault(f"folded-{TITLE}", True)
    return {TITLE: partial(show, seen)}


def newest_first() -> tuple[CompileStudy, ...]:
    """Return the stored studies, newest first."""
    return tuple(PAGE.readable().values())


def line(workload: Workload, precision: Precision, spec: GpuSpec, batch: int) -> str:
    """Return one sentence about a card at the compiled batch size nearest to ``batch``; empty if none is known."""
    study = study_of(workload, precision, (spec.name,), newest_first())
    step = None if study is None else nearest(compile_answer(study), spec.name, batch)
    return (
        ""
        if study is None or step is None
        else f"{sentence_case(label_words(study))}: {sentence(step, modelled=False)}"
    )


def offer(workload: Workload, precision: Precision, spec: GpuSpec) -> None:
    """Draw the button that compiles a step for one card and opens the page that shows it; nothing if it cannot."""
    cannot = registry.read_only() or why_missing("jax") is not None or precision not in PRECISIONS
    if cannot or st.context.is_embedded or not can_be_compiled_for(spec):
        return
    busy = busy_sentence()
    label = plain(f"Ask the compiler of {spec.name}")
    pressed = st.button(
        label, icon=":material/build:", key="compile_card", disabled=busy is not None, help=plain(busy or "")
    )
    if pressed and busy is None:
        start(
            COMPILED, CompileSearch(CompilePlan(workload=workload, precision=precision, cards=(spec,)), newest_first())
        )
        st.switch_page("pages/hardware.py")


def nearest(answer: CompileAnswer, name: str, batch: int) -> CardStep | None:
    """Return the card's step at the compiled batch size with the smallest ratio to ``batch``."""
    steps = [step for card in answer.cards if card.spec.name == name for step in card.steps]
    return min(steps, key=lambda step: max(step.batch / batch, batch / step.batch), default=None)


def show(seen: Compared) -> None:
    """Show the study in the address, else that of the run's step and the chosen cards, with the button for more."""
    requested = st.query_params.get(PAGE.address)
    if requested is not None:
        shown = PAGE.shown()
        if shown is not None:
            _result(*shown, seen)
    else:
        workload, precision = seen.how.workload, _precision(seen)
        study = study_of(workload, precision, seen.options.gpus, newest_first())
        if study is not None:
            _result("", study, seen)
    if not st.context.is_embedded:
        _controls(seen)


def _precision(seen: Compared) -> Precision:
    return seen.options.target.precision if seen.options.target.precision in PRECISIONS else "float32"


def _result(study_id: str, study: CompileStudy, seen: Compared) -> None:
    try:
        answer = compile_answer(study)
    except UserError as error:
        st.info(plain(str(error)), icon=":material/info:")
        return
    here = {card.spec.name: card for card in answer.cards if card.steps}
    names = [name for name in seen.options.gpus if name in here] or list(here)
    steps = [step for name in names if (step := nearest(answer, name, seen.options.batch)) is not None]
    first, *others = [sentence(step) for step in steps]
    others += [words for name in names if (words := between_sentence(here[name], seen.options.batch))]
    fits = [fit for name in names if (fit := fit_sentence(here[name]))]
    badges = [label_badge("compiled")]
    result_card(TITLE, badges, first, [*others, tensorflow_sentence(steps[0]), *fits], status=study.status)
    step, key = steps[0], (study_id, study.created_at, steps[0].spec.name, steps[0].batch, study.plan.title)
    charts.show(
        "compiled", partial(kernels_figure, study, step), f"Kernels of one compiled step. {first}",
        f"compiled-{step.spec.name}", key, omit=(first,),
    )  # fmt: skip
    table = pd.DataFrame([row for row in rows(answer) if row[0] in names], columns=list(COLUMNS))
    st.dataframe(cleaned(table), hide_index=True)
    st.markdown(f"**{plain(f'Kernels of {step.spec.name} at batch {step.batch:,} that cost most')}**")
    kernels = pd.DataFrame([kernel_row(time) for time in step.costliest], columns=list(KERNEL_COLUMNS))
    st.dataframe(cleaned(kernels), hide_index=True)
    st.caption(plain(f"{sentence_case(label_words(study))}. {ALIKE} {NOT_TUNED} {AT_LEAST}"))
    share.json_button("compiled", partial(compile_data, study, answer), "Every kernel, by card and batch size.")


def _controls(seen: Compared) -> None:
    """Draw the button that compiles for the chosen cards, or say why not."""
    specs = [seen.cards[name] for name in seen.options.gpus]
    possible = [spec for spec in specs if can_be_compiled_for(spec)]
    if len(possible) < len(specs):
        others = [spec.name for spec in specs if spec not in possible]
        verb = "is" if len(others) == 1 else "are"
        st.caption(plain(NOT_NVIDIA.format(cards=", ".join(others), verb=verb)))
    if registry.read_only():
        return
    if why_missing("jax") is not None:
        st.caption(plain(NO_COMPILER))
        return
    plan = None
    if possible:
        plan = CompileSearch(
            CompilePlan(workload=seen.how.workload, precision=_precision(seen), cards=tuple(possible)), newest_first()
        )
        programs = counted(len(possible) * len(plan.plan.batches), "program")
        st.caption(plain(f"{programs} for {', '.join(spec.name for spec in possible)}; some 2 s each."))
    PAGE.start_button(plan, busy_sentence())
    PAGE.refusal()
