"""Formatting of numbers, one form per kind (batch sizes, counts, bytes, shares, durations, dates), and of tables."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from contextvars import ContextVar
from datetime import UTC, datetime

MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
          "December")  # fmt: skip
WHOLE = 1e-6  # tolerance for treating a batch as whole: bisection and logarithms do not hit integers exactly


def number(value: float) -> str:
    """Format with three significant digits and thousands separators, without an exponent for ordinary sizes."""
    if value == 0:
        return "0"
    if not 1e-4 <= abs(value) < 1e7:
        return f"{value:.2e}"
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    text = f"{value:,.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def table_number(value: float | None) -> str:
    """Format with four significant digits and thousands separators; empty for None."""
    if value is None:
        return ""
    return f"{value:,.0f}" if isinstance(value, int) or abs(value) >= 1000 else f"{value:.4g}"


def rounded(value: float) -> str:
    """Format a batch size or a cost with the digits that matter: whole from 10 on, one decimal below."""
    return f"{value:,.0f}" if value >= 10 or value == round(value) else f"{value:.1f}"


def bounded(value: float, low: float | None, high: float | None) -> str:
    """Format a number, followed by its interval in parentheses if it has one."""
    return number(value) if low is None or high is None else f"{number(value)} ({number(low)} to {number(high)})"


def interval_words(batch: float, low: float | None, high: float | None) -> str:
    """Format as ``41 (32 to 50)``, or ``41 (no interval)`` if the rounds do not support one."""
    if low is None or high is None:
        return f"{round(batch):,} (no interval)"
    return f"{round(batch):,} ({round(low):,} to {round(high):,})"


def first_batch(value: float) -> str:
    """Format the first whole batch from ``value`` on, for a crossover between two batches: 2.6 gives ``3``."""
    return f"{math.ceil(value - WHOLE):,}"


def last_batch(value: float) -> str:
    """Format the last whole batch up to ``value``."""
    return f"{math.floor(value + WHOLE):,}"


def counted(count: int, thing: str, things: str | None = None) -> str:
    """Format a count, as in ``1 round`` or ``1,200 rounds``; ``things`` is a plural other than ``thing`` plus s."""
    return f"{count:,} {thing if count == 1 else things or thing + 's'}"


def large(value: float) -> str:
    """Format a large count in words: 669 thousand, 4.01 million."""
    for size, word in ((1e12, "trillion"), (1e9, "billion"), (1e6, "million")):
        if value >= 0.9995 * size:
            return f"{value / size:.3g} {word}"
    return f"{value / 1e3:.3g} thousand" if value >= 1e4 else f"{value:,.0f}"


def byte_size(size_bytes: float) -> str:
    """Format bytes in decimal units, three significant digits: ``512 bytes``, ``4.14 kB``, ``22.4 MB``, ``2 GB``."""
    for unit, name in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if size_bytes >= 0.9995 * unit:  # 999.6 MB would be rounded to 1e+03 MB
            return f"{size_bytes / unit:.3g} {name}"
    return counted(round(size_bytes), "byte")


def percent(share: float, digits: int = 0) -> str:
    """Format a share (0 to 1) as ``61 %``; a non-zero one that would round to zero as ``below 1 %``."""
    least = 10.0**-digits
    return f"below {least:g} %" if 0 < 100 * share < least / 2 else f"{100 * share:.{digits}f} %"


def duration(seconds: float | None) -> str:
    """Format a time in words: ``30 ms``, ``7.4 s``, ``1 min 09 s``, ``3 h 20 min``, ``10 days``, ``unknown``."""
    if seconds is None:
        return "unknown"
    if 0 < seconds < 1:
        return f"{number(1000 * seconds)} ms"
    if seconds < 59.5:
        return f"{rounded(seconds)} s"
    if seconds < 3599.5:
        return _two(round(seconds), "min", "s")
    return _two(round(seconds / 60), "h", "min") if seconds < 172_800 else f"{seconds / 86_400:,.3g} days"


def moment(iso: str, *, with_time: bool = True) -> str:
    """Format an ISO 8601 time as ``21 November 2026, 14:05 UTC``. Any other text is returned unchanged."""
    try:
        at = datetime.fromisoformat(iso)
    except ValueError:
        return iso
    at = at if at.tzinfo is None else at.astimezone(UTC)
    day = f"{at.day} {MONTHS[at.month - 1]} {at.year}"
    return f"{day}, {at:%H:%M} UTC" if with_time and len(iso) > 10 else day


def _two(amount: int, unit: str, smaller: str) -> str:
    whole, rest = divmod(amount, 60)
    return f"{whole} {unit} {rest:02d} {smaller}" if rest else f"{whole} {unit}"


headers: ContextVar[set[str] | None] = ContextVar("headers", default=None)
"""Collects the first line of each table, so that a terminal can highlight it."""


def table(columns: Sequence[str], rows: Iterable[Sequence[str | float | None]]) -> list[str]:
    """Return the lines of a table, with text left-aligned and numbers right-aligned."""
    lines = [list(row) for row in rows]
    texts = [[value if isinstance(value, str) else table_number(value) for value in line] for line in lines]
    widths = [max(len(line[i]) for line in (list(columns), *texts)) for i in range(len(columns))]
    left = [any(isinstance(line[i], str) for line in lines) for i in range(len(columns))]
    header, *aligned = (
        "  ".join(
            text.ljust(width) if to_left else text.rjust(width)
            for text, width, to_left in zip(line, widths, left, strict=True)
        ).rstrip()
        for line in (list(columns), *texts)
    )
    if (noted := headers.get()) is not None:
        noted.add(header)
    return [header, *aligned]
