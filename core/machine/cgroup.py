"""Limits on this process set by a container or service manager: its control groups, version 1, 2 or both.

A group's limit holds for all groups below it, so every level counts, from the process's own group up to the mount. The
files are those of Linux's documentation (admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst); if they are missing,
nothing is limited. ``root`` is the root of the file system, or another folder in tests.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from core.base.evidence import Outcome
from core.base.numbers import byte_size
from core.base.schema import Frozen

ROOT = Path("/")
UNLIMITED = 2**60  # version 1 writes a number close to 2**63 for "no limit"
FULL = 0.99  # share of a limit: the kernel charges pages in batches, per processor


class Killed(Frozen):
    """Cause of a worker's SIGKILL that was not sent by us.

    The kernel at a container's memory limit (``limit_bytes``), the kernel when the machine ran out of memory, or
    unknown.
    """

    by: Literal["container", "machine", "unknown"]
    limit_bytes: Annotated[int, Field(gt=0)] | None = None

    @property
    def outcome(self) -> Outcome:
        return "crashed" if self.by == "unknown" else "out_of_memory"

    @property
    def words(self) -> str:
        """The cause as a clause."""
        if self.by == "unknown":
            return "something outside killed it, as the system does when memory runs out"
        if self.limit_bytes is None:
            return "the machine ran out of memory"
        return f"the container's memory limit of {byte_size(self.limit_bytes)} was reached"


@dataclass(frozen=True)
class Limits:
    """Smallest CPU quota (``cpus``, in cores), smallest memory limit, and least memory that any limit leaves now.

    None if there is no such limit.
    """

    cpus: float | None = None
    memory_bytes: int | None = None
    memory_free_bytes: int | None = None


@dataclass(frozen=True)
class KillCounts:
    """Counters of kills for lack of memory.

    ``kills``: processes of the own group killed, None if not counted; ``hits``: each limit from the own group up, in
    bytes, with the number of times it led to a kill.
    """

    kills: int | None
    hits: tuple[tuple[int | None, int], ...]


def read_limits(root: Path = ROOT) -> Limits:
    """Return the limits now. Never raises: an unreadable file limits nothing."""
    rooms = [room for level in _levels(root, "memory") if (room := _memory(level)) is not None]
    quotas = [quota for level in _levels(root, "cpu") if (quota := _quota(level)) is not None]
    return Limits(
        cpus=min(quotas, default=None),
        memory_bytes=min((limit for limit, _ in rooms), default=None),
        memory_free_bytes=min((free for _, free in rooms), default=None),
    )


def read_kills(root: Path = ROOT) -> KillCounts:
    """Return the counters now, for :func:`who_killed`."""
    kills, hits = None, []
    for level in _levels(root, "memory"):
        limit, most = _limit(level, hard=True), _number(level / "memory.max_usage_in_bytes")
        events = _pairs(level / "memory.events") or _pairs(level / "memory.oom_control")
        kills = events.get("oom_kill") if kills is None else kills  # of the lowest level that counts them
        # version 1 does not count this event and, with an equal swap limit, not even that a limit was reached (Linux
        # 6.18)
        full = limit is not None and most is not None and most >= FULL * limit
        hits.append((limit, events.get("oom", (kills or 0) if full else 0)))
    return KillCounts(kills, tuple(hits))


def who_killed(before: KillCounts, after: KillCounts) -> Killed:
    """Return the cause of a SIGKILL in this group between two readings: the lowest limit reached in between.

    A counted kill without a reached limit means a lack of memory on the machine, or in a group above all visible ones.
    """
    if before.kills is None or after.kills is None or after.kills <= before.kills:
        return Killed(by="unknown")
    for (_, earlier), (limit, now) in zip(before.hits, after.hits, strict=False):
        if limit is not None and now > earlier:
            return Killed(by="container", limit_bytes=limit)
    return Killed(by="machine")


def _levels(root: Path, controller: str) -> list[Path]:
    """Return the folders of the process's group and those above it, up to the mount.

    The group is that of version 1 if the controller is mounted so, else that of version 2.
    """
    groups: dict[str, str] = {}
    for line in (_read(root / "proc/self/cgroup") or "").splitlines():
        _, names, path = line.split(":", 2) if line.count(":") >= 2 else ("", "", "")
        groups |= dict.fromkeys(names.split(","), path)
    mounts = _mounts(root)
    for kind, key in ((controller, controller), ("cgroup2", "")):
        if kind in mounts and key in groups:
            top, point = mounts[kind]
            return _climb(root / point.lstrip("/"), top, groups[key])
    return []


def _mounts(root: Path) -> dict[str, tuple[str, str]]:
    """Return root and mount point of each controller of version 1, and of ``cgroup2``."""
    mounts: dict[str, tuple[str, str]] = {}
    for line in (_read(root / "proc/self/mountinfo") or "").splitlines():
        fields, _, rest = line.partition(" - ")
        words, kind = fields.split(), rest.split()
        if len(words) < 5 or len(kind) < 3 or kind[0] not in ("cgroup", "cgroup2"):
            continue
        place = _unescaped(words[3]), _unescaped(words[4])
        for name in ["cgroup2"] if kind[0] == "cgroup2" else kind[2].split(","):
            mounts.setdefault(name, place)
    return mounts


def _climb(point: Path, top: str, path: str) -> list[Path]:
    """Return the folders from a group's up to the mount point.

    ``top`` is the group mounted there: a container may see its own group as the root, or be given a path that begins
    above it.
    """
    top = top.rstrip("/")
    below = path[len(top) :] if path == top or path.startswith(f"{top}/") else ""
    names = [name for name in below.split("/") if name]
    return [point.joinpath(*names[:count]) for count in range(len(names), -1, -1)]


def _memory(level: Path) -> tuple[int, int] | None:
    """Return a level's limit and its remaining bytes; page cache that the kernel can drop at once counts as free."""
    limit = _limit(level)
    used = _first_number(level, "memory.current", "memory.usage_in_bytes")
    if limit is None or used is None:
        return None
    stat = _pairs(level / "memory.stat")
    cache = stat.get("total_inactive_file", stat.get("inactive_file", 0))  # version 1's "total" includes groups below
    return limit, min(limit, max(0, limit - max(0, used - cache)))


