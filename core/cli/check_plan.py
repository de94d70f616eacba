"""Conversion of the flags of ``check`` to its plan, and the launcher of its workers."""

from __future__ import annotations

import itertools
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from core.base.evidence import same_machine
from core.base.schema import UserError
from core.base.text import shown
from core.cli.choices import workload_of
from core.cli.devices import target_of
from core.cli.files import BadInput
from core.cli.model_code import check_same_code, launcher_for, network_from_code
from core.cli.study_command import Asked
from core.machine.environment import capture_environment
from core.machine.installed import environment_words
from core.networks.families.code import Code, refuse_code
from core.rounds.plan import SweepPlan
from core.rounds.run import Run
from core.studies.check.record import (
    MAX_TITLE,
    SLOWDOWN_IN_TURN,
    SLOWDOWN_OF_STORED,
    CheckPlan,
    Side,
    StoredSteps,
    check_batches,
    median_steps,
    stored_steps,
    usual_batches,
)
from core.worker.interpreters import interpreter, refuse_python
from core.worker.protocol import Check, Launcher, Worker, go_on
from core.workload.names import all_of
from core.workload.spec import Target, Workload, parse_batches

GIT = ("git", "-c", "core.hooksPath=/dev/null")
GIT_S = 300.0
SHORT = 10  # characters of a commit's name shown to people
WITHOUT_BASELINE = (1, 64)
"""Batch sizes if no run says which the budget can repeat often; times the number of devices."""


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
    """Request of a check: one target of a plan, and the choices made. ``check`` interrupts waiting.

    ``known_ms`` are its step times by batch, 0 where unknown, from which the batches are chosen.
    """

    plan: SweepPlan
    index: int
    known_ms: Mapping[int, float]
    model: str | None
    budget_s: float
    batches: tuple[int, ...]
    max_slowdown: float | None
    check: Check

    @classmethod
    def of(cls, run: Run | None, flags: dict[str, Any], check: Check) -> Wanted:
        """Return the request from the flags, which without a baseline name the whole plan. Raises UserError."""
        target, batches, slowdown = flags["target"], flags["batches"], flags["max_slowdown"]
        sizes = parse_batches(batches) if batches is not None else ()
        allowed = None if slowdown is None else share(slowdown)
        choices = (flags["model"], flags["budget_s"], sizes, allowed, check)
        if run is None:
            plan = _plan_of(flags, sizes)
            return cls(plan, 0, dict.fromkeys(plan.batches, 0.0), *choices)
        if run.plan is None:
            raise UserError("Only points were imported for this run; without its plan nothing can be measured.")
        if target is not None and target not in run.target_names:
            raise UserError(f"“{target[:80]}” is no target of this run; it has {all_of(run.target_names)}.")
        index = 0 if target is None else run.target_names.index(target)
        if flags["python"] is None:  # which replaces the run's own
            refuse_python([run.plan.targets[index]])
        return cls(run.plan, index, median_steps(run, index) or {run.plan.batches[0]: 0.0}, *choices)

    @property
    def target(self) -> Target:
        return self.plan.targets[self.index]

    def workload_in(
        self, entry: str, title: str, folder: str, apart_from: str | None = None, target: Target | None = None
    ) -> Workload:
        """Return the plan's workload with the network that the code in a folder builds now; ``title`` names where, in
        errors. Raises BadInput.
        """
        targets = [str(target or self.target)]
        try:
            network = network_from_code(entry, self.budget_s, targets, folder, apart_from, self.check)
        except BadInput as error:
            raise BadInput(f"In {title}: {error.message}") from None
        return self.plan.workload.model_copy(update={"network": network})

    def checked(self, sides: tuple[Side, ...], slowdown: float, stored: StoredSteps | None = None) -> CheckPlan:
        """Return the plan, at the requested or default batches. Raises pydantic's ValidationError."""
        known_ms = self.known_ms
        if stored is not None:
            known_ms = {batch: median(values) for batch, values in stored.steps_ms.items()}
        data = {
            "sides": sides,
            "target": self.target.model_copy(update={"python": None}),
            "batches": self.batches or usual_batches(known_ms, self.budget_s),
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


def _plan_of(flags: dict[str, Any], batches: tuple[int, ...]) -> SweepPlan:
    """Return the plan that takes the place of a baseline's. Raises UserError or pydantic's ValidationError."""
    target = target_of(flags["target"])
    if flags["python"] is not None:
        target = _with_python(target, flags["python"])
    usual = tuple(batch * target.replicas for batch in WITHOUT_BASELINE)
    workload = workload_of(flags | {"target": str(target)})
    return SweepPlan(workload=workload, targets=(target,), batches=batches or usual)


def check_asked(run: Run | None, flags: dict[str, Any], check: Check, checkouts: ExitStack) -> Asked:
    """Return the plan; a checkout made for it is removed with ``checkouts``. Raises UserError or BadInput."""
    against, against_python = flags["against"], flags["against_python"]
    if against_python is None and flags["python"] is not None:
        raise BadInput("--python names the environment before; name the one after it with --against-python.")
    if against_python is None and run is None:
        raise BadInput("Name a baseline, a run in JSON, or compare two environments with --against-python.")
    if against_python is not None and (clash := [flag for flag in ("against", "asv") if flags[flag] is not None]):
        raise BadInput(f"--against-python compares environments on one checkout; leave out --{clash[0]}.")
    wanted = Wanted.of(run, flags, check)
    if against_python is not None:
        return _of_environments(wanted, flags["python"], against_python)
    assert run is not None
    return _of_stored(wanted, run) if against is None else _of_checkouts(wanted, against, checkouts)


def _of_stored(wanted: Wanted, run: Run) -> Asked:
    """Return a check that repeats the run's plan and compares with its times."""
    workload = wanted.plan.workload
    if same_machine(run.environment, capture_environment()) is False:
        raise UserError(OTHER_MACHINE)
    steps = stored_steps(run, wanted.index)
    check_batches(wanted.batches, steps)
    if isinstance(workload.network, Code) and wanted.model is not None:
        here = current()
        entry = check_same_code(workload.network, wanted.model).entry
        workload = wanted.workload_in(entry, here.title, here.folder)
        side = Side(title=here.title, workload=workload, folder=here.folder, commit=here.commit)
        launcher = _launcher((here.folder,), allow_code=True)
    else:
        launcher = launcher_for(workload.network, wanted.model)
        side = Side(title="now", workload=workload)
    stored = StoredSteps(
        title=f"run {run.name}"[:MAX_TITLE], created_at=run.created_at, environment=run.environment, steps_ms=steps
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
            workload=wanted.workload_in(entry, side.title, side.folder, apart.root),
            folder=side.folder,
            commit=side.commit,
            committed_ms=side.committed_ms,
        )
        for side, apart in ((other, here), (here, other))
    )
    plan = wanted.checked(sides, SLOWDOWN_IN_TURN)
    return Asked(plan, says=(plan.title,), launcher=_launcher((other.folder, here.folder), allow_code=True))


