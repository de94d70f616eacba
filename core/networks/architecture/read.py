"""Reader of a user's own architecture from an untrusted file: Keras JSON, or the config.json in a .keras file.

Nothing from the file is executed, unpickled, unpacked to disk or deserialised by Keras: its text is parsed as plain
data and turned into a :class:`core.networks.architecture.graph.Graph` of layers on the allow-list
(:data:`core.networks.architecture.rules.RULES`), which is built with fresh weights.

Dropped, since a step's time does not depend on them: weights, initialisers, regularisers, constraints, seeds, dtypes
(the target's precision decides), how the model was compiled, and names of nested models, whose layers are taken one by
one. Also dropped, and worth knowing: ``trainable`` and ``training=…``. The whole network is measured as trained, even
if the file froze a part of it. A layer used both inside and outside a nested model appears in the file twice, and is
two layers here, as it is for Keras when it loads the file.
"""

from __future__ import annotations

import io
import struct
import zipfile

from core.base.numbers import byte_size
from core.networks.architecture.counts import ArchitectureError
from core.networks.architecture.flatten import graph_of
from core.networks.architecture.graph import Graph
from core.networks.architecture.keras_json import spec_of
from core.networks.architecture.strict_json import MAX_BYTES, parse
from core.networks.architecture.text import checked

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


HDF5 = b"\x89HDF\r\n\x1a\n"
ACCEPTED = "accepted are the text of model.to_json() and .keras files"


def read_architecture(data: bytes, filename: str = "", *, public: bool = True) -> Graph:
    """Return the network described by a file.

    ``public`` as in :func:`core.networks.architecture.text.checked`. Raises UserError, which names the faulty layer, if
    there is one.
    """
    if not data.strip():
        raise ArchitectureError(f"The file is empty; {ACCEPTED}.")
    if data.startswith(HDF5):
        raise ArchitectureError(f"The file is HDF5, which is never opened; {ACCEPTED}.")
    if data.startswith(SIGNATURE) or filename.lower().endswith(".keras"):
        data = config_json(data)
    model = parse(data)
    if not isinstance(model, dict) or "class_name" not in model:
        raise ArchitectureError(f"The file describes no Keras model; {ACCEPTED}.")
    return checked(graph_of(spec_of(model)), public=public)
