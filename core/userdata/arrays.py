"""Reader of untrusted .npy and .npz files of NumPy: headers, the choice of samples and labels, loading.

Only headers are read until :func:`load` is called, and nothing is ever unpickled.
"""

from __future__ import annotations

import io
import math
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from core.base.schema import UserError
from core.base.text import shown

MAX_ARRAYS = 1_000
NAMED = (("x", "y"), ("x_train", "y_train"), ("images", "labels"), ("data", "targets"))
NUMBERS = frozenset({"b1", "i1", "u1", "u2", "i2", "i4", "i8", "f2", "f4", "f8"})  # types tf.io.decode_raw reads, too
HEADER_READERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
LENGTH_BYTES = {(1, 0): 2, (2, 0): 4}
MAX_HEADER_BYTES = 10_000
"""NumPy's own limit, which it checks only after it has read the header."""
MAX_DIRECTORY_BYTES = 1_000_000
"""Limit of an .npz file's member list: a thousand members take a tenth of it."""
CHUNK_BYTES = 16 * 2**20


class DataError(UserError):
    """The data cannot be used."""


@dataclass(frozen=True)
class Array:
    """An array as declared by its header.

    Values begin at byte ``offset`` of the .npy file or of the .npz file's member, whose whole (unpacked) size is
    ``file_bytes``.
    """

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    fortran_order: bool
    offset: int
    file_bytes: int

    @property
    def samples(self) -> int:
        return self.shape[0] if self.shape else 0

    @property
    def values(self) -> int:
        """Number of values per sample."""
        return math.prod(self.shape[1:])

    @property
    def bytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize

    @property
    def numeric(self) -> bool:
        return f"{self.dtype.kind}{self.dtype.itemsize}" in NUMBERS

    @property
    def kind_of_value(self) -> str:
        return "text" if self.dtype.kind in "SU" else str(self.dtype)[:40]

    @property
    def whole(self) -> bool:
        return self.numeric and self.dtype.kind in "biu"


def read_arrays(path: Path) -> tuple[Array, Array | None]:
    """Return the samples and, if any, the labels that a .npy or .npz file declares. Raises DataError."""
    if path.suffix.lower() == ".npy":
        with path.open("rb") as file:
            x, y = _header(file, path.name, path.name, path.stat().st_size), None
    else:
        x, y = choose(_headers(path), path.name)
    for array in (x, y):
        if array is not None:
            _check_array(array, path)
    return x, y


def _headers(path: Path) -> list[Array]:
    """Return the arrays that an .npz file declares."""
    arrays = []
    try:
        with _SmallReads(path) as whole, zipfile.ZipFile(whole) as archive:
            names = [name for name in dict.fromkeys(archive.namelist()) if name.endswith(".npy")]
            if not 0 < len(names) <= MAX_ARRAYS:
                raise DataError(f"{shown(path.name)} holds {len(names):,} arrays; 1 to {MAX_ARRAYS:,} are accepted.")
            for name in names:
                with archive.open(name) as file:
                    size = archive.getinfo(name).file_size
                    arrays.append(_header(file, name.removesuffix(".npy"), path.name, size))
    except DataError:
        raise
    except Exception as error:  # zipfile may raise almost anything on a damaged archive
        raise _damaged(shown(path.name), "as an .npz file", error) from None
    return arrays


class _SmallReads(io.FileIO):
    """A file that refuses reads above :data:`MAX_DIRECTORY_BYTES`: zipfile reads the list of members in one piece."""

    def read(self, size: int | None = -1) -> bytes:
        data = super().read(MAX_DIRECTORY_BYTES + 1 if size is None or size < 0 else min(size, MAX_DIRECTORY_BYTES + 1))
        if data is not None and len(data) > MAX_DIRECTORY_BYTES:
            raise ValueError("a list of members too long")
        return data or b""


def _header(file: IO[bytes], name: str, where: str, file_bytes: int) -> Array:
    try:
        version = np.lib.format.read_magic(file)
        length = file.read(LENGTH_BYTES[version])
        if int.from_bytes(length, "little") > MAX_HEADER_BYTES:
            raise ValueError("a header too long")
        header = length + file.read(int.from_bytes(length, "little"))
        shape, fortran, dtype = HEADER_READERS[version](io.BytesIO(header), max_header_size=MAX_HEADER_BYTES)
        if any(length < 0 for length in shape) or math.prod(shape) * max(1, dtype.itemsize) >= 2**63:
            raise ValueError("an impossible shape")
        return Array(name, tuple(int(length) for length in shape), dtype, fortran, file.tell(), file_bytes)
    except Exception as error:  # the header is an untrusted Python literal: its parser may raise almost anything
        raise _damaged(_place(name, where), "as a NumPy array", error) from None


def _place(name: str, where: str) -> str:
    """Return the name of an array and its file for a sentence; an .npy file holds a single one."""
    return shown(name) if name == where else f"{shown(name)} in {shown(where)}"


