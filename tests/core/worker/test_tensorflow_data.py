"""Own arrays and images through tf.data's real readers: the right values in the right order, or a sentence."""

import numpy as np
import pytest

from core.networks.families import network_from_name
from core.workload.spec import Workload
from tests.support.owndata import (
    BYTES,
    INFER,
    SIGMOID,
    X,
    Y,
    close_pool,
    explained_without_reading,
    image_folder,
    later,
    outcome,
    refused,
    sample_count,
    samples,
    times_unpacked,
    write_image,
)

pytestmark = pytest.mark.tensorflow


@pytest.fixture(scope="module", autouse=True)
def tensorflow_process():
    yield
    close_pool()


@pytest.mark.parametrize("calls", [None, 2])
@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_arrays_come_out_as_they_are_in_their_order(tmp_path, calls, save):
    save(tmp_path / "a.npz", x=X, y=Y)
    x, y = samples(tmp_path / "a.npz", calls=calls)
    assert (x.dtype, y.dtype) == (np.float32, np.int64)
    np.testing.assert_array_equal(x, X.reshape(5, 12))
    np.testing.assert_array_equal(y, Y)


def test_inference_needs_no_labels_and_one_class_takes_them_as_a_column_of_floats(tmp_path):
    np.savez(tmp_path / "a.npz", x=X, y=Y + 100)
    (x,) = samples(tmp_path / "a.npz", INFER)
    assert x.shape == (5, 12)
    np.savez(tmp_path / "a.npz", x=X, y=Y % 2)
    _, y = samples(tmp_path / "a.npz", SIGMOID)
    assert y.dtype == np.float32
    assert y.tolist() == [[0], [1], [0], [1], [1]]


def test_bytes_are_scaled_and_other_numbers_are_not(tmp_path):
    np.savez(tmp_path / "bytes.npz", x=BYTES)
    np.savez(tmp_path / "numbers.npz", x=BYTES.astype(np.int32))
    np.testing.assert_allclose(samples(tmp_path / "bytes.npz", INFER)[0], BYTES.reshape(5, 12) / 255, rtol=1e-6)
    np.testing.assert_array_equal(samples(tmp_path / "numbers.npz", INFER)[0], BYTES.reshape(5, 12))


@pytest.mark.parametrize("dtype", ["?", "i1", "u1", "<u2", ">u2", "<i4", ">i8", "<f2", ">f4", "<f8"])
def test_an_npy_file_is_read_from_the_file_whatever_its_numbers(tmp_path, dtype):
    whole = BYTES.astype(dtype)
    np.save(tmp_path / "x.npy", whole)
    np.savez(tmp_path / "x.npz", x=whole)
    with (tmp_path / "x.npy").open("ab") as file:
        file.write(b"something after the values")
    expected = whole.astype(np.float32).reshape(5, 12) / (255 if dtype == "u1" else 1)
    for name in ("x.npy", "x.npz"):
        np.testing.assert_allclose(samples(tmp_path / name, INFER)[0], expected, rtol=1e-6)


@pytest.mark.parametrize("name", ["x.npy", "x.npz"])
def test_samples_without_labels_get_the_same_random_ones_each_time(tmp_path, name):
    many = np.zeros((200, 12), np.float32)
    np.save(tmp_path / name, many) if name == "x.npy" else np.savez(tmp_path / name, x=many)
    x, y = samples(tmp_path / name)
    assert len(x) == 200
    assert set(y.tolist()) == {0, 1, 2, 3}
    np.testing.assert_array_equal(y, samples(tmp_path / name)[1])
    assert set(samples(tmp_path / name, SIGMOID)[1].ravel().tolist()) == {0, 1}


def test_an_archive_is_unpacked_once_until_it_is_replaced(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, x=X, y=Y)
    before = times_unpacked()
    samples(path), samples(path, INFER)
    assert times_unpacked() == before + 1
    np.savez(tmp_path / "b.npz", x=X + 1, y=Y)
    (tmp_path / "b.npz").replace(path)
    np.testing.assert_array_equal(samples(path, INFER)[0], (X + 1).reshape(5, 12))


