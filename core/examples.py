"""The finished examples that everybody sees first: a sweep with its diagnosis, noise and memory studies, a pipeline
study and a frontier, all real, recorded by this tool with the environment they came from.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from core.experiment import Diagnosis, Experiment
from core.frontier import FrontierStudy
from core.memory_study import MemoryStudy
from core.noise_study import NoiseStudy
from core.results import Run

DATA = Path(__file__).parent / "data"
EXAMPLE_FILE = DATA / "example.json"
DIAGNOSIS_FILE = DATA / "example_diagnosis.json"
PIPELINE_FILE = DATA / "example_pipeline.json"
FRONTIER_FILE = DATA / "example_frontier.json"
NOISE_FILE = DATA / "example_noise.json"
MEMORY_FILE = DATA / "example_memory.json"
DIAGNOSIS_ID, PIPELINE_ID = "example-diagnosis", "example-pipeline"
FRONTIER_ID, NOISE_ID, MEMORY_ID = "example-frontier", "example-noise", "example-memory"


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


@cache
def load_example_noise() -> NoiseStudy:
    """The noise study of :func:`load_example`'s run. Raises FileNotFoundError or ValueError."""
    return NoiseStudy.from_json(NOISE_FILE.read_bytes())


@cache
def load_example_memory() -> MemoryStudy:
    """A memory study of the second target of :func:`load_example`'s run. Raises FileNotFoundError or ValueError."""
    return MemoryStudy.from_json(MEMORY_FILE.read_bytes())
