"""Size of a PNG or JPEG image from its header, so that a small file that unpacks to gigabytes is noticed beforehand."""

from __future__ import annotations

HEADER_BYTES = 64 * 1024
"""Bytes read from a file: a JPEG's size may follow a preview and a colour profile."""
_PNG = b"\x89PNG\r\n\x1a\n"
_SIZES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
"""Markers of a JPEG frame, which hold the size (ITU T.81, table B.1)."""


def pixels(header: bytes) -> int | None:
    """Return width times height; None if the header lacks them or is damaged."""
    if header.startswith(_PNG):
        return _area(header[16:20], header[20:24])
    at = 2
    while header.startswith(b"\xff\xd8") and header[at : at + 1] == b"\xff":
        if header[at + 1 : at + 2] == b"\xff":  # fill bytes before a marker
            at += 1
            continue
        if at + 9 <= len(header) and header[at + 1] in _SIZES:
            return _area(header[at + 5 : at + 7], header[at + 7 : at + 9])
        at += 2 + max(2, int.from_bytes(header[at + 2 : at + 4], "big"))
    return None


def _area(one: bytes, other: bytes) -> int | None:
    return int.from_bytes(one, "big") * int.from_bytes(other, "big") if other else None
