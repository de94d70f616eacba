"""Shared behaviour of every kind of study's page: start, progress, failure, choice of the study."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Generic, TypeVar

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from core.base.numbers import counted, duration
from core.base.schema import UserError
from core.base.text import clean
from core.store import Summary, only_readable
from core.studies.kind import Kind, Task
from core.studies.progress import Snapshot
from core.studies.registry import example_id
from core.ui import frame, menu, news, registry, share
from core.ui.checks import Outcome
from core.ui.words import plain

UNDER_WAY = "no time left, finishing what was begun"
"""Shown while a measurement continues though its budget is used up."""
_CSS = """
.left { font-family: var(--st-font); font-size: 0.875rem; color: var(--st-text-color); white-space: nowrap; }
.left { font-variant-numeric: tabular-nums; }
"""
# words as core.base.numbers.duration writes them; a slightly late report never raises the time left again
_JS = """
const kept = new WeakMap()

function words(seconds) {
  const two = (whole, unit, rest, smaller) =>
    whole + " " + unit + (rest ? " " + String(rest).padStart(2, "0") + " " + smaller : "")
  if (seconds < 60) return seconds + " s"
  if (seconds < 3600) return two(Math.trunc(seconds / 60), "min", seconds % 60, "s")
  const minutes = Math.trunc(seconds / 60)
  return two(Math.trunc(minutes / 60), "h", minutes % 60, "min")
}

export default function (component) {
  const { data, parentElement } = component
  const now = performance.now()
  const before = kept.get(parentElement) || {}
  let end = now + 1000 * data.left_s
  if (before.of === data.of && end > before.end && end - before.end < 3000) end = before.end
  const state = { of: data.of, end: end }
  const show = () => {
    const place = parentElement.querySelector(".left")
    const seconds = Math.ceil((state.end - performance.now()) / 1000)
    const text = seconds > 0 ? data.before + words(seconds) + data.after : data.over
    if (place && place.textContent !== text) place.textContent = text
  }
  clearInterval(before.timer)
  show()
  state.timer = setInterval(show, 1000)
  kept.set(parentElement, state)
  return () => clearInterval(state.timer)
}
"""
HTML = '<span class="left"></span>'
_TICKER = st.components.v2.component("breakeven_ticker", html=HTML, css=_CSS, js=_JS)


def time_left(left_s: float, of: str, key: str, *, before: str = "at most ", after: str = " left") -> None:
    """Draw the seconds left, counting down, between two words; ``of`` distinguishes measurements."""
    data = {"left_s": round(left_s, 1), "of": of, "before": before, "after": after, "over": UNDER_WAY}
    _TICKER(data=data, key=key, width="content")


CANCEL_HELP = "Stops soon. What was measured until then is kept."
STOPPING = "Stopping; what was measured is kept."
EXAMPLE = "A finished example stands below."
SHOWN = "progress_shown"
P = TypeVar("P")
R = TypeVar("R")
Form = Callable[[str | None, Any], P | None]
"""Draws a form, given why nothing can be started now and the place of its button; returns its plan, or None."""


def busy_sentence() -> str | None:
    """Return why nothing can be started now, or None."""
    jobs = registry.engine().jobs
    running = jobs.snapshot()
    if running is not None and running.active:
        return f"{running.title} is being measured. Only one measurement runs at a time, so that none disturbs another."
    return jobs.busy_elsewhere()


def busy_notice(busy: str) -> None:
    """Show why nothing can be started now, beside the disabled button."""
    st.info(plain(busy), icon=":material/hourglass_top:")


def start(task: Task[P, Any], plan: P) -> bool:
    """Start a measurement; :func:`refusal` shows an error on the next script run."""
    registry.quieten()
    try:
        registry.engine().jobs.start(task, plan)
    except (UserError, OSError) as error:
        refuse(task, str(error))
        return False
    return True


def refuse(task: Task[Any, Any], problem: str) -> None:
    """Store why a measurement could not be started, for :func:`refusal` on the next script run."""
    st.session_state[f"{task.name}_refused"] = problem


def takes(budget_s: float) -> str:
    """Return the duration of a study that finishes its current round after the budget is used up."""
    return f"about {duration(budget_s)} and then to the end of its last round"


def refusal(task: Task[Any, Any]) -> None:
    """Show once why a measurement could not be started."""
    if problem := st.session_state.pop(f"{task.name}_refused", None):
        st.warning(plain(problem), icon=":material/hourglass_top:")


def why_ended(last: Snapshot, words: str) -> None:
    """Show why a measurement has no result: as an error, unless its user cancelled it."""
    say, icon = (st.info, "info") if last.cancelled else (st.error, "error")
    say(plain(words), icon=f":material/{icon}:")


def running(task: Task[Any, Any]) -> Snapshot | None:
    """Return the measurement of that kind that runs in this process, or None."""
    snapshot = registry.engine().jobs.snapshot(task.name)
    return snapshot if snapshot is not None and snapshot.active else None


def cancel() -> None:
    registry.engine().jobs.cancel()


def press(label: str, begin: Callable[[], Any], disabled: bool, **look: Any) -> None:
    """Draw a button that starts a measurement in the script run that handles the click.

    A callback would get the fields' values from when the button was drawn: before a change made just before the click.
    A read-only server has no such button.
    """
    if registry.read_only():
        return
    if st.button(plain(label), **{"type": "primary"} | look, disabled=disabled) and not disabled:
        begin()
        st.rerun()


def ask(
    task: Task[P, Any], label: str, icon: str, choose: Callable[[], P], begin: Callable[[P], Any]
) -> Snapshot | None:
    """Draw the choices and button of a short measurement, why it cannot be started, or its wait.

    Returns the last one of this process once it has ended, else None; a read-only server draws nothing.
    """
    if registry.read_only():
        return None
    last = registry.engine().jobs.snapshot(task.name)
    active = last is not None and last.active
    busy = None if active else busy_sentence()
    with st.container(horizontal=True, vertical_alignment="bottom"):
        plan = choose()
        press(label, partial(begin, plan), active or busy is not None, key=task.name, icon=icon)
    if busy:
        busy_notice(busy)
    refusal(task)
    if active:
        news.redrawn(f"wait-{task.name}", partial(_wait, task), pauses=False)  # then the page reruns
    return None if active else last


def _wait(task: Task[Any, Any]) -> None:
    snapshot = running(task)
    if snapshot is None:
        st.rerun()
        return
    st.progress(0.0, text=f"{plain(snapshot.title)}. Nothing else is measured meanwhile.")


MOST_SHOWN = 0.99
"""Maximum share of a running measurement's bar: only an ended one is full."""


