"""The bytes of a run's downloads."""

from core.rounds.run import Run
from core.ui.downloads import run_files


def content(run: Run, ending: str) -> bytes:
    """Return the file with that ending."""
    return next(file for file in run_files(run) if file.ending == ending).make()
