"""The ``dashboard`` command: serves the pages like ``streamlit run app.py``, from any folder."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import click

CORE = Path(__file__).parents[1]


def app() -> Path:
    """Return the script that Streamlit runs: inside ``core/`` in a wheel, else beside it, its settings next to it."""
    packed = CORE / "dashboard" / "app.py"
    return packed if packed.is_file() else CORE.parent / "app.py"


@click.command(context_settings={"ignore_unknown_options": True}, options_metavar="[STREAMLIT OPTIONS]")
@click.argument("options", nargs=-1, type=click.UNPROCESSED, metavar="")
def dashboard(options: tuple[str, ...]) -> None:
    """Open the dashboard. Options are those of “streamlit run”, such as --server.port 8600."""
    # run Streamlit's own program in this process, so that signals reach it; the engine itself does not import Streamlit
    sys.argv = ["streamlit", "run", str(app()), *options]
    runpy.run_module("streamlit", run_name="__main__")
