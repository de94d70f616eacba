"""The History page: every study kept here; search, tag, open, compare, rename, delete with undo, import, export."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import streamlit as st

from core.base.numbers import counted
from core.base.schema import UserError
from core.base.text import clean, sentence_case
from core.rounds.answer.comparison import MAX_COMPARED
from core.rounds.run import Run
from core.rounds.show.imports import MAX_BYTES, check_size, read_run
from core.store import Deletion, Found, Imported, StoreError, Summary, Wanted, kept_until
from core.studies.registry import kinds, read_any
from core.studies.sweep.kind import SWEEP
from core.ui import downloads, frame, registry, verdict
from core.ui.history import comparison, stored
from core.ui.navigation import link
from core.ui.study_page import busy_sentence
from core.ui.sweep.live import can_resume, resume
from core.ui.tables import cleaned, history_table
from core.ui.words import plain

AT_TOP = timedelta(hours=1)
SHOWN = 30  # deletions
FAILED = "undo_failed"


def newest() -> None:
    """Show the newest deletion above the list, if it is recent."""
    if problem := st.session_state.pop(FAILED, None):
        st.error(plain(problem), icon=":material/error:")
    for deletion in _deletions()[:1]:
        if _is_new(deletion):
            with st.container(horizontal=True, vertical_alignment="center"):
                st.markdown(plain(f"Deleted {_what(deletion)}. {_until(deletion)}"), width="content")
                _button(deletion, "Undo")


def earlier() -> None:
    """List all earlier deletions, folded."""
    deletions = _deletions()
    if deletions and _is_new(deletions[0]):
        deletions = deletions[1:]
    if deletions:
        with st.expander("Deleted earlier", icon=":material/delete_history:"):
            for deletion in deletions:
                with st.container(horizontal=True, vertical_alignment="center"):
                    day = deletion.at[:16].replace("T", " ")
                    st.markdown(plain(f"{_what(deletion)}, {day} UTC. {_until(deletion)}"), width="content")
                    _button(deletion, "Bring back")


def _deletions() -> tuple[Deletion, ...]:
    return () if registry.read_only() else registry.engine().store.deletions(SHOWN)


def _is_new(deletion: Deletion) -> bool:
    try:
        return datetime.now(UTC) - datetime.fromisoformat(deletion.at) < AT_TOP
    except (ValueError, TypeError):
        return False


def _what(deletion: Deletion) -> str:
    return f"“{deletion.name}”" if deletion.studies == 1 else counted(deletion.studies, "study", "studies")


def _until(deletion: Deletion) -> str:
    try:
        until = kept_until(deletion.at)
    except (ValueError, TypeError):
        return ""
    return f"It can be brought back until {until.day} {until:%B %Y}."


def _button(deletion: Deletion, words: str) -> None:
    key = "undo" if words == "Undo" else f"bring-back-{deletion.at}"
    st.button(plain(words), icon=":material/undo:", key=key, on_click=_undo, args=(deletion.at,))


def _undo(at: str) -> None:
    try:
        registry.engine().store.undo(at)
    except StoreError as error:
        st.session_state[FAILED] = str(error)


PAGE = 50  # rows
SHOWN_ROWS = 10
ALL_KINDS, ALL_TAGS = "All kinds", "All tags"
FIND, KIND, TAG, NUMBER, FLEET = "find", "kind", "tag", "list", "fleet"
"""Address parameters of a list."""
MESSAGE, UPLOADS, RESUMED = "history_message", "upload_count", "resumed_sweep"


class _Selected(NamedTuple):
    """The selected rows, and whether changes are allowed."""

    summaries: list[Summary]
    changes: bool


def show() -> None:
    """Show the whole page: the list, or the comparison in its address."""
    if st.session_state.pop(RESUMED, False):
        st.switch_page("pages/sweep.py")  # it shows the sweep's progress, or why it was refused
    if len(comparison.asked()) > 1:
        comparison.show()
        return
    if st.context.is_embedded:
        st.info("Only a comparison has an embedded view; open this page by itself.", icon=":material/frame_inspect:")
        return
    changes = not registry.read_only()
    frame.top("History", _import if changes else None, "Import", ":material/upload_file:")
    _message()
    newest()
    registry.mark_interrupted()
    wanted = _wanted()
    rows, below = st.container(), st.container()
    listed = _page(wanted, below)
    with rows:
        for problem in listed.damaged:
            st.warning(plain(problem), icon=":material/error:")
        if listed.summaries:
            chosen = [listed.summaries[row] for row in _selected_rows(listed.summaries) if row < len(listed.summaries)]
        elif not listed.damaged:
            _nothing(wanted)
    with below:
        if listed.summaries:
            _actions(_Selected(chosen, changes))
        earlier()


def _wanted() -> Wanted:
    """Draw the search fields and return their query, which the address keeps."""
    tags = list(registry.engine().store.tags())
    names = {ALL_KINDS: None} | {kind.title: name for name, kind in sorted(kinds().items())}
    with st.container(horizontal=True, vertical_alignment="bottom"):
        words = st.text_input(
            "Search", key=FIND, bind="query-params", icon=":material/search:", on_change=_first_page, width=520,
            placeholder="Words of name, network, targets, machine, verdict or tag",
        )  # fmt: skip
        kind = st.selectbox("Kind", list(names), key=KIND, bind="query-params", width=165, on_change=_first_page)
        tag = ALL_TAGS
        if tags:
            tag = st.selectbox("Tag", [ALL_TAGS, *tags], key=TAG, bind="query-params", width=165,
                               format_func=lambda tag: clean(tag), on_change=_first_page)  # fmt: skip
    return Wanted(words=words[:200], kind=names.get(kind), tag=None if tag == ALL_TAGS else tag, part_of=_fleet())


def _fleet() -> str | None:
    """Return the fleet run whose machines' runs are listed (no other list has them); link to all studies."""
    fleet_id = st.query_params.get(FLEET)
    if not fleet_id:
        return None
    summary = registry.engine().store.summary(fleet_id)
    name = "a fleet run that is not here" if summary is None else f"“{summary.name}”"
    with st.container(horizontal=True, vertical_alignment="center"):
        st.markdown(plain(f"The runs of the machines of {name}."), width="content")
        st.button("All studies", icon=":material/arrow_back:", type="tertiary", key="out_of_fleet", on_click=_leave)
    return fleet_id


