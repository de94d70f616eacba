"""Checkouts of a user's code: the current folder, and another folder or a commit of the same repository.

A commit is checked out with ``git worktree`` into a temporary folder, which is removed afterwards. The repository's own
hooks are not run.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from core.cli.files import BadInput
from core.text import shown

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
