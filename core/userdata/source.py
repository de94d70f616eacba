"""Inspection of user data at a local path, cheaply and without a framework, with one sentence for any problem.

Pages and the command line inspect before a worker starts, and the worker inspects again. Headers, names and sizes are
read, never the samples themselves.
"""

from __future__ import annotations

import contextlib
import gzip
import itertools
import math
import os
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from core.base.numbers import byte_size, counted, percent
from core.base.text import shown
from core.machine.environment import available_memory_bytes
from core.userdata.arrays import Array, DataError, in_words, read_arrays
from core.workload.spec import Workload

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


def _area(width: bytes, height: bytes) -> int | None:
    return int.from_bytes(width, "big") * int.from_bytes(height, "big") if height else None


__all__ = ["DataError", "Source", "check_data", "check_fits", "check_memory", "image_shape", "inspect_data"]

Kind = Literal["arrays", "tfrecord", "images"]
MAX_FILES = 200_000
MAX_UNPACKED_BYTES = 8 * 2**30
MAX_SAMPLE_BYTES = 256 * 2**20
"""Limit of a TFRecord file's first record, which is read whole to see its content."""
MAX_PIXELS = 100_000_000
"""Limit of an image's pixels, above any camera's; decoded they take three bytes each."""
MAX_LOOKED_AT = 1_000
"""Number of images whose header is read: all of a small folder, else evenly chosen ones."""
MEMORY_SHARE = 0.25
"""Share of the memory free before workers start: each of two workers holds the arrays, and twice while loading."""

NAMES: dict[Kind, re.Pattern[str]] = {
    "arrays": re.compile(r"\.np[yz]$", re.IGNORECASE),
    "tfrecord": re.compile(r"\.tfrecords?(-\d+-of-\d+)?(\.gz)?$", re.IGNORECASE),
    "images": re.compile(r"\.(png|jpe?g)$", re.IGNORECASE),
}
RECORD_HEAD = 12  # a record begins with its length (uint64, little endian) and the checksum of that length
RECORD_FRAME = 16  # plus the checksum of the data at its end
ACCEPTED = "accepted are an .npy or .npz file, TFRecord files (.tfrecord), or a folder of PNG or JPEG images"


@dataclass(frozen=True)
class Source:
    """User data at a path.

    ``paths`` are the files in reading order; ``words`` describe them on a page. ``samples`` is None if only reading
    everything would tell (TFRecord files). ``folders`` are the sub-folders that give images their labels, sorted; ""
    stands for the folder itself.
    """

    path: str
    kind: Kind
    paths: tuple[str, ...]
    bytes: int
    words: str
    samples: int | None = None
    x: Array | None = None
    y: Array | None = None
    folders: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return shown(Path(self.path).name or self.path)

    @property
    def files(self) -> int:
        return len(self.paths)

    @property
    def memory_bytes(self) -> int:
        """Memory a worker needs throughout, for the unpacked arrays of an .npz file. All else is read in pieces."""
        arrays = (self.x, self.y) if self.path.lower().endswith(".npz") else ()
        return sum(array.bytes for array in arrays if array is not None)

    def folder_of(self, path: str) -> str:
        parts = Path(path).relative_to(self.path).parts
        return parts[0] if len(parts) > 1 else ""


def check_data(path: str) -> Source:
    """Inspect the data at a path and check everything that needs no samples and no network. Raises DataError."""
    source = inspect_data(path)
    check_memory(source, MEMORY_SHARE)
    return source


def inspect_data(path: str) -> Source:
    """Inspect the data like :func:`check_data`, without the check of free memory."""
    place = _place(path)
    with _readable(place):
        if place.is_dir():
            files = _scan(place)
            kind = _kind_of_files(files, place)
        else:
            files = [(str(place), place.stat().st_size)]
            kind = _kind_of_file(place)
            if not files[0][1]:
                raise DataError(f"{shown(place.name)} is empty.")
        describe = {"arrays": _arrays, "tfrecord": _records, "images": _images}[kind]
        return describe(place, [(file, size) for file, size in files if NAMES[kind].search(file)])


