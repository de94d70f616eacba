"""*Share* beside a result: its link and whom it reaches, the view without menus, a button a file."""

import pytest
from streamlit.testing.v1 import AppTest

from tests.support.pages import PATIENCE_S, says
from tests.support.runs import make_run

pytestmark = pytest.mark.usefixtures("engine")


def page() -> None:
    """What a page of a run does, run by the test as a page of its own."""
    from functools import partial

    import streamlit as st

    from core.ui import frame, share
    from tests.support.runs import make_run

    run = make_run()
    frame.show("Title", lambda: st.write("v"), lambda: st.write("p"), share=partial(share.run_panel, run, gpu="L4"))


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("http://localhost:8501/crossover?run=x", "opens on this computer only"),
        ("http://team.example.com/crossover", "can reach team.example.com."),
    ],
)
def test_a_run_s_panel(url: str, said: str) -> None:
    at = AppTest.from_function(page, default_timeout=PATIENCE_S)
    at.context = {"url": url}
    at.run()
    assert not at.exception
    labels = [button.proto.label for button in at.get("download_button")]
    assert labels == ["PNG", "SVG", "Markdown", "Report (HTML)", "JSON", "Rounds (CSV)", "Step times (CSV)"]
    link, embedded = (code.value for code in at.code)
    assert link == f"{url.partition('?')[0]}?run={make_run().id}&gpu=L4"
    assert embedded == f"{link}&embed=true"
    says(at, said)
