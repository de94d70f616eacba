"""*Share* beside a result: its link and its reach, the view without menus, one button per file."""

from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from core.ui import downloads
from simulated.pages import PATIENCE_S, open_page, says
from simulated.runs import make_run
from tests.support.batch_page import kept
from tests.support.study_pages import keep

pytestmark = pytest.mark.usefixtures("this_machine")


def page() -> None:
    """Act as a page of a run; the test runs this as its own page."""
    from functools import partial

    import streamlit as st

    from core.ui import frame, share
    from simulated.runs import make_run

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


@pytest.mark.pages
@pytest.mark.parametrize(
    ("page", "column"),
    [("frontier", "setting_depth"), ("pipeline", "step_ms"), ("diagnosis", "gain"), ("batch", "step_ms_value"),
     ("hardware", "gpu")],
)  # fmt: skip
def test_every_result_has_every_file(engine: Any, monkeypatch: pytest.MonkeyPatch, page: str, column: str) -> None:
    shared: list[downloads.File] = []
    monkeypatch.setattr(downloads, "draw", lambda _, files: shared.extend(files))
    run = kept(engine)
    of_a_run = page in ("diagnosis", "batch", "hardware")
    query = {"run": run} if of_a_run else {}
    if page not in ("batch", "hardware"):
        query["study"] = keep(engine, page)
    open_page(page, **query)
    files = {file.ending: file.make for file in shared}
    assert list(files) == ["png", "svg", "md", "html", "json", "csv"]
    assert files["md"]().startswith(b"### ")
    title = files["md"]().decode().partition("\n")[0].removeprefix("### ")
    assert files["svg"]().startswith(b"<svg")
    assert title[:20] in files["svg"]().decode()
    head, *rows = files["csv"]().decode().splitlines()
    assert column in head.split(",")
    assert rows
