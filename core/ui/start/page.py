"""The first screen without a GPU: a measured CPU against a modelled card; one click measures this CPU."""

from __future__ import annotations

from functools import partial

import plotly.graph_objects as go
import streamlit as st

from core.base.schema import UserError
from core.figures.style import environment_line
from core.hardware.catalogue import GpuSpec
from core.hardware.compare import Against, compared_with
from core.hardware.start_figure import share_figure, share_words, steps_figure
from core.rounds.answer.answer import Answer
from core.rounds.answer.best_cpu import choice_line, cpu_targets
from core.rounds.run import Run
from core.rounds.show.figures import workload_line
from core.studies.sweep.kind import SWEEP
from core.ui import charts, frame, machine, navigation, neighbours, news, registry, share, verdict
from core.ui.card import label_badge, result_card
from core.ui.hardware import compiled, look, modelled
from core.ui.navigation import link
from core.ui.sweep import live
from core.ui.words import plain

QUESTION = "From which batch size would a GPU beat this CPU?"
BUTTON = "Measure this CPU"
EXAMPLE = "A finished example of another machine:"
GPU_EXAMPLE = "example-gpu"
FIELD_PX = 340
COMPILED_AT = 32
"""Batch size at which the card's compiler is quoted."""
WROTE = "start_run"
PROPOSED = "to measure this CPU"


def show() -> None:
    """Show the question, choice of the card, button, answer, pictures, and links onward."""
    here, head = machine.devices(), st.container()
    if here.notes:
        machine.gpu_notice(here, PROPOSED)
    live.stopped()
    run = subject()
    if run is None:
        head.title(QUESTION, anchor=False)
        st.info("Nothing was measured yet, and the example cannot be read.", icon=":material/speed:")
        link("sweep")
        return
    running = live.PAGE.running() is not None
    with st.container(horizontal=True, vertical_alignment="bottom"):
        spec = modelled.pick(FIELD_PX)
        if not running:
            assert run.plan is not None
            look.propose(run.plan.workload, BUTTON)
    with head:
        frame.top(QUESTION, None if running else partial(_share, run, spec))
    if running:
        live.PAGE.progress()
        news.redrawn("start", partial(_so_far, run, spec), changes=False)
    else:
        neighbours.warn()
        live.PAGE.refusal()
        live.PAGE.failure()
        result(run, registry.answer_of(run), spec)
    _links(run, spec)
    if not here.notes:
        machine.gpu_notice(here, PROPOSED)


def subject() -> Run | None:
    """Return the run that the address names, else the newest own one with a CPU to compare, else the example.

    None if all are missing. An address that this session wrote itself gives way to what was measured since.
    """
    named = st.query_params.get("run", "")
    if named and named != st.session_state.get(WROTE):
        try:
            run = registry.find_run(named)
            if _has_cpu(run, registry.answer_of(run)):
                return run
            st.info(f"Run {plain(named)} has no step of a CPU to compare a card with.", icon=":material/info:")
        except UserError as error:
            st.info(plain(str(error)), icon=":material/search_off:")
    newest = registry.newest_own(lambda run: _has_cpu(run, registry.answer_of(run))) or registry.example()
    st.session_state[WROTE] = "" if newest is None else newest.id
    navigation.put(run=st.session_state[WROTE])
    return newest


def _share(run: Run, spec: GpuSpec) -> None:
    def compared() -> tuple[Answer, Against]:
        answer = registry.answer_of(run)
        assert answer is not None
        return answer, modelled.compared_card(run, answer, spec)[0]

    def figure() -> go.Figure:
        answer, comparison = compared()
        return steps_figure(run, answer, compared_with(run, answer), comparison)

    share.run_panel(run, figure, lambda: compared()[1].crossover.sentence, **modelled.address())


def _has_cpu(run: Run, answer: Answer | None) -> bool:
    try:
        return answer is not None and compared_with(run, answer) >= 0
    except ValueError:
        return False


def _so_far(before: Run, spec: GpuSpec) -> None:
    """Show the result of the rounds so far; the earlier one until they suffice."""
    snapshot = registry.engine().jobs.snapshot(SWEEP.name)
    if snapshot is not None and snapshot.active and _has_cpu(snapshot.record, snapshot.answer):
        result(snapshot.record, snapshot.answer, spec, "Estimate so far")
    else:
        st.caption(live.STARTING)
        result(before, registry.answer_of(before), spec)


def result(run: Run, answer: Answer | None, spec: GpuSpec, heading: str = "") -> None:
    """Show the answer as a sentence, and its two pictures side by side."""
    if answer is None:
        return
    modelled.not_modelled_notice(run)
    comparison, note = modelled.compared_card(run, answer, spec)
    badges = [label_badge("modelled", "GPU"), label_badge(run.label, "CPU"), *verdict.machine_badges(answer)]
    mine = "Your newest run" if run.id == st.session_state.get(WROTE) else "Your run"
    of = EXAMPLE if run.label == "recorded" else f"{mine}, {run.name}:"
    choice = "" if len(cpu_targets(run, answer)) > 1 else choice_line(run, answer)  # the sentence names the best
    of_run = f"{of} {workload_line(run)} · {environment_line(run)}"
    said = compiled.line(comparison.how.workload, comparison.how.target.precision, spec, COMPILED_AT)
    about = list(filter(None, (comparison.named, choice, share_words(comparison), said, of_run, note)))
    ask = partial(compiled.offer, comparison.how.workload, comparison.how.target.precision, spec)
    below = ask if not said and run.status != "running" else None
    result_card(heading or spec.title, badges, comparison.crossover.sentence, about, status=run.status, below=below)
    _pictures(run, answer, comparison)


def _pictures(run: Run, answer: Answer, comparison: Against) -> None:
    index, sentence = compared_with(run, answer), comparison.crossover.sentence
    # pictures of a running sweep are never drawn twice, so none is cached
    key = () if run.status == "running" else (registry.revision(run), repr(comparison))
    in_card = sentence, f"{workload_line(run)}.", environment_line(run)
    with st.grid(2, min_column_width=560, gap="medium"):
        charts.show(
            "start-steps", partial(steps_figure, run, answer, index, comparison),
            f"Step time by batch size of the CPU of {run.name} and a modelled GPU. {sentence}", f"{run.id}-first", key,
            omit=in_card,
        )  # fmt: skip
        if any(point.label == "modelled" for point in comparison.curve.stretch):
            charts.show(
                "start-share", partial(share_figure, run, comparison),
                f"Overhead share of {comparison.spec.name} by batch size, modelled, without an interval.",
                f"{run.id}-share", key, omit=in_card,
            )  # fmt: skip


def _links(run: Run, spec: GpuSpec) -> None:
    with st.container(horizontal=True):
        link("sweep", "Choose network, targets, batch sizes and budget")
        link("hardware", "All cards against this CPU", run=run.id, gpus=spec.name)
        link("crossover", run=run.id, gpu=spec.name)
        link("crossover", "A GPU that was measured: NVIDIA H200", run=GPU_EXAMPLE)
