"""A comparison of two to six runs named in the address: their differences, one picture, one table."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from operator import itemgetter

import streamlit as st

from core.base.schema import UserError
from core.rounds.answer.answer import Answer
from core.rounds.answer.comparison import MAX_COMPARED, Row, common_batches, comparison_rows, differences, stated
from core.rounds.run import Run
from core.rounds.show.compare_figures import comparison_figure
from core.ui import charts, downloads, frame, registry, share
from core.ui.card import label_badge, result_card
from core.ui.navigation import link, put
from core.ui.tables import static_table
from core.ui.words import plain

ADDRESS, AT = "compare", "at"
COLUMNS = ("", "Run", "Machine", "Measured", "Targets", "Verdict")


def asked() -> tuple[str, ...]:
    """Return the ids in the address, each once; empty if nothing is compared."""
    return tuple(dict.fromkeys(part for part in st.query_params.get(ADDRESS, "").split(",") if part))


def ask(ids: Sequence[str]) -> None:
    """Put the ids to compare into the address."""
    st.query_params[ADDRESS] = ",".join(ids)


def show() -> None:
    """Show the comparison in the address, with a link back to all studies."""
    ids = asked()
    runs = [run for run in map(_load, ids[:MAX_COMPARED]) if run is not None]
    if len(ids) > MAX_COMPARED:
        st.warning(f"Only the first {MAX_COMPARED} of {len(ids)} runs are compared.", icon=":material/warning:")
    if len(runs) < 2:
        st.title("Comparison", anchor=False)
        st.info("Fewer than two of these runs can be compared.", icon=":material/difference:")
        if not st.context.is_embedded:
            _back()
        return
    answers = [answer for answer in map(registry.answer_of, runs) if answer is not None]
    rows, batch = comparison_rows(runs, answers), _batch(answers)
    frame.show(
        f"{len(runs)} runs compared",
        partial(_verdict, runs, answers, batch),
        partial(_picture, runs, answers, rows),
        notes=partial(_table, runs, rows),
        share=partial(_share, runs, answers, rows, batch),
    )


def _back() -> None:
    st.button("All studies", icon=":material/arrow_back:", type="tertiary", key="all_studies", on_click=_leave)


def _leave() -> None:
    put(**{ADDRESS: "", AT: ""})


def _load(run_id: str) -> Run | None:
    """Return the run; if there is nothing to compare, say why and return None."""
    try:
        run = registry.find_run(run_id)
    except UserError as error:
        st.error(plain(str(error)), icon=":material/error:")
        return None
    if not run.rounds:
        st.warning(f"“{plain(run.name)}” has no rounds, so there is nothing to compare.", icon=":material/warning:")
        return None
    return run


def _batch(answers: Sequence[Answer]) -> int | None:
    """Return the batch of the address that all runs share; None for the crossover or the whole curve."""
    named = st.query_params.get(AT, "")
    return next((batch for batch in common_batches(answers) if str(batch) == named), None)


def _choose(answers: Sequence[Answer], batch: int | None) -> None:
    """Draw the choice of a batch, and put it into the address."""
    options = [None, *common_batches(answers)]
    st.selectbox(
        "Compare at", options, index=options.index(batch), key="compare_at", width=240,
        format_func=lambda size: "crossover or whole curve" if size is None else f"batch {size:,}",
        on_change=lambda: put(**{AT: str(st.session_state["compare_at"] or "")}),
    )  # fmt: skip


def _verdict(runs: Sequence[Run], answers: Sequence[Answer], batch: int | None) -> None:
    if not st.context.is_embedded and len(common_batches(answers)) > 1:
        _choose(answers, batch)
    first, *more = stated(runs, answers, batch)
    badges = [label_badge(label) for label in dict.fromkeys(run.label for run in runs)]
    result_card("Difference", badges, first, differences(runs) or ("Same network, targets, machine and pipeline.",),
                more=more)  # fmt: skip


def _picture(runs: Sequence[Run], answers: Sequence[Answer], rows: Sequence[Row]) -> None:
    verdicts = " ".join(f"{row.letter}: {row.verdict}" for row in rows)
    alt = f"{len(runs)} runs compared. {verdicts}"
    charts.show("compare", partial(comparison_figure, runs, answers), alt, "comparison", border=False)


def _share(runs: Sequence[Run], answers: Sequence[Answer], rows: Sequence[Row], batch: int | None) -> None:
    """Draw the share panel: the link with the runs, the picture, and the comparison as JSON."""
    data = {
        "difference": stated(runs, answers, batch),
        "runs": [row._asdict() | {"id": run.id} for row, run in zip(rows, runs, strict=True)],
    }
    files = downloads.study_files(
        "comparison", lambda: data, figure=partial(comparison_figure, runs, answers), rows=itemgetter("runs"),
        meaning="What the runs say and by how much they differ; each run's own file holds its rounds.",
    )  # fmt: skip
    at = {} if batch is None else {AT: str(batch)}
    share.panel("comparison", {ADDRESS: ",".join(run.id for run in runs)} | at, files)


def _table(runs: Sequence[Run], rows: Sequence[Row]) -> None:
    static_table(rows, COLUMNS)
    if st.context.is_embedded:
        return
    with st.container(horizontal=True):
        _back()
        for row, run in zip(rows, runs, strict=True):
            link("crossover", f"Open {row.letter}", run=run.id)
