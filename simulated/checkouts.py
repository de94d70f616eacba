"""Repositories with two commits of a small model."""

import os
import subprocess
from pathlib import Path

IDENTITY = {
    "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@example.org", "GIT_COMMITTER_NAME": "a",
    "GIT_COMMITTER_EMAIL": "a@example.org", "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull,
}  # fmt: skip


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        ("git", *arguments), cwd=folder, env=os.environ | IDENTITY, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def repository(folder: Path, *versions: str, file: str = "net/models.py") -> Path:
    """Create a repository with one commit per version of a file, the last one checked out."""
    (folder / file).parent.mkdir(parents=True)
    git(folder, "init", "--quiet")
    for number, text in enumerate(versions):
        (folder / file).write_text(text)
        git(folder, "add", "--all")
        git(folder, "commit", "--quiet", "--message", f"version {number}")
    return folder


def worktrees(folder: Path) -> int:
    """Return the number of a repository's checkouts, its own included."""
    return len(git(folder, "worktree", "list").splitlines())
