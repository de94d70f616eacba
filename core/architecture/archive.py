"""Reading of the model's description in a .keras file. Its weights and other members are never opened.

A .keras file is a ZIP archive (keras.io, "Serialization & saving"); only its member ``config.json`` is read, in memory,
after the archive's own directory has proved small enough to be listed.
"""

from __future__ import annotations

import io
import struct
import zipfile

from core.architecture.counts import ArchitectureError
from core.architecture.strict_json import MAX_BYTES
from core.numbers import byte_size

SIGNATURE = b"PK\x03\x04"
MEMBER = "config.json"
MAX_ARCHIVE_BYTES = 500_000_000
"""The file is held in memory while its one small member is extracted."""
MAX_MEMBERS = 1_000
MAX_DIRECTORY_BYTES = 1_000_000
MAX_RATIO = 500
"""Limit of unpacked over packed size. Deflate's own limit is about 1030; descriptions of models reach about 40."""
DAMAGED = "The .keras file is damaged or cut short; save it again."

_END = b"PK\x05\x06"
_END_64 = b"PK\x06\x07"
_END_BYTES = 22
_ENCRYPTED = 0x1
_MAX_COMMENT = 0xFFFF


def config_json(data: bytes) -> bytes:
    """Return the bytes of ``config.json`` in a .keras file. Raises ArchitectureError."""
    if len(data) > MAX_ARCHIVE_BYTES:
        raise ArchitectureError(
            f"The file is too large ({byte_size(len(data))}); accepted are .keras files of up to "
            f"{byte_size(MAX_ARCHIVE_BYTES)}. The text of model.to_json() is enough."
        )
    _check_directory(data)
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            member = _member(archive)
            with archive.open(member) as file:
                return file.read(MAX_BYTES + 1)
    except ArchitectureError:
        raise
    except Exception:  # zipfile may raise almost anything on a damaged archive
        raise ArchitectureError(DAMAGED) from None


def _check_directory(data: bytes) -> None:
    """Refuse a directory that would take a lot of memory to list, before listing it."""
    start = data.rfind(_END, max(0, len(data) - _END_BYTES - _MAX_COMMENT))
    if start < 0 or start + _END_BYTES > len(data):
        raise ArchitectureError(DAMAGED)
    if data[max(0, start - 20) : start].startswith(_END_64):
        raise ArchitectureError("The .keras file uses ZIP64, which is meant for archives larger than is accepted here.")
    members, size = struct.unpack_from("<HI", data, start + 10)
    if members > MAX_MEMBERS or size > MAX_DIRECTORY_BYTES:
        raise ArchitectureError(f"The .keras file holds {members:,} members; at most {MAX_MEMBERS:,} are accepted.")


def _member(archive: zipfile.ZipFile) -> zipfile.ZipInfo:
    members = [info for info in archive.infolist() if info.filename == MEMBER]
    if len(members) != 1:
        raise ArchitectureError(f"The .keras file holds {MEMBER} {len(members)} times; a saved model holds it once.")
    (info,) = members
    if info.flag_bits & _ENCRYPTED or info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ArchitectureError(
            f"The {MEMBER} in the .keras file is encrypted or packed in a way Keras does not write."
        )
    if info.file_size > min(MAX_BYTES, MAX_RATIO * max(1, info.compress_size)):
        raise ArchitectureError(
            f"The {MEMBER} in the .keras file unpacks to {byte_size(info.file_size)}; accepted are "
            f"{byte_size(MAX_BYTES)}, and at most {MAX_RATIO} times its packed size."
        )
    return info
