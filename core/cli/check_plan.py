"""Conversion of the flags of ``check`` to its plan, and the launcher of its workers."""

from __future__ import annotations

import itertools
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from core.base.evidence import same_machine
from core.base.schema import UserError
from core.base.text import shown
from core.cli.files import BadInput
from core.cli.model_code import check_same_code, launcher_for, network_from_code
from core.cli.study_command import Asked
from core.machine.environment import capture_environment
from core.networks.families.code import Code
from core.rounds.plan import SweepPlan
from core.rounds.run import Run
from core.studies.check.record import (
    SLOWDOWN_OF_CHECKOUTS,
    SLOWDOWN_OF_STORED,
    CheckPlan,
    Side,
    StoredSteps,
    check_batches,
    median_steps,
    stored_steps,
    usual_batches,
)
from core.worker.interpreters import refuse_python
from core.worker.protocol import Check, Launcher, Worker, go_on
from core.workload.names import all_of
from core.workload.spec import Target, Workload, parse_batches

GIT = ("git", "-c", "core.hooksPath=/dev/null")
GIT_S = 300.0
SHORT = 10  # characters of a commit's name shown to people


@dataclass(frozen=True)
class Checkout:
    """A checkout. ``folder`` is searched for modules, ``root`` contains the whole checkout.

    ``commit`` is the one checked out, None if files were changed since.
    """

    title: str
    folder: str
    root: str
    commit: str | None = None

    @property
    def committed_ms(self) -> int | None:
        """Time of the commit, in milliseconds since 1970."""
        seconds = None if self.commit is None else _git("show", "-s", "--format=%ct", self.commit)
        return None if seconds is None else 1000 * int(seconds)


def current() -> Checkout:
    """Return the checkout in the current folder."""
    folder = str(Path.cwd())
    root = _git("rev-parse", "--show-toplevel")
    is_clean = root is not None and not _git("status", "--porcelain", "--untracked-files=no")
    commit = _git("rev-parse", "HEAD") if is_clean else None
    return Checkout("this folder", folder, root or folder, commit)


@contextmanager
def checkout_of(text: str) -> Iterator[Checkout]:
    """Open a folder as it is, or else a commit of the current folder's repository. Raises BadInput."""
    folder = Path(text)
    if folder.is_dir():
        where = str(folder.resolve())
        if where == str(Path.cwd()):
            raise BadInput(
                "--against names the current folder itself; name another checkout, or a commit such as HEAD~1."
            )
        yield Checkout(shown(text), where, where)
        return
    commit = _git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{text}^{{commit}}")
    if commit is None:
        raise BadInput(
            f"--against {shown(text)} is neither a folder nor a commit of a repository here; a shallow clone has few "
            "commits (git fetch gets others)."
        )
    with _worktree(commit) as root:
        inside = _git("rev-parse", "--show-prefix") or ""
        place = root / inside
        if not place.is_dir():
            raise BadInput(f"Commit {commit[:SHORT]} has no folder {shown(inside)}, where this command is run.")
        yield Checkout(f"commit {commit[:SHORT]}", str(place), str(root), commit)


@contextmanager
def _worktree(commit: str) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="breakeven-", ignore_cleanup_errors=True) as temporary:
        root = Path(temporary).resolve() / "checkout"
        try:
            if _git("worktree", "add", "--detach", "--quiet", str(root), commit) is None:
                raise BadInput(f"Commit {commit[:SHORT]} could not be checked out; `git worktree add` says why.")
            yield root
        finally:
            _git("worktree", "remove", "--force", str(root))