def _of_environments(wanted: Wanted, before: str | None, after: str) -> Asked:
    """Return a check of one workload in the environment ``before``, by default the target's, and in that ``after``."""
    first = wanted.target if before is None else _with_python(wanted.target, before)
    pythons = [interpreter(target) for target in (first, _with_python(wanted.target, after))]
    titles = [environment_words(first.framework, python) for python in pythons]
    if len(set(titles)) == 1:
        titles = [f"{title} ({shown(python)})" for title, python in zip(titles, pythons, strict=True)]
    workload, has_code, sides = wanted.plan.workload, wanted.model is not None, list[Side]()
    if not has_code:
        refuse_code(workload.network)
    for title, python in zip(titles, pythons, strict=True):
        if wanted.model is not None:
            entry, target = check_same_code(workload.network, wanted.model).entry, _with_python(wanted.target, python)
            workload = wanted.workload_in(entry, title, str(Path.cwd()), target=target)
        sides.append(Side(title=title[:MAX_TITLE], workload=workload, python=python))
    plan = wanted.checked(tuple(sides), SLOWDOWN_IN_TURN)
    return Asked(plan, says=(plan.title,), launcher=_launcher((None, None), allow_code=has_code, allow_python=True))


def _with_python(target: Target, name: str) -> Target:
    """Return the target with an interpreter, named as in a shell. Raises pydantic's ValidationError."""
    path = Path(shutil.which(name) or name).absolute()  # not resolved: an environment's is a link to its base's
    return Target.model_validate(target.model_dump() | {"python": str(path)})


def _launcher(folders: tuple[str | None, ...], **allowed: bool) -> Launcher:
    """Return a launcher of one fresh worker per folder, which alternates the one that starts first; ``allowed`` as for
    :func:`core.worker.process.launch_processes`.
    """
    turns = itertools.count()

    def launch(targets: tuple[Target, ...], deadline_s: float, check: Check = go_on) -> tuple[Worker, ...]:
        from core.worker import process

        order = sorted(range(len(targets)), reverse=next(turns) % 2 == 1)
        workers = process.launch_processes(
            tuple(targets[place] for place in order),
            deadline_s,
            check,
            folders=[folders[place] for place in order],
            **allowed,
        )
        return tuple(workers[order.index(place)] for place in range(len(targets)))

    return launch