def _limit(level: Path, hard: bool = False) -> int | None:
    """Return a level's memory limit, without ``memory.high`` if ``hard``.

    Above ``memory.high`` the kernel slows a group too much for any measurement; only the hard limits kill.
    """
    names = ("memory.max", "memory.limit_in_bytes") if hard else ("memory.max", "memory.high", "memory.limit_in_bytes")
    numbers = [number for name in names if (number := _number(level / name)) is not None and 0 <= number < UNLIMITED]
    return min(numbers, default=None)


def _quota(level: Path) -> float | None:
    v2 = [int(word) for word in (_read(level / "cpu.max") or "").split() if word.isdigit()]
    quota, period = v2 if len(v2) == 2 else (_number(level / f"cpu.cfs_{name}_us") for name in ("quota", "period"))
    return quota / period if quota and period and quota > 0 else None


def _first_number(level: Path, *names: str) -> int | None:
    return next((number for name in names if (number := _number(level / name)) is not None), None)


def _pairs(path: Path) -> dict[str, int]:
    """Return names and numbers from a file with one pair per line."""
    lines = (line.split() for line in (_read(path) or "").splitlines())
    return {words[0]: int(words[1]) for words in lines if len(words) == 2 and words[1].isdigit()}


def _number(path: Path) -> int | None:
    text = _read(path) or ""
    return int(text) if text.lstrip("-").isdigit() else None


def _unescaped(text: str) -> str:
    """Decode a path of mountinfo, which writes space, tab, newline and backslash as octal numbers."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)


def _read(path: Path) -> str | None:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return None