def _damaged(what: str, how: str, error: Exception) -> DataError:
    if isinstance(error, PermissionError):
        return DataError(f"{what} may not be read: permission denied.")
    return DataError(f"{what} cannot be read {how}; it is damaged, cut short or something else.")


def choose(arrays: Iterable[Array], where: str) -> tuple[Array, Array | None]:
    """Choose samples and labels by their names (:data:`NAMED`), else by their shapes. Raises DataError."""
    by_name = {array.name: array for array in arrays}
    for x_name, y_name in NAMED:
        if x_name in by_name:
            x = by_name[x_name]
            return x, by_name.get(y_name) or _labels_for(x, by_name.values())
    tables = [array for array in by_name.values() if array.numeric and len(array.shape) >= 2]
    if not tables:
        raise DataError(
            f"{shown(where)} holds {_list(by_name.values())}; none of them is an array of samples, such as x."
        )
    return tables[0], _labels_for(tables[0], by_name.values())


def _labels_for(x: Array, arrays: Iterable[Array]) -> Array | None:
    """Return the first one-dimensional integer array as long as ``x``, else the first such table (one-hot)."""
    others = [a for a in arrays if a.whole and a.name != x.name and a.samples == x.samples]
    flat = [a for a in others if len(a.shape) == 1]
    tables = [a for a in others if len(a.shape) == 2]
    return next(iter(flat + tables), None)


def _list(arrays: Iterable[Array]) -> str:
    return ", ".join(f"{shown(a.name)} ({in_words(a.shape)} {a.kind_of_value})" for a in list(arrays)[:5])


def in_words(shape: tuple[int, ...]) -> str:
    """Format a shape as ``28 × 28``; a single value is ``1``."""
    return " × ".join(f"{length:,}" for length in shape) or "1"


def _check_array(array: Array, path: Path) -> None:
    what = _place(array.name, path.name)
    if array.dtype.hasobject:
        raise DataError(f"{what} holds pickled Python objects, which are never loaded; save plain numbers.")
    if not array.numeric:
        raise DataError(f"{what} holds {array.kind_of_value}; accepted are uint8, int32, int64, float32 and the like.")
    if not array.samples or not array.values:
        raise DataError(f"{what} is empty: its shape is {array.shape}.")
    if array.fortran_order and path.suffix.lower() == ".npy":
        raise DataError(f"{what} is stored column by column; save it with np.save(path, np.ascontiguousarray(x)).")
    there = max(0, array.file_bytes - array.offset)
    if there < array.bytes:
        raise DataError(f"{what} is cut short: it declares {array.bytes:,} bytes of values and holds {there:,}.")


def load(path: Path, array: Array) -> np.ndarray:
    """Load one array of an .npz file, in the machine's byte order. Raises DataError, or MemoryError if too large."""
    try:
        with zipfile.ZipFile(path) as archive, archive.open(f"{array.name}.npy") as file:
            values = np.lib.format.read_array(file, allow_pickle=False)
    except MemoryError:
        raise
    except Exception as error:
        raise _damaged(_place(array.name, path.name), "to its end", error) from None
    return values.astype(array.dtype.newbyteorder("="), copy=False)


def check_finite(values: np.ndarray, what: str) -> None:
    """Raise DataError if a value is not finite as float32. Works in pieces, so that no second copy is needed."""
    if values.dtype.kind != "f" or not len(values):
        return
    step = max(1, CHUNK_BYTES // max(1, values[0].nbytes))
    for first in range(0, len(values), step):
        with np.errstate(over="ignore"):
            piece = values[first : first + step].astype(np.float32)
        if not np.isfinite(piece).all():
            raise DataError(f"{what} holds values that are not finite (NaN, infinite or too large for float32).")


def class_labels(raw: np.ndarray, samples: int, classes: int, what: str) -> np.ndarray:
    """Convert numbers, a column of them, or one-hot rows to labels (samples,) int64 in 0 … classes − 1.

    One class means a sigmoid: labels 0 and 1. Raises DataError.
    """
    if len(raw) != samples:
        raise DataError(f"{what} holds {len(raw):,} labels for {samples:,} samples.")
    outputs = max(2, classes)
    if raw.ndim == 2 and raw.shape[1] == outputs:
        raw = raw.argmax(axis=1)
    raw = raw.reshape(samples, -1)
    if raw.shape[1] != 1:
        raise DataError(
            f"{what} holds {raw.shape[1]:,} values per sample; accepted are one label or {outputs} (one-hot)."
        )
    with np.errstate(invalid="ignore"):
        labels = raw[:, 0].astype(np.int64)
    if not np.array_equal(labels, raw[:, 0]):
        raise DataError(f"{what} holds labels that are not whole numbers.")
    low, high = int(labels.min()), int(labels.max())
    if low < 0 or high >= outputs:
        wrong = low if low < 0 else high
        raise DataError(f"{what} holds the label {wrong}; the network takes labels from 0 to {outputs - 1}.")
    return labels
