"""Interface for notebooks and scripts: measure a model on this machine and show the result.

    from core.notebook import measure

    result = measure(model, targets=["cpu,threads=1", "cpu"], budget_s=30)

A Keras model is described by the text of its ``to_json()``; worker processes rebuild it from that with fresh weights.
The object itself, its weights and its code are never pickled, sent or run.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from core.base.numbers import duration
from core.base.schema import UserError, as_user_error
from core.base.text import sentence_case
from core.machine.environment import list_devices, resources
from core.networks.families import Network
from core.networks.families.own import Own, label_of
from core.rounds.answer.analyse import analyse
from core.rounds.answer.answer import Answer, Crossover
from core.rounds.plan import SweepPlan, check_fits
from core.rounds.run import Run
from core.rounds.show.export import cell_rows
from core.studies.jobs import Jobs
from core.studies.progress import Snapshot
from core.studies.runner import NullRecorder
from core.studies.sweep.kind import SWEEP, new_run
from core.studies.sweep.presets import compared_targets
from core.workload.spec import Mode, Optimizer, Target, Workload, parse_batches

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go

POLL_S = 1.0
ACCEPTED = "accepted are a Keras model, the short name of a network such as 784-512-512-10, a Workload, and a SweepPlan"
CODE = "A network that only code can build is measured with “breakeven sweep --model package.module:function”."


@dataclass(frozen=True)
class Measured:
    """A run and its analysis. A notebook displays the verdict, the chart and the table."""

    run: Run
    answer: Answer

    @property
    def verdict(self) -> str:
        """The verdict as a sentence."""
        return self.answer.verdict.sentence

    @property
    def crossover(self) -> Crossover | None:
        """Batch from which the faster target changes, with its 95 % interval.

        The first one, for two targets; None if there is none in the measured range.
        """
        crossovers = self.answer.against[0].verdict.crossovers if len(self.answer.against) == 1 else ()
        return crossovers[0] if crossovers else None

    def to_frame(self) -> pd.DataFrame:
        """Return a row per target and batch: step times (ms) with 95 % bounds, and speed-ups over the first target."""
        import pandas as pd

        ratios = {(pair.target, ratio.batch): ratio for pair in self.answer.against for ratio in pair.speed_ups}
        rows = []
        for row in cell_rows(self.run, self.answer):
            number = self.run.target_names.index(row.target)
            speed_up = ratios.get((number, row.batch))
            rows.append(
                {
                    "name": self.run.names[number],
                    **asdict(row),
                    "speed_up": speed_up.ratio if speed_up else None,
                    "speed_up_low": speed_up.low if speed_up else None,
                    "speed_up_high": speed_up.high if speed_up else None,
                }
            )
        return pd.DataFrame(rows)

    def figure(self) -> go.Figure:
        """Return the chart as an interactive Plotly figure."""
        from core.rounds.show.report import picture

        return picture(self.run, self.answer)

    def to_markdown(self) -> str:
        """Return verdict, table and notes as Markdown, for a pull request."""
        from core.rounds.show.report import markdown_report

        return markdown_report(self.run, self.answer)

    def to_html(self) -> str:
        """Return the whole report as a page that opens offline and sends nothing."""
        from core.rounds.show.report import html_report

        return html_report(self.run, self.answer)

    def to_json(self) -> str:
        """Return the run as JSON, which every command and the History page read."""
        return self.run.to_json()

    def _repr_html_(self) -> str:
        from core.rounds.show.report import fragment, picture_img

        return fragment(self.run, self.answer, heading="h3", draw=picture_img)

    def __repr__(self) -> str:
        return self.verdict


def measure(
    model: Any,
    targets: Iterable[str | Target] | None = None,
    *,
    batches: str | Iterable[int] = "1:1024",
    mode: Mode = "train",
    optimizer: Optimizer = "adam",
    budget_s: float = 60.0,
    name: str | None = None,
    keep: bool = True,
) -> Measured:
    """Measure a model on this machine for ``budget_s`` seconds: which target is faster, from which batch size on.

    ``model`` is a Keras model (:data:`ACCEPTED` lists the alternatives); a :class:`SweepPlan` holds all other choices.
    Without ``targets`` the machine's defaults are used, as by the commands. With ``keep`` the run is saved in the
    history. Interrupting the kernel ends the run and keeps what was measured. Raises UserError, one sentence.
    """
    plan = model if isinstance(model, SweepPlan) else _plan(model, targets, batches, mode, optimizer, budget_s)
    here = resources()
    if here.memory_available_bytes is not None:
        check_fits(plan, here.memory_available_bytes, here.limited_words)
    jobs = _jobs(keep)
    try:
        jobs.start(SWEEP, new_run(plan, name))
        ended = _watched(jobs)
    finally:
        jobs.close()
    run: Run | None = ended.record
    if run is None or not run.rounds:
        raise UserError(ended.error or "Nothing was measured.")
    return Measured(run, analyse(run))


def _plan(
    model: Any,
    targets: Iterable[str | Target] | None,
    batches: str | Iterable[int],
    mode: Mode,
    optimizer: Optimizer,
    budget_s: float,
) -> SweepPlan:
    chosen = None if targets is None else [t if isinstance(t, Target) else Target.parse(t) for t in targets]
    with as_user_error(""):
        workload = model
        if not isinstance(model, Workload):
            workload = Workload.model_validate({"network": _network(model), "mode": mode, "optimizer": optimizer})
        return SweepPlan(
            workload=workload,
            targets=tuple(chosen) if chosen is not None else _usual(),
            batches=parse_batches(batches) if isinstance(batches, str) else tuple(batches),
            budget_s=budget_s,
            trace=False,
        )


def _usual() -> tuple[Target, ...]:
    """Return this machine's default targets, as the commands have them."""
    here = list_devices()
    return compared_targets(here.default_targets(), here.usable_cores)


