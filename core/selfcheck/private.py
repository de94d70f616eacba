"""Anonymisation of error sentences, which may quote a log, from anything that identifies the machine."""

from __future__ import annotations

import getpass
import platform
import re
from collections.abc import Callable
from pathlib import Path

UNSAID = "…"
LEAST_CHARS = 4  # a shorter name is part of too many sentences, and identifies nobody
NO_SECRETS = frozenset(
    {"root", "user", "admin", "administrator", "daemon", "nobody", "guest", "home", "ubuntu", "debian", "localhost"}
)
"""Default account and host names of systems."""
_IN_A_NAME = r"[^\s/\\,;:“”\"'()<>]"
_PATH = re.compile(rf"(?<![\w.])(?:file://)?(?:~|[A-Za-z]:)?[/\\](?:{_IN_A_NAME}*[/\\])*{_IN_A_NAME}*")
"""Absolute paths only: a slash elsewhere may belong to an operation's name, or a fraction."""
_UUID = re.compile(r"\b(?:GPU-|MIG-)?[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", re.IGNORECASE)


def anonymous(text: str) -> str:
    """Return the text without paths, UUIDs and the names of this host and user."""
    for name in sorted(_names(), key=len, reverse=True):
        text = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", UNSAID, text, flags=re.IGNORECASE)
    return _UUID.sub(UNSAID, _PATH.sub(UNSAID, text))


def _names() -> set[str]:
    host = _known(platform.node)
    found = {host, host.partition(".")[0], _known(getpass.getuser), _known(lambda: Path.home().name)}
    return {name for name in found if len(name) >= LEAST_CHARS and name.lower() not in NO_SECRETS}


def _known(ask: Callable[[], str]) -> str:
    try:
        return ask()
    except (OSError, KeyError, ImportError, RuntimeError):  # a user without an entry or a home
        return ""
