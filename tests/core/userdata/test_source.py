"""The content of a path: every kind is recognised, and every refusal is one sentence."""

import gzip
import os
import struct
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.networks.families import network_from_name
from core.userdata import source as datasource
from core.userdata.arrays import DataError
from core.userdata.source import check_data, check_fits, image_shape, pixels
from core.workload.spec import Workload
from tests.support.userdata import refused

X = np.arange(24, dtype=np.float32).reshape(4, 2, 3)
IMAGE = b"\x89PNG\r\n\x1a\n and so on"


def training(name: str) -> Workload:
    return Workload(network=network_from_name(name), mode="train")


def write(path: Path, content: bytes = IMAGE) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def record(payload: bytes) -> bytes:
    """Return a TFRecord frame without checksums, which only TensorFlow checks."""
    return struct.pack("<QI", len(payload), 0) + payload + b"\0\0\0\0"


def images(folder: Path, *names: str) -> Path:
    for name in names:
        write(folder / name)
    return folder


@pytest.mark.parametrize("name", ["a.tfrecord", "a.tfrecords", "a.TFRecord", "mnist-train.tfrecord-00000-of-00010"])
def test_one_tfrecord_file_is_recognised_by_its_name(tmp_path, name):
    path = write(tmp_path / name, record(b"hello") * 3)
    source = check_data(str(path))
    assert source.kind == "tfrecord"
    assert (source.paths, source.samples, source.words) == ((str(path),), None, f"1 TFRecord file, {3 * 21} bytes")


def test_a_folder_of_tfrecord_files_is_read_in_order_of_their_names(tmp_path):
    for number in (2, 0, 1):
        write(tmp_path / f"a.tfrecord-{number:05}-of-00003", record(b"hello") if number else b"")
    write(tmp_path / "README.txt")
    source = check_data(str(tmp_path))
    assert [path[-14:] for path in source.paths] == [f"{n:05}-of-00003" for n in range(3)]
    assert "3 TFRecord files" in source.words


def test_tfrecord_files_may_be_compressed_but_not_mixed(tmp_path):
    write(tmp_path / "a.tfrecord.gz", gzip.compress(record(b"hello"), mtime=0))
    assert check_data(str(tmp_path)).kind == "tfrecord"
    write(tmp_path / "b.tfrecord", record(b"hello"))
    assert "mixes compressed (.gz)" in refused(tmp_path)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        *[("a.tfrecord", content, "whole TFRecord record;")
          for content in (b"hello", b"PK\x03\x04" + bytes(100), record(b"hello")[:-1], b"\xff" * 40)],
        ("a.tfrecord.gz", b"hello", "compressed with gzip"),
        ("a.tfrecord.gz", gzip.compress(record(b"hello"), mtime=0)[:12], "compressed with gzip"),
        ("a.tfrecord", b"", "a.tfrecord is empty."),
        ("photo.jpg", IMAGE, "photo.jpg is one image; choose the folder that holds the images."),
        ("x.csv", IMAGE, "x.csv is of no kind that can be read; accepted are an .npy or .npz file"),
        ("weights.h5", IMAGE, "is of no kind"),
    ],
)  # fmt: skip
def test_a_file_of_another_kind_or_damaged_is_refused(tmp_path, name, content, words):
    assert words in refused(write(tmp_path / name, content))


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"a.tfrecord": b""}, "holds empty TFRecord files only"),
        ({"cat/1.png": IMAGE, "cat/2.png": b""}, "cat/2.png is empty; remove it or put the image back."),
        ({}, "holds no PNG or JPEG images and no TFRecord files; accepted are"),
        ({"a.txt": IMAGE}, "holds no PNG"),
        ({"x.npz": IMAGE}, "choose one of them, such as x.npz."),
        ({"a.png": IMAGE, "a.tfrecord": IMAGE}, "holds images and TFRecord files; choose a folder with one kind."),
        ({f"{n}.txt": IMAGE for n in range(5)}, "holds more than 4 files; choose a smaller folder."),
    ],
)
def test_a_folder_must_hold_one_kind_whole_and_not_too_many_files(tmp_path, monkeypatch, files, words):
    monkeypatch.setattr(datasource, "MAX_FILES", 4)
    for name, content in files.items():
        write(tmp_path / name, content)
    assert words in refused(tmp_path)