def _network(model: Any) -> Network | str:
    """Return the description of the model. Raises UserError."""
    if isinstance(model, (Network, str)):
        return model
    if not callable(getattr(model, "to_json", None)) or not hasattr(model, "layers"):
        raise UserError(f"A {type(model).__name__} cannot be measured; {ACCEPTED}.")
    try:
        text = model.to_json()
    except Exception as error:  # layers of the user's own may raise anything
        raise UserError(f"This model has no description in JSON: {sentence_case(str(error))[:200]} {CODE}") from None
    try:
        return Own.from_file(text.encode(), f"{label_of(str(getattr(model, 'name', '')))}.json")
    except UserError as error:
        raise UserError(f"{error} {CODE}") from None


def _jobs(keep: bool) -> Jobs:
    """Return the job runner, with this machine's history or without one."""
    if not keep:
        return Jobs(NullRecorder())
    from core.store import Store

    return Jobs(Store())


def _watched(jobs: Jobs) -> Snapshot:
    """Show the job's progress until it has ended."""
    line = _Line()
    try:
        while (at := jobs.snapshot(SWEEP.name)) is not None and at.active:
            line.show(f"{at.progress.activity}; {duration(at.progress.remaining_s)} left at most.")
            jobs.wait(POLL_S)
    except KeyboardInterrupt:
        line.show("Stopping; what was measured is kept.")
        jobs.cancel()
        jobs.wait()
    last = jobs.snapshot(SWEEP.name)
    assert last is not None
    status = last.record.status if last.record is not None else "ended"
    line.show(f"{sentence_case(status)} after {duration(last.progress.elapsed_s)}.")
    return last


class _Line:
    """A notebook output that is overwritten in place; does nothing outside a notebook."""

    def __init__(self) -> None:
        self._ipython: Any = sys.modules.get("IPython")
        self._shown: Any = None

    def show(self, text: str) -> None:
        if self._ipython is None or self._ipython.get_ipython() is None:
            return
        content = {"text/plain": text}
        if self._shown is None:
            self._shown = self._ipython.display.display(content, raw=True, display_id=True)
        else:
            self._shown.update(content, raw=True)