@contextlib.contextmanager
def _readable(place: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise DataError(f"{shown(str(error.filename or place))} cannot be read: {error.strerror or error}.") from None


def _place(path: str) -> Path:
    if not path.strip():
        raise DataError(f"No path is given; {ACCEPTED}.")
    if "://" in path:
        raise DataError(f"{shown(path)} is an address; data are read from a path on this machine.")
    try:
        place = Path(path).expanduser().absolute()
        place.stat()
    except FileNotFoundError:
        raise DataError(f"There is nothing at {shown(path)} on this machine.") from None
    except (OSError, RuntimeError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise DataError(f"{shown(path)} cannot be read: {shown(str(reason))}.") from None
    if not (place.is_dir() or place.is_file()):  # a device or a pipe could block its reader for ever
        raise DataError(f"{shown(path)} is neither a file nor a folder; {ACCEPTED}.")
    return place


def _kind_of_name(name: str) -> Kind | None:
    return next((kind for kind, pattern in NAMES.items() if pattern.search(name)), None)


def _kind_of_file(place: Path) -> Kind:
    kind = _kind_of_name(place.name)
    if kind == "images":
        raise DataError(f"{shown(place.name)} is one image; choose the folder that holds the images.")
    if kind is None:
        raise DataError(f"{shown(place.name)} is of no kind that can be read; {ACCEPTED}.")
    return kind


def _kind_of_files(files: list[tuple[str, int]], place: Path) -> Kind:
    """Return the kind of a folder, images or TFRecord files; array files beside them are ignored."""
    kinds = {_kind_of_name(path) for path, _ in files}
    if kinds >= {"tfrecord", "images"}:
        raise DataError(f"{shown(str(place))} holds images and TFRecord files; choose a folder with one kind.")
    for kind in ("tfrecord", "images"):
        if kind in kinds:
            return kind
    if files:
        raise DataError(
            f"{shown(str(place))} holds array files; choose one of them, such as {shown(Path(files[0][0]).name)}."
        )
    raise DataError(f"{shown(str(place))} holds no PNG or JPEG images and no TFRecord files; {ACCEPTED}.")


def _scan(folder: Path) -> list[tuple[str, int]]:
    """Return path and size of every file of a known kind below a folder, except hidden ones.

    Links are followed, a folder is entered only once, and at most :data:`MAX_FILES` entries are looked at.
    """
    files: list[tuple[str, int]] = []
    waiting, entered, looked = [str(folder)], set(), 0
    while waiting:
        here = waiting.pop()
        stat = os.stat(here)  # noqa: PTH116
        if (stat.st_dev, stat.st_ino) in entered:
            continue
        entered.add((stat.st_dev, stat.st_ino))
        with os.scandir(here) as listing:
            entries = sorted(itertools.islice(listing, MAX_FILES - looked + 1), key=lambda entry: entry.name)
        looked += len(entries)
        if looked > MAX_FILES:
            raise DataError(f"{shown(str(folder))} holds more than {MAX_FILES:,} files; choose a smaller folder.")
        visible = [entry for entry in entries if not entry.name.startswith(".")]
        waiting += [entry.path for entry in reversed(visible) if entry.is_dir()]
        for entry in visible:
            if _kind_of_name(entry.name) and entry.is_file():
                files.append((entry.path, entry.stat().st_size))
    return sorted(files)


def _arrays(place: Path, files: list[tuple[str, int]]) -> Source:
    x, y = read_arrays(place)
    if y is not None and y.samples != x.samples:
        raise DataError(f"{shown(y.name)} in {shown(place.name)} holds {y.samples:,} labels for {x.samples:,} samples.")
    labels = f"labels {shown(y.name)}" if y is not None else "no labels (training draws random ones)"
    words = f"{x.samples:,} samples of {in_words(x.shape[1:])} ({x.dtype}), {labels}"
    source = Source(str(place), "arrays", (str(place),), files[0][1], words, x.samples, x, y)
    if source.memory_bytes > MAX_UNPACKED_BYTES:
        raise DataError(
            f"{source.name} unpacks to {byte_size(source.memory_bytes)}; at most {byte_size(MAX_UNPACKED_BYTES)} are "
            "accepted. Save the samples as an .npy file, which is read in pieces."
        )
    return source


def _records(place: Path, files: list[tuple[str, int]]) -> Source:
    filled = [(path, size) for path, size in files if size]
    if not filled:
        raise DataError(f"{shown(str(place))} holds empty TFRecord files only.")
    if len({path.lower().endswith(".gz") for path, _ in files}) > 1:
        raise DataError(f"{shown(str(place))} mixes compressed (.gz) and plain TFRecord files; choose one kind.")
    _check_first_record(*filled[0])
    size = sum(size for _, size in files)
    words = f"{counted(len(files), 'TFRecord file')}, {byte_size(size)}"
    return Source(str(place), "tfrecord", tuple(path for path, _ in files), size, words)


def _check_first_record(path: str, size: int) -> None:
    name = shown(Path(path).name)
    compressed = path.lower().endswith(".gz")
    try:
        with gzip.open(path) if compressed else Path(path).open("rb") as file:
            head = file.read(RECORD_HEAD)
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise DataError(f"{name} is not compressed with gzip, or is damaged.") from None
    length = int.from_bytes(head[:8], "little")
    room = MAX_UNPACKED_BYTES if compressed else size - RECORD_FRAME
    if len(head) < RECORD_HEAD or not 0 < length <= room:
        raise DataError(f"{name} does not begin with a whole TFRecord record; it is damaged or something else.")
    if length > MAX_SAMPLE_BYTES:
        raise DataError(
            f"{name} begins with a record of {byte_size(length)}; at most {byte_size(MAX_SAMPLE_BYTES)} are accepted."
        )


def _images(place: Path, files: list[tuple[str, int]]) -> Source:
    if empty := [path for path, size in files if not size]:
        raise DataError(f"{shown(empty[0])} is empty; remove it or put the image back.")
    size, paths = sum(size for _, size in files), tuple(path for path, _ in files)
    for path in paths[:: -(-len(paths) // MAX_LOOKED_AT)]:
        with Path(path).open("rb") as file:
            inside = pixels(file.read(HEADER_BYTES)) or 0
        if inside > MAX_PIXELS:
            what = shown(Path(path).name)
            raise DataError(f"{what} has {inside:,} pixels; at most {MAX_PIXELS:,} are accepted, so make it smaller.")
    source = Source(str(place), "images", paths, size, "", len(paths))
    folders = tuple(sorted({source.folder_of(path) for path in paths}))
    where = "no sub-folders (every label is 0)" if folders == ("",) else f"in {counted(len(folders), 'folder')}"
    words = f"{counted(len(files), 'image')}{',' if folders == ('',) else ''} {where}, {byte_size(size)}"
    return Source(str(place), "images", paths, size, words, len(paths), folders=folders)


def check_memory(source: Source, share: float) -> None:
    """Raise DataError if the data would take more than that share of the memory that is free now."""
    free = available_memory_bytes()
    if source.memory_bytes > share * free:
        raise DataError(
            f"{source.name} unpacks to {byte_size(source.memory_bytes)}, more than {percent(share)} of the "
            f"{byte_size(free)} of memory that are free; save the samples as an .npy file, which is read in pieces."
        )


def image_shape(input_shape: tuple[int, ...]) -> tuple[int, int, int] | None:
    """Return height, width and channels (1 or 3) of the image in a network's input; None if it is not an image.

    A flat input of n values is a square image: 784 is 28 × 28 × 1, 3072 is 32 × 32 × 3.
    """
    if len(input_shape) == 3:
        height, width, channels = input_shape
        return (height, width, channels) if channels in (1, 3) else None
    if len(input_shape) != 1:
        return None
    sides = ((math.isqrt(input_shape[0] // c), c) for c in (1, 3))
    return next(((side, side, c) for side, c in sides if side * side * c == input_shape[0]), None)


def check_fits(source: Source, workload: Workload) -> None:
    """Raise DataError if the data are known not to fit the network, without reading samples."""
    network = workload.network
    if network.vocabulary is not None:
        raise DataError(f"{source.name} holds numbers or images; {network.name} takes token ids, which are drawn only.")
    if workload.training and network.label_shape:
        takes = in_words(network.label_shape)
        raise DataError(f"{source.name} gives one label per sample; {network.name} takes {takes}.")
    takes = f"the network takes {in_words(network.input_shape)}"
    if source.x is not None and source.x.values != math.prod(network.input_shape):
        raise DataError(f"The arrays in {source.name} have {in_words(source.x.shape[1:])} values per sample; {takes}.")
    if source.kind != "images":
        return
    if image_shape(network.input_shape) is None:
        raise DataError(f"Images do not fit: {takes} values, which are no image of 1 or 3 channels.")
    if not workload.training:
        return
    if "" in source.folders and len(source.folders) > 1:
        raise DataError(f"{source.name} holds images inside and outside sub-folders, which give the labels; sort them.")
    if len(source.folders) > max(2, network.classes):
        raise DataError(
            f"{source.name} has {len(source.folders):,} sub-folders, one for each label; "
            f"the network takes labels from 0 to {max(2, network.classes) - 1}."
        )


RANDOM_LABELS = (
    "Labels drawn at random hold no signal to learn, so they have no gradient noise scale; labels come from a teacher "
    "network or from your own files."
)


def check_labelled(path: str, workload: Workload) -> Source:
    """Return user data that fit the network and have labels. Raises DataError.

    Only the worker, which reads them, can tell if TFRecord files have labels.
    """
    source = check_data(path)
    check_fits(source, workload)
    if (source.kind == "arrays" and source.y is None) or source.folders == ("",):
        beside = "an .npz file with the labels beside the samples"
        where = beside if source.kind == "arrays" else "one sub-folder a class"
        raise DataError(f"{source.name} holds no labels, and random ones hold no signal to learn; give {where}.")
    return source