def progress(task: Task[Any, Any], counts: Callable[[Snapshot], str] | None = None) -> None:
    """Show a running measurement in one line and a bar; rerun the page when it has ended.

    ``counts`` returns how much is done, shown after the current activity.
    """
    news.redrawn(f"progress-{task.name}", partial(_progress, task, counts))


def _progress(task: Task[Any, Any], counts: Callable[[Snapshot], str] | None) -> None:
    snapshot = running(task)
    if snapshot is None:
        st.rerun()
        return
    stopping = registry.engine().jobs.stopping
    with st.container(border=True, gap="xsmall"):
        with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
            st.markdown(f"**{plain(snapshot.title)}**", width="content")
            with st.container(horizontal=True, vertical_alignment="center", width="content"):
                if not stopping and snapshot.progress.remaining_s > 0:
                    time_left(snapshot.left_s, snapshot.id, f"left_{task.name}")
                st.button("Stopping" if stopping else "Cancel", icon=":material/stop_circle:", on_click=cancel,
                          key=f"cancel_{task.name}", disabled=stopping, help=CANCEL_HELP)  # fmt: skip
        text = STOPPING if stopping else doing(snapshot, "" if counts is None else counts(snapshot))
        st.progress(_share(snapshot), text=plain(text))


def doing(snapshot: Snapshot, counts: str = "") -> str:
    """Return a running measurement's activity, and how much is done."""
    activity = f"{snapshot.progress.activity}."
    return f"{activity} {counts}" if counts else activity


def _share(snapshot: Snapshot) -> float:
    """Return the used share of the time limit; never less than this session has shown before."""
    at, kept = snapshot.progress, st.session_state.get(SHOWN, ("", 0.0))
    before = kept[1] if kept[0] == snapshot.id else 0.0
    share = min(MOST_SHOWN, max(before, at.share(snapshot.left_s)))
    st.session_state[SHOWN] = (snapshot.id, share)
    return share


