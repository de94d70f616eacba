"""Wire format of protocol buffers, walked in a mapped file without reading skipped parts."""

from __future__ import annotations

import mmap
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from core.base.files import open_file
from core.base.numbers import counted
from core.traces.events import TraceError

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
_FIXED = {FIXED64: 8, FIXED32: 4}
MAX_FIELDS = 2_000_000
"""Limit per file of planes, lines and names; events have a limit of their own."""
BROKEN = "The trace is damaged or cut short; record it again, and copy the file whole."


class Field(NamedTuple):
    """One field of a message: offsets of its tag, its content and the next field, in bytes of the file."""

    number: int
    wire: int
    begin: int
    content: int
    end: int


class MappedFile:
    """A file mapped into memory, whose pages can be released once they have been read."""

    def __init__(self, path: Path) -> None:
        with open_file(path) as file:
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self.size = len(self._map)
        self._fields = 0

    def close(self) -> None:
        self._map.close()

    def cut(self, begin: int, end: int) -> bytes:
        return self._map[begin:end]

    def release(self, begin: int, end: int) -> None:
        """Release whole pages within a range, if the system supports it: they count as this process's memory."""
        first = -(-begin // mmap.PAGESIZE) * mmap.PAGESIZE
        if end - first >= mmap.PAGESIZE and hasattr(mmap, "MADV_DONTNEED"):
            self._map.madvise(mmap.MADV_DONTNEED, first, (end - first) // mmap.PAGESIZE * mmap.PAGESIZE)

    def fields(self, begin: int, end: int) -> Iterator[Field]:
        """Yield the fields of the message in a range. Raises TraceError for a truncated field, or too many."""
        data, at = self._map, begin
        while at < end:
            self._fields += 1
            if self._fields > MAX_FIELDS:
                raise TraceError("The trace is in more pieces than can be read; trace fewer steps or one program.")
            start = at
            tag, at = _varint(data, at, end)
            number, wire = tag >> 3, tag & 7
            content = at
            if wire == BYTES:
                length, content = _varint(data, at, end)
                at = content + length
            elif wire == VARINT:
                _, at = _varint(data, at, end)
            elif wire in _FIXED:
                at += _FIXED[wire]
            else:
                raise TraceError(BROKEN)
            if at > end or number == 0:
                raise TraceError(BROKEN)
            yield Field(number, wire, start, content, at)

    def runs(self, begin: int, end: int, number: int, most_bytes: int) -> Iterator[tuple[Field, int]]:
        """Yield fields like :meth:`fields`, but merge neighbours with that number, together with their count.

        The number must be below 16 and the fields hold bytes. A merged field has up to ``most_bytes`` (a single one may
        be longer); the count is 0 for any other field.
        """
        data, at, wanted = self._map, begin, number << 3 | BYTES
        while at < end:
            first, count = at, 0
            while at < end and data[at] == wanted:
                content = at + 2
                length = data[at + 1] if content <= end else 0x80
                if length >= 0x80:
                    length, content = _varint(data, at + 1, end)
                after = content + length
                if after > end:
                    raise TraceError(BROKEN)
                if count and after - first > most_bytes:
                    break
                at, count = after, count + 1
            field = Field(number, BYTES, first, first, at) if count else next(self.fields(at, end))
            at = field.end
            yield field, count


class Stretches:
    """Ranges in a file, with neighbours merged up to ``most_bytes`` (a single one may be longer)."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._found: list[list[int]] = []
        self.total_bytes = 0

    def add(self, begin: int, end: int) -> None:
        self.total_bytes += end - begin
        last = self._found[-1] if self._found else None
        if last is not None and last[1] == begin and end - last[0] <= self._most_bytes:
            last[1] = end
        else:
            self._found.append([begin, end])

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return ((begin, end) for begin, end in self._found)


def _varint(data: mmap.mmap, at: int, end: int) -> tuple[int, int]:
    """Return the number at an offset and the offset after it. Raises TraceError if it does not end before ``end``."""
    value = shift = 0
    while at < end and shift < 70:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    raise TraceError(BROKEN)


MAX_MESSAGES, MAX_MESSAGE_CHARS = 16, 500
_DROPPED = re.compile(r"(\d{1,15}) events dropped because")
NOT_PERMITTED, NOT_LOADED, NO_GPU = "Insufficient privilege", "Failed to load libcupti", "No GPU detected"
_PERMIT = (
    "run as root, start a container with --cap-add=SYS_ADMIN, or have the driver loaded with "
    "NVreg_RestrictProfilingToAdminUsers=0"
)
_INSTALL = "install it with “pip install -r requirements-gpu.txt”, or put the folder of libcupti.so on LD_LIBRARY_PATH"


def messages(texts: Iterable[bytes], hosts: Iterable[bytes]) -> tuple[str, ...]:
    """Return each message once, without the names of the machines."""
    distinct: dict[str, None] = {}
    names = [host.decode(errors="replace") for host in hosts if host]
    for data in texts:
        text = data[: 4 * MAX_MESSAGE_CHARS].decode(errors="replace")
        for name in names:
            text = text.removeprefix(f"{name}: ").replace(f" on {name}:", ":")
        distinct[" ".join(text.split())[:MAX_MESSAGE_CHARS]] = None
    return tuple(text for text in distinct if text)[:MAX_MESSAGES]


def dropped_events(warnings: Iterable[str]) -> int:
    """Return the number of GPU events the profiler reports as lost."""
    return sum(int(number) for text in warnings for number in _DROPPED.findall(text))


def no_kernels(device: str, errors: Iterable[str], dropped: int) -> str:
    """Explain why a trace of steps on a GPU may have none of its kernels, and what to do."""
    sentence = " ".join(errors)
    if dropped:
        return f"The profiler lost {counted(dropped, 'event')}, and no kernel of {device} is left; trace fewer steps."
    if NOT_PERMITTED in sentence:
        return f"NVIDIA's driver lets only administrators trace {device}: {_PERMIT}."
    if NOT_LOADED in sentence:
        return f"NVIDIA's CUPTI library was not found, without which {device} cannot be traced: {_INSTALL}."
    if NO_GPU in sentence:
        return f"The profiler saw no GPU, so {device} cannot be traced: see what “python -m core devices” says of it."
    also = f" The profiler says: {sentence}" if sentence else ""
    return (
        f"The trace has no kernel of {device}, most likely because NVIDIA's CUPTI library is missing ({_INSTALL}) or "
        f"not permitted ({_PERMIT}).{also}"
    )