def _enter(fleet: str) -> None:
    st.query_params[FLEET] = fleet
    _first_page()


def _leave() -> None:
    st.query_params.pop(FLEET, None)
    _first_page()


def _first_page() -> None:
    st.session_state.pop(NUMBER, None)
    st.query_params.pop(NUMBER, None)


def _page(wanted: Wanted, below: st.delta_generator.DeltaGenerator) -> Found:
    """Return the requested page of the list, with its position and the pagination ``below`` the list."""
    store = registry.engine().store
    listed = store.find(wanted, PAGE)
    with below.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
        number = 1
        if listed.total > PAGE:
            slot = st.container(width="content")
            number = st.pagination(-(-listed.total // PAGE), key=NUMBER, bind="query-params", width=300)
            if number > 1:
                listed = store.find(wanted, PAGE, PAGE * (number - 1))
            first = PAGE * (number - 1)
            slot.caption(f"{first + 1:,} to {first + len(listed.summaries):,} of {listed.total:,}")
        if waiting := store.undescribed():
            later = "No verdict is kept yet of" if store.read_only else "Verdicts are being worked out of"
            st.caption(plain(f"{later} {counted(waiting, 'older study', 'older studies')}."))
    return listed


def _nothing(wanted: Wanted) -> None:
    if wanted != Wanted():
        st.info("No study here is like that. Fewer words find more.", icon=":material/search_off:")
        return
    st.info(
        "Nothing is kept here yet. Measure this machine on the Sweep page, or import a run from another machine.",
        icon=":material/inbox:",
    )
    if not registry.read_only():
        link("sweep")


def _selected_rows(summaries: tuple[Summary, ...]) -> list[int]:
    number, text = st.column_config.NumberColumn, st.column_config.TextColumn
    # the key changes with the list, so that a selection never moves to another run
    state = st.dataframe(
        cleaned(history_table(summaries, [stored.title_of(s) for s in summaries])), hide_index=True, on_select="rerun",
        selection_mode="multi-row",
        key=f"history-{hash(tuple(s.id for s in summaries))}", height=38 + 35 * min(SHOWN_ROWS, len(summaries)),
        alt="One row a study, newest first.", placeholder="",
        column_config={
            "verdict": text("Verdict", width=370), "network": text("Network", width=210),
            "targets": text("Targets", width=190), "name": text("Name", width=110),
            "machine": text("Machine", width=130),
            "created": st.column_config.DatetimeColumn("Measured (UTC)", format="YYYY-MM-DD HH:mm", width=130),
            "kind": text("Kind", width=110), "label": text("Label", width=80), "tags": text("Tags", width=90),
            "rounds": number("Rounds", format="localized", width=65),
        },
    )  # fmt: skip
    return list(state["selection"]["rows"])


def _actions(chosen: _Selected) -> None:
    """Draw the actions for the selected rows; for a single row also its summary."""
    if not chosen.summaries:
        words = "open, export, rename, tag or delete it" if chosen.changes else "open or export it"
        st.caption(f"Select a row to {words}; select two to {MAX_COMPARED} sweeps to compare them.")
    elif len(chosen.summaries) == 1:
        _single(chosen.summaries[0], chosen.changes)
    else:
        with st.container(horizontal=True, vertical_alignment="center"):
            comparable = len(chosen.summaries) <= MAX_COMPARED and all(s.kind == SWEEP.name for s in chosen.summaries)
            st.button(f"Compare {len(chosen.summaries)} runs" if comparable else "Compare", type="primary",
                      key="compare", icon=":material/difference:", disabled=not comparable,
                      on_click=comparison.ask, args=([s.id for s in chosen.summaries],))  # fmt: skip
            if chosen.changes:
                _tags(chosen.summaries)
                _delete_button(chosen.summaries)
        if not comparable:
            st.caption(f"{len(chosen.summaries)} rows selected; two to {MAX_COMPARED} sweeps can be compared.")


def _single(summary: Summary, changes: bool) -> None:
    run = _load(summary.id) if summary.kind == SWEEP.name else None
    place, body = st.container(horizontal=True, vertical_alignment="center"), st.container()
    with body:
        readable = run is not None or (summary.kind != SWEEP.name and stored.show(summary))
        if run is not None:
            verdict.card(run, registry.answer_of(run), heading=summary.name, notices_shown=0)
    with place:
        if readable:
            stored.link(summary)
        known = kinds().get(summary.kind)
        if known is not None and known.parts:
            st.button(plain(known.parts), icon=":material/dns:", key="into_fleet", on_click=_enter,
                      args=(summary.id,))  # fmt: skip
        if changes and can_resume(summary):
            st.button("Resume", icon=":material/restart_alt:", key="resume", on_click=_resume, args=(summary.id,),
                      disabled=busy_sentence() is not None)  # fmt: skip
        if changes:
            _rename_field(summary)
            _tags([summary])
        if readable:
            with st.popover("Export", icon=":material/download:"):
                if run is not None:
                    downloads.draw(run.id, downloads.run_files(run))
                else:
                    stored.file(summary)
        if changes:
            _delete_button([summary])


def _load(run_id: str) -> Run | None:
    try:
        return registry.find_run(run_id)
    except UserError as error:
        st.error(plain(str(error)), icon=":material/error:")
        return None


def _rename_field(summary: Summary) -> None:
    with st.popover("Rename", icon=":material/edit:"):
        st.text_input("New name", value=clean(summary.name), max_chars=200, key=f"name-{summary.id}")
        st.button("Save", key="save_name", on_click=_rename, args=(summary.id,), type="primary")


def _tags(chosen: Sequence[Summary]) -> None:
    """Draw the tags shared by the selected studies; changes apply to each of them."""
    shared = [tag for tag in chosen[0].tags if all(tag in summary.tags for summary in chosen)]
    key = f"tags-{hash(tuple(summary.id for summary in chosen))}"
    with st.popover("Tags", icon=":material/label:"):
        st.multiselect("Tags", list(dict.fromkeys([*shared, *registry.engine().store.tags()])), default=shared,
                       key=key, accept_new_options=True, format_func=lambda tag: clean(tag),
                       placeholder="Choose or type a tag",
                       help="What is tagged is never pruned.")  # fmt: skip
        ids = [summary.id for summary in chosen]
        st.button("Save", key="save_tags", on_click=_tag, args=(ids, shared, key), type="primary")


def _delete_button(chosen: Sequence[Summary]) -> None:
    words = "Delete" if len(chosen) == 1 else f"Delete {len(chosen)} rows"
    st.button(words, icon=":material/delete:", key="delete", on_click=_delete, args=([s.id for s in chosen],))


def _message() -> None:
    """Show the result of the last action, with a link to its study."""
    if message := st.session_state.pop(MESSAGE, None):
        kind, text, study_id = message
        (st.error if kind == "error" else st.success)(
            text, icon=f":material/{'error' if kind == 'error' else 'check'}:"
        )
        if study_id and (summary := registry.engine().store.summary(study_id)) is not None:
            stored.link(summary)


@contextmanager
def _errors_shown() -> Iterator[None]:
    try:
        yield
    except StoreError as error:
        _leave_message("error", str(error))


def _resume(run_id: str) -> None:
    resume(run_id)
    st.session_state[RESUMED] = True


def _rename(run_id: str) -> None:
    with _errors_shown():
        registry.engine().store.rename(run_id, st.session_state[f"name-{run_id}"])


def _tag(ids: Sequence[str], before: Sequence[str], key: str) -> None:
    now = st.session_state[key]
    with _errors_shown():
        registry.engine().store.tag(ids, add=set(now) - set(before), remove=set(before) - set(now))


def _delete(ids: Sequence[str]) -> None:
    with _errors_shown():
        registry.engine().store.delete(*ids)


def _leave_message(kind: str, text: str, study_id: str = "") -> None:
    """Let the next script run show a message, with a link to a study."""
    st.session_state[MESSAGE] = (kind, plain(text), study_id)


def _import() -> None:
    """Draw the upload field; a callback imports the file and empties the field, so that a rerun never imports twice."""
    count = st.session_state.get(UPLOADS, 0)
    st.file_uploader(
        "A run or study exported as JSON, or a CSV file with the columns target, batch, step_ms and, optionally, round",
        type=["json", "csv"], max_upload_size=MAX_BYTES // 1_000_000,
        key=f"upload-{count}", on_change=_take, args=(f"upload-{count}",),
    )  # fmt: skip


def _take(key: str) -> None:
    upload = st.session_state.get(key)
    if upload is None:
        return
    st.session_state[UPLOADS] = st.session_state.get(UPLOADS, 0) + 1
    try:
        check_size(upload.size)
        what, keep = _read(upload.getvalue(), upload.name)
        imported = keep()
    except UserError as error:
        _leave_message("error", f"Not imported. {error}")
        return
    summary = registry.engine().store.summary(imported.id)
    label = summary.label if summary is not None else "recorded"
    if imported.new:
        text = f"Imported {what}. It is kept as {label}, not as measured here."
    elif imported.restored:
        text = f"{sentence_case(what)} was here already and had been deleted; it is back."
    else:
        text = f"{sentence_case(what)} is already here, {label}; nothing was added."
    _leave_message("done", text, imported.id)


def _read(data: bytes, filename: str) -> tuple[str, Callable[[], Imported]]:
    """Return a description of the file's run or study, and the function that stores it."""
    store = registry.engine().store
    try:
        run = read_run(data, filename)
    except UserError as error:
        try:
            kind, record = read_any(data)
        except UserError:
            raise error from None
        if kind is not SWEEP:
            return f"the {kind.noun} “{record.title}”", lambda: store.import_study(kind.name, record)
        run = record
    return f"“{run.name}” with {counted(len(run.rounds), 'round')}", lambda: store.import_run(run)
