"""What the pages of studies (pipeline, diagnosis) share: the running study in numbers, and why the last one failed."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

from core.measure.progress import Progress
from core.measure.studies import StudySnapshot
from core.store.studies import StudyKind
from core.ui import registry
from core.ui.states import progress_words
from core.ui.verdict import plain


def running(kind: StudyKind) -> StudySnapshot | None:
    """The study of that kind that runs in this process, or None."""
    study = registry.engine().jobs.study_snapshot()
    return study if study is not None and study.kind == kind and study.active else None


def progress(kind: StudyKind, title: str, more: Callable[[Progress], None] | None = None) -> None:
    """The running study in numbers, ``more`` of them first; for a fragment with a timer, which ends with the study."""
    study = running(kind)
    if study is None:
        st.rerun()
        return
    at = study.progress
    with st.container(border=True):
        with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
            st.markdown(f"**{plain(title or study.description)}**", width="content")
            st.button("Cancel", icon=":material/stop_circle:", key=f"cancel_{kind}", on_click=_cancel,
                      help="Stops soon. What was measured until then is kept.")  # fmt: skip
        if at is None:
            st.progress(0.0, text="Starting")
            return
        share = min(1.0, at.elapsed_s / max(at.elapsed_s + at.remaining_s, 1e-9))
        st.progress(share, text=plain(at.activity))
        with st.container(horizontal=True):
            if more is not None:
                more(at)
            st.metric("Time left, at most", progress_words(at.remaining_s))
            st.metric("Elapsed", progress_words(at.elapsed_s))


def _cancel() -> None:
    registry.engine().jobs.cancel()


def error_of(kind: StudyKind) -> StudySnapshot | None:
    """The last study of this process if it is of that kind and failed."""
    study = registry.engine().jobs.study_snapshot()
    return study if study is not None and study.kind == kind and not study.active and study.error else None