def _git(*arguments: str) -> str | None:
    """Return git's output; None if it fails or is missing."""
    try:
        done = subprocess.run(
            (*GIT, *arguments), capture_output=True, timeout=GIT_S, check=True, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.decode("utf-8", "surrogateescape").rstrip("\n")


OTHER_MACHINE = (
    "The stored run was measured on another machine, whose step times say nothing of this one's; name a checkout with "
    "--against, and both are measured here."
)


@dataclass(frozen=True)
class Wanted:
    """Request of a check: the target of a run, and the choices made. ``check`` interrupts waiting."""

    run: Run
    plan: SweepPlan
    index: int
    model: str | None
    budget_s: float
    batches: tuple[int, ...]
    max_slowdown: float | None
    check: Check

    @classmethod
    def of(cls, run: Run, flags: dict[str, Any], check: Check) -> Wanted:
        """Return the request from the flags. Raises UserError."""
        target, batches, slowdown = flags["target"], flags["batches"], flags["max_slowdown"]
        if run.plan is None:
            raise UserError("Only points were imported for this run; without its plan nothing can be measured.")
        if target is not None and target not in run.target_names:
            raise UserError(f"“{target[:80]}” is no target of this run; it has {all_of(run.target_names)}.")
        index = 0 if target is None else run.target_names.index(target)
        refuse_python([run.plan.targets[index]])
        sizes = parse_batches(batches) if batches is not None else ()
        allowed = None if slowdown is None else share(slowdown)
        return cls(run, run.plan, index, flags["model"], flags["budget_s"], sizes, allowed, check)

    @property
    def target(self) -> Target:
        return self.plan.targets[self.index]

    def workload_in(self, entry: str, where: Checkout, apart_from: str | None = None) -> Workload:
        """Return the run's workload with the network that the code in a checkout builds now. Raises BadInput."""
        try:
            network = network_from_code(entry, self.budget_s, [str(self.target)], where.folder, apart_from, self.check)
        except BadInput as error:
            raise BadInput(f"In {where.title}: {error.message}") from None
        return self.plan.workload.model_copy(update={"network": network})

    def checked(self, sides: tuple[Side, ...], slowdown: float, stored: StoredSteps | None = None) -> CheckPlan:
        """Return the plan, at the requested or default batches. Raises pydantic's ValidationError."""
        known = median_steps(self.run, self.index) or {self.plan.batches[0]: 0.0}
        if stored is not None:
            known = {batch: median(values) for batch, values in stored.steps_ms.items()}
        data = {
            "sides": sides,
            "target": self.target,
            "batches": self.batches or usual_batches(known, self.budget_s),
            "pipeline": self.plan.pipeline,
            "budget_s": self.budget_s,
            "max_slowdown": self.max_slowdown or slowdown,
            "stored": stored,
        }
        return CheckPlan.model_validate(data)


def share(text: str) -> float:
    """Parse ``5%`` or ``0.05``. Raises UserError."""
    number = text.strip().removesuffix("%").strip()
    try:
        value = float(number) / (100 if "%" in text else 1)
    except ValueError:
        value = 0.0
    if not 0 < value <= 1:
        raise UserError(
            f"--max-slowdown is “{text[:40]}”; accepted is a share such as 0.05, or 5 %, above 0 and at most 1."
        )
    return value


def check_asked(wanted: Wanted, against: str | None, checkouts: ExitStack) -> Asked:
    """Return the plan; a checkout made for it is removed with ``checkouts``. Raises UserError or BadInput."""
    return _of_stored(wanted) if against is None else _of_checkouts(wanted, against, checkouts)


def _of_stored(wanted: Wanted) -> Asked:
    """Return a check that repeats the run's plan and compares with its times."""
    run, workload = wanted.run, wanted.plan.workload
    if same_machine(run.environment, capture_environment()) is False:
        raise UserError(OTHER_MACHINE)
    steps = stored_steps(run, wanted.index)
    check_batches(wanted.batches, steps)
    if isinstance(workload.network, Code) and wanted.model is not None:
        here = current()
        entry = check_same_code(workload.network, wanted.model).entry
        side = Side(title=here.title, workload=wanted.workload_in(entry, here), folder=here.folder, commit=here.commit)
        launcher = _launcher((here.folder,))
    else:
        launcher = launcher_for(workload.network, wanted.model)
        side = Side(title="now", workload=workload)
    stored = StoredSteps(
        title=f"run {run.name}"[:200], created_at=run.created_at, environment=run.environment, steps_ms=steps
    )
    plan = wanted.checked((side,), SLOWDOWN_OF_STORED, stored)
    return Asked(plan, says=(plan.title,), launcher=launcher)


def _of_checkouts(wanted: Wanted, against: str, checkouts: ExitStack) -> Asked:
    """Return a check of the user's code in the current folder against another checkout of it."""
    if wanted.model is None:
        raise UserError(
            "--against compares checkouts of your own code: measure the baseline with sweep --model "
            "package.module:function, and name the same code with --model here."
        )
    entry = check_same_code(wanted.plan.workload.network, wanted.model).entry
    here = current()
    other = checkouts.enter_context(checkout_of(against))
    sides = tuple(
        Side(
            title=side.title,
            workload=wanted.workload_in(entry, side, apart.root),
            folder=side.folder,
            commit=side.commit,
            committed_ms=side.committed_ms,
        )
        for side, apart in ((other, here), (here, other))
    )
    plan = wanted.checked(sides, SLOWDOWN_OF_CHECKOUTS)
    return Asked(plan, says=(plan.title,), launcher=_launcher((other.folder, here.folder)))


def _launcher(folders: tuple[str, ...]) -> Launcher:
    """Return a launcher of one worker per folder, which alternates the folder that starts first."""
    turns = itertools.count()

    def launch(targets: tuple[Target, ...], deadline_s: float, check: Check = go_on) -> tuple[Worker, ...]:
        from core.worker import process

        order = sorted(range(len(targets)), reverse=next(turns) % 2 == 1)
        workers = process.launch_processes(
            tuple(targets[place] for place in order),
            deadline_s,
            check,
            allow_code=True,
            folders=[folders[place] for place in order],
        )
        return tuple(workers[order.index(place)] for place in range(len(targets)))

    return launch