def test_images_are_found_at_any_depth_and_labelled_by_the_first_folder_if_there_is_one(tmp_path):
    folder = images(tmp_path / "set", "cat/1.png", "cat/more/2.JPG", "dog/3.jpeg", "dog/notes.txt", "dog/._3.jpeg")
    source = check_data(str(folder))
    assert (source.kind, source.samples, source.folders) == ("images", 3, ("cat", "dog"))
    assert [source.folder_of(path) for path in source.paths] == ["cat", "cat", "dog"]
    assert "in 2 folders" in source.words
    source = check_data(str(images(tmp_path / "flat", "1.png")))
    assert "no sub-folders" in source.words


def test_links_are_followed_a_circle_of_them_ends_and_a_path_may_begin_with_the_home_folder(tmp_path, monkeypatch):
    folder = images(tmp_path / "set", "cat/1.png")
    images(tmp_path / "elsewhere", "2.png")
    (folder / "dog").symlink_to(tmp_path / "elsewhere")
    (folder / "cat" / "back").symlink_to(folder)
    (folder / "gone.png").symlink_to(tmp_path / "nowhere.png")
    (tmp_path / "link").symlink_to(folder)
    assert check_data(str(tmp_path / "link")).folders == ("cat", "dog")
    assert check_data(str(folder)).samples == 2
    np.save(tmp_path / "x.npy", X)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert check_data("~/x.npy").path == str(tmp_path / "x.npy")


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("", "No path is given"),
        ("  ", "No path is given"),
        ("https://example.org/x.npz", "is an address; data are read from a path on this machine."),
        ("gs://bucket/x.tfrecord", "is an address"),
        ("/nowhere/x.npz", "There is nothing at /nowhere/x.npz on this machine."),
        ("a\0b.npz", "a?b.npz cannot be read"),
        ("/" + "a" * 3000, "cannot be read"),
        ("~nobody-of-that-name/x.npz", "cannot be read"),
        ("/dev/null", "is neither a file nor a folder"),
    ],
)
def test_a_path_that_leads_nowhere_is_refused(path, says):
    assert says in refused(path)


def test_what_is_no_regular_file_is_never_opened(tmp_path):
    os.mkfifo(tmp_path / "x.npy")
    assert "neither a file" in refused(tmp_path / "x.npy")


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_what_may_not_be_read_is_refused(tmp_path, monkeypatch, kind):
    def denied(*_, **__):
        raise PermissionError(13, "Permission denied", str(tmp_path / "x"))

    np.save(tmp_path / "x.npy", X)
    monkeypatch.setattr(*((Path, "open") if kind == "file" else (os, "scandir")), denied)
    assert "Permission denied" in refused(tmp_path / ("x.npy" if kind == "file" else ""))


@pytest.mark.skipif(sys.platform != "linux", reason="other systems allow no such names")
def test_a_name_that_is_no_text_is_shown_all_the_same(tmp_path):
    path = os.fsdecode(os.fsencode(tmp_path) + b"/\xff\n.npz")
    Path(path).write_bytes(b"hello")
    assert "? .npz cannot" in refused(path)


@pytest.mark.parametrize(
    ("shape", "image"),
    [
        ((784,), (28, 28, 1)),
        ((3072,), (32, 32, 3)),
        ((1,), (1, 1, 1)),
        ((20,), None),
        ((32, 24, 3), (32, 24, 3)),
        ((8, 8, 4), None),
        ((5, 5), None),
    ],
)
def test_the_image_that_an_input_holds(shape, image):
    assert image_shape(shape) == image


@given(side=st.integers(1, 300), channels=st.sampled_from([1, 3]))
def test_every_square_image_is_found_in_a_flat_input(side, channels):
    assert image_shape((side * side * channels,)) == (side, side, channels)


