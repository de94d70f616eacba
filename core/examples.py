"""The finished examples that everybody sees first: a sweep, its diagnosis and a pipeline study, all real, recorded by
this tool with the environment they came from.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from core.experiment import Diagnosis, Experiment
from core.frontier import FrontierStudy
from core.results import Run

DATA = Path(__file__).parent / "data"
EXAMPLE_FILE = DATA / "example.json"
DIAGNOSIS_FILE = DATA / "example_diagnosis.json"
PIPELINE_FILE = DATA / "example_pipeline.json"
FRONTIER_FILE = DATA / "example_frontier.json"
DIAGNOSIS_ID, PIPELINE_ID = "example-diagnosis", "example-pipeline"
FRONTIER_ID = "example-frontier"


@cache
def load_example() -> Run:
    """The shipped example. Raises FileNotFoundError or ValueError (with a sentence) when the file is damaged."""
    return Run.from_json(EXAMPLE_FILE.read_bytes())


@cache
def load_example_diagnosis() -> Diagnosis:
    """The diagnosis of :func:`load_example`'s run. Raises FileNotFoundError or ValueError."""
    return Diagnosis.from_json(DIAGNOSIS_FILE.read_bytes())


@cache
def load_example_pipeline() -> Experiment:
    """A finished pipeline study. Raises FileNotFoundError or ValueError."""
    return Experiment.from_json(PIPELINE_FILE.read_bytes())


@cache
def load_example_frontier() -> FrontierStudy:
    """A finished frontier study. Raises FileNotFoundError or ValueError."""
    return FrontierStudy.from_json(FRONTIER_FILE.read_bytes())
