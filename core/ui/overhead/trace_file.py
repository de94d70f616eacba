"""A profiler's trace file on the Overhead page: the field that opens one, and the views of a trace taken here."""

from __future__ import annotations

import hashlib
import re
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath

import streamlit as st

from core.base.numbers import byte_size, number
from core.base.text import clean
from core.rounds.run import Run
from core.rounds.show.trace_figures import FROM_FILE, trace_steps_figure
from core.traces.events import TraceError
from core.traces.reading import read_report
from core.traces.record import STEPS_FROM, FileTrace, TraceReport
from core.ui import charts, evidence, frame
from core.ui.card import Badge, label_badge, result_card
from core.ui.overhead import page, words
from core.ui.tables import cleaned
from core.ui.words import plain

OPEN = "Open a trace file"
MAX_UPLOAD_MB = 32
MAX_BYTES = MAX_UPLOAD_MB * 2**20  # the field's own limit is checked in the browser only
ACCEPTED = (
    "A trace of TensorFlow's or JAX's profiler (*.xplane.pb), or one of PyTorch's (*.json or *.json.gz, by "
    "export_chrome_trace). It is read here and not kept. In a terminal, “trace FILE” reads larger ones."
)
OPENED, PROBLEM, UPLOADS = "trace_file", "trace_file_problem", "trace_file_uploads"


@dataclass(frozen=True)
class Opened:
    """A trace file that this session has opened; ``key`` distinguishes its content."""

    name: str
    key: str
    report: TraceReport


def opened() -> Opened | None:
    """Return the file to show: the session's, unless the address asks for a run."""
    if "run" in st.query_params:
        st.session_state.pop(OPENED, None)
    return st.session_state.get(OPENED)


def upload() -> None:
    """Draw the upload field, and why the last file could not be read."""
    st.caption(plain(ACCEPTED))
    count = st.session_state.get(UPLOADS, 0)
    st.file_uploader(
        OPEN, type=["pb", "json", "gz"], max_upload_size=MAX_UPLOAD_MB, key=f"trace-upload-{count}",
        on_change=_take, args=(f"trace-upload-{count}",),
    )  # fmt: skip
    if problem := st.session_state.pop(PROBLEM, None):
        st.error(plain(problem), icon=":material/error:")


def _take(key: str) -> None:
    """Read the uploaded file and empty the field, so that a rerun never reads it twice."""
    file = st.session_state.get(key)
    if file is None:
        return
    st.session_state[UPLOADS] = st.session_state.get(UPLOADS, 0) + 1
    try:
        st.session_state[OPENED] = read(file.name, file.getvalue())
    except TraceError as error:
        st.session_state[PROBLEM] = str(error)
        return
    for name in ("run", "target", "batch"):
        st.query_params.pop(name, None)
    st.session_state[f"folded-{OPEN}"] = False
    st.toast(plain(f"{file.name} is open; it is shown at the top of this page."), icon=":material/upload_file:")


def read(name: str, data: bytes) -> Opened:
    """Return the content of an uploaded file, whose name is text from outside. Raises TraceError."""
    shown = re.sub(r"[^\w.() -]", "_", PurePosixPath(name.replace("\\", "/")).name)[-80:].lstrip(". ") or "trace"
    if len(data) > MAX_BYTES:
        raise TraceError(f"{shown} is larger than {byte_size(MAX_BYTES)}; use the command “trace FILE”.")
    with tempfile.TemporaryDirectory(prefix="breakeven-upload-") as folder:
        path = Path(folder, shown)
        path.write_bytes(data)
        return Opened(shown, hashlib.sha256(data).hexdigest()[:12], read_report(path))


def show(file: Opened) -> None:
    """Show the whole page of a trace file."""
    head, index = st.container(), 0
    with st.container(horizontal=True, vertical_alignment="bottom"):
        if len(file.report.devices) > 1:
            index = st.selectbox(
                "Device", range(len(file.report.devices)), key=f"trace_device-{file.key}", width=240,
                format_func=lambda place: clean(file.report.devices[place].device),
            )  # fmt: skip
        st.button("Close the file", icon=":material/close:", key="close-trace", on_click=_close)
    view = _View(file, FileTrace.of(file.report, index), index)
    frame.show(file.name, view.verdict, view.picture, notes=view.notes, evidence=view.evidence(), head=head)


def _close() -> None:
    st.session_state.pop(OPENED, None)


class _View:
    """One device of the file, in the parts of a result."""

    def __init__(self, file: Opened, trace: FileTrace, index: int) -> None:
        self._file, self._trace = file, trace
        self._run = Run(  # what the views of a traced cell say of their run
            id=f"trace-{file.key}-{index}", name=file.name, created_at="", label="recorded", status="finished",
            target_names=(trace.device.device,),
        )  # fmt: skip

    def verdict(self) -> None:
        badges = [label_badge("recorded"), Badge("read from a file", ":material/upload_file:", "grey")]
        if not self._trace.trusted:
            badges.append(Badge("not to be trusted", ":material/warning:", "orange"))
        about = (f"{self._trace.device.device} in {self._file.name}. {FROM_FILE}",)
        result_card("Where a step goes", badges, words.headline(self._trace), about)

    def picture(self) -> None:
        alt = f"Parts of each traced step. {words.headline(self._trace)}"
        make = partial(trace_steps_figure, self._file.name, self._trace)
        charts.show("where-a-step-goes", make, alt, f"{self._run.id}-steps", (self._run.id,))

    def notes(self) -> None:
        page.notes(self._trace)

    def evidence(self) -> dict[str, Callable[[], None]]:
        run, trace = self._run, self._trace
        return {
            "One traced step": partial(page.timeline, run, trace),
            page.costly_title(trace): partial(page.kernels, run, trace),
            "On the host instead of the device": partial(page.host_operations, run, trace),
            "Parts of the mean step": self._parts,
            "How it was read": self._how_read,
            OPEN: upload,
        }

    def _parts(self) -> None:
        column = st.column_config.NumberColumn
        st.dataframe(
            cleaned(words.parts_table(self._trace)), hide_index=True, key="trace-parts",
            alt="One row for each part of the mean traced step: milliseconds and share.",
            column_config={
                "part": "Part",
                "ms": column("ms (recorded)", format="%.4g"),
                "share_pct": column("Of the step (%)", format="%.1f"),
            },
        )  # fmt: skip

    def _how_read(self) -> None:
        device = self._trace.device
        evidence.show_facts(
            (
                ("Steps", f"{len(device.steps):,}", "The mean, the kernels and the operations are of all of them."),
                ("Mean step, profiled", f"{number(device.mean().step_ms)} ms", "Recorded under the profiler."),
                ("Events lost", f"{self._trace.dropped_events:,}", "As the profiler itself reports."),
            )
        )
        st.caption(
            f"Steps: {STEPS_FROM[device.steps_from]}. How much the profiler slowed them is not in the file; it slows "
            "small ones most. A run traced here has the same steps without it beside them."
        )