def test_arrays_of_another_size_or_for_tokens_do_not_fit(tmp_path):
    np.savez(tmp_path / "x.npz", x=np.zeros((2, 32, 32, 3), np.uint8))
    source = check_data(str(tmp_path / "x.npz"))
    check_fits(source, training("3072-8-4"))
    with pytest.raises(DataError) as caught:
        check_fits(source, training("784-8-4"))
    assert "takes 784" in str(caught.value)
    np.savez(tmp_path / "ids.npz", x=np.zeros((2, 6), np.int32))
    source = check_data(str(tmp_path / "ids.npz"))
    with pytest.raises(DataError, match=r"transformer-8x1-.* takes token"):
        check_fits(source, training("transformer-8x1-h2-s6-f2-v50-2"))


def test_images_fit_networks_that_take_images_and_have_a_class_for_each_folder(tmp_path):
    source = check_data(str(images(tmp_path / "set", "a/1.png", "b/1.png", "c/1.png")))
    check_fits(source, training("784-8-3"))
    check_fits(source, Workload(network=network_from_name("784-8-1"), mode="infer"))
    with pytest.raises(DataError, match=r"3 sub-folders, .*1\."):
        check_fits(source, training("784-8-1"))
    with pytest.raises(DataError, match="takes 20 values"):
        check_fits(source, training("20-8-3"))
    write(tmp_path / "set" / "outside.png")
    with pytest.raises(DataError, match="inside and outside"):
        check_fits(check_data(str(tmp_path / "set")), training("784-8-10"))


def _png(width: int, height: int) -> bytes:
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sII", 13, b"IHDR", width, height)


def _jpeg(width: int, height: int, frame: int = 0xC0, before: bytes = b"") -> bytes:
    """Begin of a JPEG: an application's segment, a Huffman table, then the frame with its size."""
    table = struct.pack(">BBH", 0xFF, 0xC4, 4) + b"\x00\x00"
    return b"\xff\xd8" + before + table + struct.pack(">BBHBHH", 0xFF, frame, 11, 8, height, width) + b"\1"


@pytest.mark.parametrize("make", [_png, _jpeg])
def test_an_image_that_unpacks_to_gigabytes_is_refused_by_its_header(tmp_path, make):
    write(tmp_path / "a.png", make(10_000, 10_000))
    assert check_data(str(tmp_path)).samples == 1
    write(tmp_path / "b.jpg", make(10_001, 10_000))
    assert "100,010,000 pixels" in refused(tmp_path)


def test_the_size_of_an_image_is_found_wherever_its_header_has_it():
    preview = struct.pack(">BBH", 0xFF, 0xE1, 60_000) + bytes(59_998)
    for frame in (0xC0, 0xC1, 0xC2, 0xCF):
        assert pixels(_jpeg(30, 20, frame, b"\xff\xff" + preview[1:])) == 600
    for damaged in (b"", _png(3, 4)[:20], _jpeg(3, 4)[:-4], b"\xff\xd8\xff", b"\xff\xd8" + b"\xff\xe1\0\0" * 9, IMAGE):
        assert not pixels(damaged)


def test_of_a_large_folder_the_headers_of_some_images_are_read(tmp_path, monkeypatch):
    monkeypatch.setattr(datasource, "MAX_LOOKED_AT", 3)
    looked: list[bytes] = []
    monkeypatch.setattr(datasource, "pixels", lambda header: looked.append(header))
    images(tmp_path, *(f"{index}.png" for index in range(10)))
    assert check_data(str(tmp_path)).samples == 10
    assert len(looked) == 3


def test_a_first_record_too_large_to_be_looked_at_is_refused(tmp_path):
    with write(tmp_path / "a.tfrecord", struct.pack("<QI", 300 * 2**20, 0)).open("r+b") as file:
        file.truncate(400 * 2**20)
    assert "315 MB" in refused(tmp_path / "a.tfrecord")
