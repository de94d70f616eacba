"""The self-check on the Method page: one button, progress, the checks in a table, and the file for an issue report."""

from __future__ import annotations

from functools import partial

import streamlit as st

from core.studies.selfcheck.checks import WORDS, run_checks
from core.studies.selfcheck.export import floor_lines, self_check_data, summary
from core.studies.selfcheck.record import HOLDS, LACKS, SelfCheck
from core.studies.selfcheck.run import SELF_CHECK, SelfCheckPlan
from core.ui import machine, share
from core.ui.method_text import SELF_CHECK as CHECKED
from core.ui.study_page import ask, progress, running, start, why_ended
from core.ui.tables import static_table
from core.ui.words import plain


def show() -> None:
    """Show its purpose, its button or progress, and the last one of this process."""
    st.markdown(
        "Checks within two minutes what every number here rests on. Each check **holds**, **fails** or "
        "**cannot be seen here**. It is what to send with a report."
    )
    with st.expander("What is checked, and within which bounds"):
        st.markdown(CHECKED)
    if running(SELF_CHECK) is not None:
        progress(SELF_CHECK)
        return
    last = ask(SELF_CHECK, "Check this machine", ":material/fact_check:", _plan, partial(start, SELF_CHECK))
    if last is not None and last.error:
        why_ended(last, last.error)
    elif last is not None:
        result(last.id, last.record)


def _plan() -> SelfCheckPlan:
    return SelfCheckPlan(machine.choose_target("selfcheck_target", width=320))


def result(check_id: str, record: SelfCheck) -> None:
    """Show the checks, failures first in words, the host's own cost, and the file."""
    checks = run_checks(record)
    st.header(plain(summary(record, checks)), anchor=False)
    for check in checks:
        if check.status == "fails":
            st.error(plain(f"{check.title}: {check.sentence}"), icon=":material/error:")
    rows, sentences = [], set()
    for check in checks:
        again = check.status == "unseen" and check.sentence in sentences
        sentences.add(check.sentence)
        rows.append(
            {
                "Check": check.title,
                "Result": WORDS[check.status],
                "Figure (measured)": check.figure,
                "What it says": "For the same reason as above." if again else check.sentence,
            }
        )
    static_table(rows)
    for line in (*record.notes, *floor_lines(record)):
        st.caption(plain(line))
    share.json_button(f"selfcheck-{check_id}", partial(self_check_data, record, checks), "What an issue report needs.")
    st.caption(plain(f"The file holds {'; '.join(HOLDS)}. {LACKS}"))