@pytest.mark.parametrize(
    ("arrays", "says"),
    [
        ({"x": np.zeros((3, 5))}, "The arrays in a.npz have 5 values per sample; the network takes 12."),
        ({"x": X, "y": Y + 1}, "y in a.npz holds the label 4; the network takes labels from 0 to 3."),
        ({"x": X, "y": Y + 0.5}, "y in a.npz holds labels that are not whole numbers."),
        ({"x": X, "y": Y[:3]}, "y in a.npz holds 3 labels for 5 samples."),
        ({"x": np.where(X > 0.5, np.nan, X)}, "x in a.npz holds values that are not finite"),
        ({"x": X.astype(np.float64) * 1e300}, "x in a.npz holds values that are not finite"),
        ({"x": np.array([[{}] * 12])}, "x in a.npz holds pickled Python objects"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(tmp_path, arrays, says):
    np.savez(tmp_path / "a.npz", **arrays)
    assert says in refused(tmp_path / "a.npz")


def test_values_that_are_not_finite_or_damaged_in_their_midst_are_found(tmp_path):
    many = np.zeros((500, 12), np.float16)
    many[-1, -1] = np.inf
    np.save(tmp_path / "x.npy", many)
    assert "are not finite" in refused(tmp_path / "x.npy")
    path = tmp_path / "a.npz"
    np.savez(path, x=np.ones((2000, 12), np.float32))
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)
    assert "to its end" in refused(path)


@pytest.mark.parametrize("kind", ["png", "jpg"])
def test_images_are_decoded_resized_and_labelled_by_their_folder(tmp_path, kind):
    for folder, grey in (("a", 0), ("b", 51), ("c", 255)):
        write_image(tmp_path / folder / f"1.{kind}", np.full((7, 5, 3), grey, np.uint8), kind)
    x, y = samples(tmp_path)
    assert y.tolist() == [0, 1, 2]
    np.testing.assert_allclose(x, np.repeat([[0.0], [0.2], [1.0]], 12, axis=1), atol=0.005)
    assert sample_count(tmp_path) == 3


def test_a_flat_input_of_one_channel_takes_grey_images_in_their_order(tmp_path):
    square = Workload(network=network_from_name("16-8-4"), mode="train")
    for number in range(12):
        write_image(tmp_path / f"{number:02}.png", np.full((4, 4, 1), number, np.uint8))
    x, y = samples(tmp_path, square, calls=2)
    np.testing.assert_allclose(x[:, 0] * 255, np.arange(12), atol=1e-4)
    assert y.tolist() == [0] * 12


@pytest.mark.parametrize("content", [b"hello", b"\x89PNG\r\n\x1a\n1234", b"\xff\xd8\xff\xe0 no more"])
def test_an_image_that_cannot_be_decoded_is_named(tmp_path, content):
    image_folder(tmp_path / "set")
    (tmp_path / "set" / "cat" / "01.png").write_bytes(content)
    assert "cat/01.png cannot be" in refused(tmp_path / "set")


@pytest.mark.parametrize("calls", [None, 2])
def test_a_damaged_image_is_named_when_a_step_gets_there(tmp_path, calls):
    folder = image_folder(tmp_path / "set", 40)
    path = folder / "dog" / "38.png"
    path.write_bytes(path.read_bytes()[:40])
    assert "dog/38.png cannot be" in later(folder, calls=calls)


def test_an_image_that_goes_missing_is_explained(tmp_path):
    folder = image_folder(tmp_path / "set", 40)
    says = later(folder, removed=folder / "dog" / "38.png")
    assert "set is gone" in says


def test_more_folders_than_classes_are_refused_in_training_only(tmp_path):
    for number in range(5):
        write_image(tmp_path / "set" / str(number) / "1.png", BYTES[0])
    assert "5 sub-folders" in refused(tmp_path / "set")
    assert len(samples(tmp_path / "set", INFER)[0]) == 5


def test_nothing_at_a_path_is_the_outcome_of_a_cell_and_errors_of_other_origin_are_not_explained(tmp_path):
    assert f"nothing at {tmp_path}/x.npz" in refused(tmp_path / "x.npz")
    assert explained_without_reading(tmp_path) == [None, None, None]


@pytest.mark.parametrize("seed", range(12))
def test_any_corruption_of_an_image_gives_samples_or_a_sentence(tmp_path, seed):
    rng = np.random.default_rng(seed)
    kind = "png" if seed % 2 else "jpg"
    path = write_image(tmp_path / f"1.{kind}", rng.integers(0, 256, (9, 9, 3)).astype(np.uint8), kind)
    content = bytearray(path.read_bytes())
    for at in rng.integers(0, len(content), 6):
        content[at] = rng.integers(256)
    path.write_bytes(content)
    reason, columns = outcome(tmp_path, INFER, None)
    assert "cannot be decoded" in reason if reason else columns[0].shape == (1, 12)
