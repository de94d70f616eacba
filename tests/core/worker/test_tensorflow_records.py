"""TFRecord files through tf.data's real reader: the right values in the right order, or a sentence."""

import numpy as np
import pytest

from tests.support.owndata import (
    BYTES,
    INFER,
    TRAIN,
    X,
    Y,
    close_pool,
    encoded,
    later,
    number_records,
    outcome,
    refused,
    sample_count,
    samples,
    write_records,
)

pytestmark = pytest.mark.tensorflow


@pytest.fixture(scope="module", autouse=True)
def tensorflow_process():
    yield
    close_pool()


@pytest.mark.parametrize("compression", ["", "GZIP"])
@pytest.mark.parametrize("calls", [None, 2])
def test_records_of_numbers_come_out_as_they_are(tmp_path, compression, calls):
    name = "a.tfrecord.gz" if compression else "a.tfrecord"
    path = write_records(tmp_path / name, *number_records(), compression=compression)
    x, y = samples(path, calls=calls)
    np.testing.assert_allclose(x, X.reshape(5, 12))
    np.testing.assert_array_equal(y, Y)
    assert sample_count(path) == 5


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (BYTES[1].tobytes(), BYTES[1] / 255),
        (X[1].tobytes(), X[1]),
        (BYTES[1].ravel().tolist(), BYTES[1]),
        ("an image", BYTES[1] / 255),
    ],
    ids=["uint8", "float32", "int64", "png"],
)
def test_a_sample_in_a_record_may_be_numbers_raw_bytes_or_an_image(tmp_path, value, expected):
    value = encoded(BYTES[1]) if value == "an image" else value
    record = {"image": value, "height": [2], "width": [2], "image/class/label": [3], "image/name": b"cat"}
    (x,), (y,) = samples(write_records(tmp_path / "a.tfrecord", record))
    np.testing.assert_allclose(x, expected.ravel(), rtol=1e-6)
    assert y == 3


def test_a_folder_of_record_files_is_read_one_after_another_its_only_integer_the_label(tmp_path):
    every = number_records()
    write_records(tmp_path / "a.tfrecord-00001-of-00002", *every[3:])
    write_records(tmp_path / "a.tfrecord-00000-of-00002", *every[:3])
    np.testing.assert_array_equal(samples(tmp_path)[1], Y)
    assert sample_count(tmp_path) == 5
    path = write_records(tmp_path / "kind.tfrecord", *number_records(label="kind"))
    np.testing.assert_array_equal(samples(path)[1], Y)


@pytest.mark.parametrize(
    ("record", "workload", "says"),
    [
        ({"x": [1.0] * 5, "label": [1]}, TRAIN, "the 12 values that the network takes; found are label (int64, 1 val"),
        ({"x": [1.0] * 12}, TRAIN, "is a label (an integer named label); found are x (float, 12 values)."),
        ({"x": [1.0] * 12, "a": [1], "b": [2]}, TRAIN, "found are a (int64, 1 values), b (int64, 1 values), x"),
        (
            {"a": [1.0] * 12, "b": [2.0] * 12},
            INFER,
            "Several features in a.tfrecord fit the network; name one of them x",
        ),
        ({"a": b"hello"}, INFER, "found are a (bytes, 5 bytes)."),
        ({}, INFER, "The records in a.tfrecord are no tf.train.Example"),
        ({"x": [1.0] * 12, "label": [4]}, TRAIN, "A label in a.tfrecord is 4; the network takes labels from 0 to 3."),
        ({"x": [float("nan")] * 12}, INFER, "a.tfrecord: sample 1 holds values that are not finite"),
    ],
)
def test_records_that_do_not_fit_are_refused(tmp_path, record, workload, says):
    path = write_records(tmp_path / "a.tfrecord", record, {"x": [0.0]})
    assert says in refused(path, workload)


def test_records_that_are_no_examples_or_begin_damaged_are_refused(tmp_path):
    path = write_records(tmp_path / "a.tfrecord", b"\xff\xfe no protocol buffer")
    assert "are no tf.train.Example" in refused(path)
    path = write_records(tmp_path / "a.tfrecord", *number_records())
    content = bytearray(path.read_bytes())
    content[30] ^= 0xFF
    path.write_bytes(content)
    assert "near byte 12" in refused(path)


@pytest.mark.parametrize("calls", [None, 2])
def test_a_record_file_cut_short_is_explained_when_a_step_gets_there(tmp_path, calls):
    write_records(tmp_path / "a.tfrecord", *number_records(20))
    path = write_records(tmp_path / "b.tfrecord", *number_records(20))
    path.write_bytes(path.read_bytes()[:-9])
    assert "b.tfrecord is cut" in later(tmp_path, calls=calls)


@pytest.mark.parametrize(
    ("last", "says"),
    [
        ({"x": [0.0] * 12, "label": [7]}, "A label in a.tfrecord is 7; the network takes labels from 0 to 3."),
        ({"x": [0.0] * 12, "label": [-1]}, "A label in a.tfrecord is -1; the network takes labels from 0 to 3."),
        ({"x": [0.0] * 11, "label": [1]}, "A record in a.tfrecord has no feature “x” of the length and type"),
        ({"x": [0.0] * 12}, "A record in a.tfrecord has no feature “label” of the length and type"),
        ({"x": b"hello", "label": [1]}, "A record in a.tfrecord has no feature “x” of the length and type"),
    ],
)
@pytest.mark.parametrize("calls", [None, 2])
def test_a_later_record_of_another_kind_or_with_other_bytes_is_explained(tmp_path, last, says, calls):
    path = write_records(tmp_path / "a.tfrecord", *number_records(20), last)
    assert later(path, calls=calls).startswith(says)


def test_a_later_record_with_other_bytes_is_explained(tmp_path):
    good = {"x": bytes(12), "label": [1]}
    path = write_records(tmp_path / "a.tfrecord", *[good] * 20, {"x": bytes(11), "label": [1]})
    assert "number of values" in later(path)


@pytest.mark.parametrize("seed", range(12))
def test_any_corruption_of_a_record_file_gives_samples_or_a_sentence(tmp_path, seed):
    path = write_records(tmp_path / "a.tfrecord", *number_records(3))
    rng = np.random.default_rng(seed)
    content = bytearray(path.read_bytes())
    at = int(rng.integers(len(content)))
    content[at : at + 4] = rng.bytes(4)
    path.write_bytes(content[: int(rng.integers(1, len(content)))] if seed % 2 else content)
    reason, columns = outcome(path, TRAIN, 2)
    assert (reason.endswith(".") and "TensorFlow" not in reason) if reason else columns[0].shape[1:] == (12,)
