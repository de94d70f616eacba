"""NumPy files of unknown origin: samples and labels are found, every refusal is one sentence, nothing is unpickled."""

import struct
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.userdata import source as datasource
from core.userdata.arrays import Array, DataError, choose, class_labels
from core.userdata.source import check_data, check_memory
from tests.support.userdata import refused

X = np.arange(24, dtype=np.float32).reshape(4, 2, 3)


class Unpickled:
    """Object that leaves a file behind when it is unpickled."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self):
        return (Path.touch, (self.trace,))


def test_samples_without_labels_are_an_npy_file_and_never_serve_as_their_own(tmp_path):
    np.save(tmp_path / "x.npy", X)
    source = check_data(str(tmp_path / "x.npy"))
    assert (source.kind, source.files, source.samples, source.memory_bytes) == ("arrays", 1, 4, 0)
    assert source.bytes == (tmp_path / "x.npy").stat().st_size
    assert "4 samples of" in source.words
    table = Array("table", (4, 3), np.dtype(np.int64), False, 0, 96)
    assert choose([table], "a.npz") == (table, None)


@pytest.mark.parametrize("names", [("x", "y"), ("x_train", "y_train"), ("images", "labels"), ("data", "targets")])
@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_arrays_of_an_npz_file_are_found_by_their_names(tmp_path, names, save):
    y = np.arange(4)
    save(tmp_path / "a.npz", **{"aside": np.zeros((9, 9)), names[0]: X, names[1]: y})
    source = check_data(str(tmp_path / "a.npz"))
    assert (source.x.name, source.y.name) == names
    assert source.memory_bytes == X.nbytes + y.nbytes
    assert f"labels {names[1]}" in source.words


def test_arrays_of_other_names_are_found_by_their_shapes_and_objects_left_alone(tmp_path):
    np.savez(tmp_path / "a.npz", ids=np.arange(7), pictures=X, hot=np.eye(4, dtype=np.int64), kinds=np.arange(4))
    source = check_data(str(tmp_path / "a.npz"))
    assert (source.x.name, source.y.name) == ("pictures", "kinds")
    np.savez(tmp_path / "b.npz", pictures=X, hot=np.eye(4, dtype=np.int64))
    assert check_data(str(tmp_path / "b.npz")).y.name == "hot"
    np.savez(tmp_path / "objects.npz", x=X, y=np.arange(4), names=np.array([{"a": 1}], dtype=object))
    assert check_data(str(tmp_path / "objects.npz")).x.name == "x"


def test_pickled_objects_are_refused_and_never_loaded(tmp_path):
    trace = tmp_path / "trace"
    objects = np.array([[Unpickled(trace)], [Unpickled(trace)]], dtype=object)
    np.savez(tmp_path / "a.npz", x=objects)
    np.save(tmp_path / "a.npy", objects)
    assert "pickled Python" in refused(tmp_path / "a.npz")
    assert "pickled Python" in refused(tmp_path / "a.npy")
    assert not trace.exists()


@pytest.mark.parametrize(
    ("array", "says"),
    [
        (np.array(["cat", "dog"]), "holds text; accepted are uint8"),
        (np.zeros((2, 2), np.complex64), "holds complex64"),
        (np.zeros((0, 4)), "is empty: its shape is (0, 4)"),
        (np.float32(1), "is empty: its shape is ()"),
        (np.zeros((3, 0)), "is empty"),
        (np.asfortranarray(X), "is stored column by column"),
    ],
)
def test_an_array_that_cannot_be_samples_is_refused(tmp_path, array, says):
    np.save(tmp_path / "x.npy", array)
    assert says in refused(tmp_path / "x.npy")


def test_an_npz_file_without_samples_tells_what_it_holds(tmp_path):
    np.savez(tmp_path / "a.npz", weights=np.arange(3), word=np.array("hello"))
    assert "weights (3 int64)" in refused(tmp_path / "a.npz")
    np.savez(tmp_path / "none.npz")
    assert "holds 0 arrays" in refused(tmp_path / "none.npz")
    np.savez(tmp_path / "b.npz", x=X, y=np.arange(3))
    assert "3 labels for" in refused(tmp_path / "b.npz")


@pytest.mark.parametrize("suffix", [".npy", ".npz"])
@pytest.mark.parametrize("keep", [1, 20, 100, -1])
def test_a_file_cut_short_is_refused(tmp_path, suffix, keep):
    path = tmp_path / f"x{suffix}"
    np.save(path, X) if suffix == ".npy" else np.savez(path, x=X)
    path.write_bytes(path.read_bytes()[:keep])
    assert "cut short" in refused(path)


def test_what_an_archive_declares_or_holds_is_limited_before_it_is_unpacked(tmp_path, monkeypatch):
    header = tmp_path / "big.npy"
    np.lib.format.open_memmap(header, mode="w+", dtype=np.uint8, shape=(1, 10)).flush()
    forged = header.read_bytes().replace(b"(1, 10)", b"(9, 9**9)")[:128]
    with zipfile.ZipFile(tmp_path / "code.npz", "w") as archive:
        archive.writestr("x.npy", forged)
    assert "NumPy array" in refused(tmp_path / "code.npz")
    huge = np.lib.format.header_data_from_array_1_0(np.zeros((1, 1), np.uint8)) | {"shape": (10, 2**30)}
    with (tmp_path / "huge.npy").open("wb") as file:
        np.lib.format.write_array_header_1_0(file, huge)
    with zipfile.ZipFile(tmp_path / "huge.npz", "w") as archive:
        archive.writestr("x.npy", (tmp_path / "huge.npy").read_bytes())
    assert "10,737,418,240 bytes" in refused(tmp_path / "huge.npz")
    with zipfile.ZipFile(tmp_path / "many.npz", "w") as archive:
        for number in range(1001):
            archive.writestr(f"{number}.npy", b"")
    assert "holds 1,001 arrays" in refused(tmp_path / "many.npz")
    np.savez_compressed(tmp_path / "bomb.npz", x=np.zeros((1000, 1000), np.uint8))
    assert (tmp_path / "bomb.npz").stat().st_size < 10_000
    monkeypatch.setattr(datasource, "MAX_UNPACKED_BYTES", 900_000)
    assert "at most 900" in refused(tmp_path / "bomb.npz")


def test_arrays_that_would_fill_the_memory_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(datasource, "available_memory_bytes", lambda: 10 * X.nbytes)
    np.savez(tmp_path / "a.npz", x=np.tile(X, (3, 1, 1)))
    assert "the 960 bytes" in refused(tmp_path / "a.npz")
    check_memory(datasource.inspect_data(str(tmp_path / "a.npz")), 0.5)
    np.save(tmp_path / "a.npy", np.tile(X, (100, 1, 1)))
    assert check_data(str(tmp_path / "a.npy")).samples == 400


@pytest.mark.parametrize("shape", ["(-1, 2)", "(10**9, 2)", f"({'9' * 4000}, 3)", "('a',)", "(" * 300, "2"])
def test_an_impossible_header_is_refused(tmp_path, shape):
    text = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    (tmp_path / "x.npy").write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + bytes(64))
    assert "NumPy array" in refused(tmp_path / "x.npy")


@settings(max_examples=150)
@given(where=st.floats(0, 1), change=st.binary(min_size=1, max_size=6), suffix=st.sampled_from([".npy", ".npz"]))
def test_any_corruption_gives_a_source_or_a_sentence(tmp_path, where, change, suffix):
    path = tmp_path / f"x{suffix}"
    np.save(path, X) if suffix == ".npy" else np.savez(path, x=X, y=np.arange(4))
    content = bytearray(path.read_bytes())
    at = int(where * (len(content) - 1))
    content[at : at + len(change)] = change
    path.write_bytes(content)
    try:
        sentence = check_data(str(path)).words
    except DataError as error:
        sentence = str(error) if str(error).endswith(".") else ""
    assert sentence


@pytest.mark.parametrize(
    "raw", [np.array([0, 2, 1], np.uint8), np.array([[0], [2], [1]]), np.array([0.0, 2.0, 1.0]), np.eye(3)[[0, 2, 1]]]
)
def test_labels_are_read_from_numbers_columns_and_one_hot_rows(raw):
    labels = class_labels(raw, 3, 3, "y")
    assert labels.dtype == np.int64
    assert labels.tolist() == [0, 2, 1]


@pytest.mark.parametrize(
    ("raw", "classes", "says"),
    [
        (np.array([0, 1, 3]), 3, "y holds the label 3; the network takes labels from 0 to 2."),
        (np.array([0, -1, 1]), 3, "y holds the label -1;"),
        (np.array([0, 1, 2]), 1, "the network takes labels from 0 to 1."),
        (np.array([0.5, 1, 1]), 3, "not whole numbers"),
        (np.array([np.nan, 1, 1]), 3, "not whole numbers"),
        (np.zeros((3, 5)), 3, "y holds 5 values per sample; accepted are one label or 3 (one-hot)."),
        (np.array([0, 1]), 3, "y holds 2 labels for 3 samples."),
    ],
)
def test_labels_that_do_not_fit_are_refused(raw, classes, says):
    with pytest.raises(DataError) as caught:
        class_labels(raw, 3, classes, "y")
    assert says in str(caught.value)


def _header_bomb(path: Path, size: int) -> Path:
    """Write a header of ``size`` bytes, compressed to a thousandth."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", b"\x93NUMPY\x02\x00" + struct.pack("<I", size) + b" " * size)
    return path


def _peak_bytes(path: Path) -> int:
    """Return the peak memory of the refusal."""
    tracemalloc.start()
    try:
        assert refused(path)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_header_is_not_unpacked_before_its_length_is_known_to_be_one(tmp_path):
    assert _peak_bytes(_header_bomb(tmp_path / "a.npz", 20_000_000)) < 3_000_000
    with (tmp_path / "a.npy").open("wb") as file:
        file.write(b"\x93NUMPY\x02\x00" + struct.pack("<I", 50_000_000))
        file.truncate(50_000_100)
    assert _peak_bytes(tmp_path / "a.npy") < 3_000_000


def test_a_long_list_of_members_is_not_read(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        for index in range(12_000):
            archive.writestr(f"{index:060}", b"")
    assert _peak_bytes(tmp_path / "a.npz") < 3_000_000
    np.savez(tmp_path / "many.npz", **{f"array{index}": np.zeros((2, 2)) for index in range(1_000)})
    assert check_data(str(tmp_path / "many.npz")).x.name == "array0"
