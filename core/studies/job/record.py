"""Plan and record of a job: what was seen of the script, and a sweep of its network at its batch size and around it."""

from __future__ import annotations

from typing import Annotated, ClassVar, Self

from pydantic import Field, model_validator

from core.base.evidence import MAX_TARGETS
from core.base.fields import About
from core.base.schema import Frozen
from core.rounds.run import Run
from core.rounds.study import Study
from core.studies.job.capture import Capture
from core.workload.spec import MAX_PATH, Budget, Target, seconds

MAX_ARGUMENTS, MAX_GPUS, MAX_STOP = 1_000, 6, 10**9
Reason = Annotated[str, Field(max_length=600)]
Card = Annotated[str, Field(min_length=1, max_length=80)]


class Script(Frozen):
    """A script to run: its path, or the name of a module to run as ``python -m`` does, its arguments, interpreter, and
    the folder that it runs in. None of it is kept in a record.
    """

    path: Annotated[str, Field(min_length=1, max_length=MAX_PATH)]
    arguments: Annotated[tuple[str, ...], Field(max_length=MAX_ARGUMENTS)] = ()
    is_module: bool = False
    python: Annotated[str, Field(min_length=1, max_length=MAX_PATH)]
    folder: Annotated[str, Field(min_length=1, max_length=MAX_PATH)]

    @property
    def name(self) -> str:
        """The file's name, or the module's."""
        return self.path if self.is_module else self.path.replace("\\", "/").rpartition("/")[2]


class JobPlan(Frozen):
    """Plan of a job: a script to run first, or the capture of one that ran, then the targets to measure it on.

    ``targets``: without any, the script's own and the usual ones beside it. ``gpus``: cards whose step is modelled.
    ``rerun`` permits workers to run the script again, up to its model.
    """

    script: Script | None = None
    capture: Capture | None = None
    targets: Annotated[tuple[Target, ...], Field(max_length=MAX_TARGETS)] = ()
    gpus: Annotated[tuple[Card, ...], Field(max_length=MAX_GPUS)] = ()
    rerun: bool = False
    stop_after: Annotated[
        Annotated[int, Field(ge=1, le=MAX_STOP)] | None,
        About("Stop after", "End the script after this many steps.", unit="steps", empty="run it to its end"),
    ] = None
    budget_s: Annotated[
        Budget,
        seconds("For the sweep of the script's network, after the script has run. It ends once precise."),
    ] = 60.0

    @model_validator(mode="after")
    def _from_one_source(self) -> Self:
        if (self.script is None) == (self.capture is None):
            raise ValueError("a job needs a script to run, or the capture of one, not both")
        return self

    @property
    def name(self) -> str:
        return self.script.name if self.script is not None else self.capture.script if self.capture is not None else ""


class JobStudy(Study):
    """Stored record of a job. ``sweep`` is None, with the ``reason``, if the network could not be measured.

    ``rerun``: the sweep's workers ran the script up to its model. The sweep's first target is the script's own.
    """

    noun: ClassVar[str] = "job"

    capture: Capture
    sweep: Run | None = None
    reason: Reason = ""
    gpus: Annotated[tuple[Card, ...], Field(max_length=MAX_GPUS)] = ()
    rerun: bool = False

    @property
    def title(self) -> str:
        return f"Job {self.capture.script}"
