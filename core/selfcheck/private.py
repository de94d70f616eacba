"""Sentences of errors without what tells whose machine it is: they may quote a log."""

from __future__ import annotations

import getpass
import platform
import re
from collections.abc import Callable
from pathlib import Path

UNSAID = "…"
LEAST_CHARS = 4  # a shorter name is part of too many sentences, and tells of nobody
NO_SECRETS = frozenset(
    {"root", "user", "admin", "administrator", "daemon", "nobody", "guest", "home", "ubuntu", "debian", "localhost"}
)
"""Names of accounts and hosts that systems come with."""
_IN_A_NAME = r"[^\s/\\,;:“”\"'()<>]"
_PATH = re.compile(rf"(?<![\w.])(?:file://)?(?:~|[A-Za-z]:)?[/\\](?:{_IN_A_NAME}*[/\\])*{_IN_A_NAME}*")
"""From its root on: what has a slash within may as well be an operation's name, or a fraction."""
_UUID = re.compile(r"\b(?:GPU-|MIG-)?[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", re.IGNORECASE)


def anonymous(text: str) -> str:
    """The text without paths, UUIDs and the names of this host and user."""
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
    except (OSError, KeyError, ImportError, RuntimeError):  # a user without an entry, or without a home
        return ""