def choices_beside(label: str = "Choices") -> tuple[DeltaGenerator, DeltaGenerator]:
    """Return two places in one line: for a button with its plan, and for the folded fields that decide it."""
    row = st.container(horizontal=True, vertical_alignment="center")
    top = row.container(horizontal=True, vertical_alignment="center")
    return top, row.popover(plain(label), icon=":material/tune:")


def impossible(count: int) -> str:
    """Return how many choices of a form cannot be measured."""
    verb, each = ("is", "it") if count == 1 else ("are", "each")
    return f"{counted(count, 'choice')} below {verb} not possible yet; {each} says what is accepted."


class StudyPage(Generic[P, R]):
    """One page, or part of a page, about one kind.

    ``button`` is its start button's label. ``counts`` returns how much of a running study is done, ``choices`` the
    label of the fields that are folded beside a result. ``address`` is a study's query parameter.
    """

    def __init__(
        self,
        kind: Kind[P, R, Any],
        button: str,
        icon: str = ":material/play_arrow:",
        counts: Callable[[Snapshot], str] | None = None,
        choices: str = "Choices",
    ) -> None:
        self.kind, self.button, self._icon, self._counts = kind, button, icon, counts
        self._choices, self.address = choices, menu.address(kind.name)

    def start(self, plan: P) -> None:
        """Start a study; its result replaces the one in the address."""
        if start(self.kind, plan):
            st.query_params.pop(self.address, None)

    def start_button(
        self, plan: Any, busy: str | None, start: Callable[[Any], None] | None = None, **look: Any
    ) -> None:
        """Draw the start button, disabled without a plan or during a measurement; ``look`` as in :func:`st.button`.

        ``start`` makes the kind's plan from another one and starts it.
        """
        look = {"label": self.button, "icon": self._icon, "key": f"measure_{self.kind.name}"} | look
        press(begin=partial(start or self.start, plan), disabled=plan is None or busy is not None, **look)

    def form_button(
        self, outcome: Outcome[Any], busy: str | None, says: Callable[[Any], str],
        start: Callable[[Any], None] | None = None, **look: Any,
    ) -> None:  # fmt: skip
        """Draw the button above a form's fields, with what the plan ``says`` it measures, or the number of errors."""
        if registry.read_only():
            return
        plan = outcome.plan
        self.start_button(plan, busy, start, **look)
        if busy:
            busy_notice(busy)
        if plan is None:
            st.caption(f":material/error: {plain(impossible(len(outcome.errors)))}")
        else:
            st.caption(plain(says(plan)))
        self.refusal()

    def refusal(self) -> None:
        refusal(self.kind)

    def running(self) -> Snapshot | None:
        return running(self.kind)

    def progress(self) -> None:
        """Show the running study in one line; rerun the page when it has ended."""
        progress(self.kind, self._counts)

    def failure(self) -> None:
        """Show why the last study of this process has no result, if it has none."""
        last = registry.engine().jobs.snapshot(self.kind.name)
        if last is not None and not last.active and last.error:
            why_ended(last, f"{last.title}: {last.error}")
        if last is not None and not last.active and last.unwritten:
            self._unwritten(last)

    def _unwritten(self, last: Snapshot) -> None:
        """Show what the history lacks, with the study as a file while this process lives."""
        st.warning(plain(f"{last.title}: {last.unwritten}"), icon=":material/database_off:")
        if last.record is not None:
            share.json_button(f"{self.kind.name}-{last.id}-unwritten", partial(last.record.model_dump, mode="json"),
                              "Everything that was measured, to be imported later.")  # fmt: skip

    def load(self, study_id: str) -> R:
        """Return a study by id, the shipped example too. Raises UserError or OSError."""
        record: R = registry.load(self.kind.name, study_id)
        return record

    def readable(self, run_id: str | None = None) -> dict[str, R]:
        """Return the readable studies, newest first, of one run if given; unreadable ones are reported as warnings."""

        def say(why: str) -> None:
            st.warning(plain(why), icon=":material/search_off:")

        return only_readable(registry.studies(self.kind, run_id), lambda summary: self.load(summary.id), say)

    def shown(self, run_id: str | None = None) -> tuple[str, R] | None:
        """Return the study in the address, else the chosen or newest one, with its id; None if none can be read.

        Its id is put into the address, so that this reopens exactly this evidence; but not while a study runs, since
        the page then turns to that one's result.
        """
        requested = st.query_params.get(self.address)
        known = {summary.id: summary for summary in registry.studies(self.kind, run_id, requested)}
        if requested is not None and requested not in known:
            st.error(f"There is no such {self.kind.noun} here; it was deleted, or measured on another machine.",
                     icon=":material/search_off:")  # fmt: skip
            requested = None
            if st.context.is_embedded:
                return None
        study_id = self._chosen(known, requested)
        if study_id is None:
            return None
        try:
            record = self.load(study_id)
        except (UserError, OSError) as error:
            st.error(plain(str(error)), icon=":material/search_off:")
            return None
        if self.running() is None:
            st.query_params[self.address] = study_id
        return study_id, record

    def has_choice(self, run_id: str | None = None) -> bool:
        """Return whether :meth:`shown` offers several."""
        return len(registry.studies(self.kind, run_id, st.query_params.get(self.address))) > 1

    def _chosen(self, known: dict[str, Summary], requested: str | None) -> str | None:
        ids = list(known)
        if len(ids) < 2 or st.context.is_embedded:
            return requested or next(iter(ids), None)
        # the key changes with the newest study, so that a new one becomes the choice
        picked: str = st.selectbox(
            self.kind.title, ids, index=ids.index(requested or ids[0]), width=560,
            key=f"{self.kind.name}_study-{ids[0]}",
            format_func=lambda key: clean(_title(known[key])),
        )  # fmt: skip
        return picked

    def is_example(self, study_id: str) -> bool:
        """Return whether it is the shipped study."""
        return study_id == example_id(self.kind)

    def frame(
        self,
        question: str,
        form: Form[P],
        result: Callable[[str, R, DeltaGenerator], None],
        before: Callable[[P | None], None],
        so_far: Callable[[], None] | None = None,
        run_id: str | None = None,
        subject: str = "",
    ) -> None:
        """Draw a whole page: the heading, the controls for the next study, the result.

        ``question`` is the heading without a result, with ``subject`` below it; a result has its own in the place that
        it is given. Otherwise as in :meth:`flow`.
        """
        head = st.container()

        def ask() -> None:
            with head:
                frame.top(question, subject=subject)

        def answer(study_id: str, study: R) -> None:
            result(study_id, study, head)

        self.flow(form, answer, before, so_far, run_id=run_id, unanswered=ask)

    def flow(
        self,
        form: Form[P],
        result: Callable[[str, R], None],
        before: Callable[[P | None], None],
        so_far: Callable[[], None] | None = None,
        *,
        run_id: str | None = None,
        unanswered: Callable[[], None] | None = None,
    ) -> None:
        """Draw a page, or a part of one, with the study in full width below the controls for the next one.

        Args:
            form: Draws its button into the given place, and its fields where it is called.
            result: Draws a study by id and record.
            before: Explains a study and what the plan would measure.
            so_far: Draws what is known of the running study.
            run_id: The run that the studies belong to, if any.
            unanswered: Called first if no result is drawn.
        """
        left, right = frame.choice_and_form(self.has_choice(run_id))
        with left:
            shown = self.shown(run_id)
        if st.context.is_embedded:
            if shown is not None:
                result(*shown)
            return
        running = self.running() is not None
        if unanswered is not None and (running or shown is None):
            unanswered()
        if running:
            self.progress()
            if so_far is not None:
                so_far()
        else:
            self.failure()
        with right:
            self._measure(form, before, None if running else shown)
        if shown is not None and not running:
            result(*shown)

    def _measure(self, form: Form[P], before: Callable[[P | None], None], shown: tuple[str, R] | None) -> None:
        """Draw the next study's button and its fields, folded beside it if a study is ``shown``.

        An explanation stands beside them until this machine has a study of its own.
        """
        if registry.read_only():
            return
        top, choices = choices_beside(self._choices) if shown is not None else (st.container(), st.container())
        example = shown is not None and self.is_example(shown[0])
        explained = shown is None or example
        with choices:
            fields, about = st.columns(2, gap="large") if explained else (st.container(), st.container())
            with fields:
                plan = form(busy_sentence(), top)
            if explained:
                with about:
                    before(plan)
        if example:
            top.caption(EXAMPLE)


def _title(summary: Summary) -> str:
    return f"{summary.created_at.replace('T', ' ')[:16]} UTC, {summary.label}: {summary.name}"
