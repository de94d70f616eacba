"""Architectures from legacy HDF5 files: the attribute read in a child process, and each refusal's sentence."""

import contextlib
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from core.base.schema import UserError
from core.networks.architecture import hdf5, hdf5_child
from core.networks.architecture.read import read_architecture
from core.networks.architecture.strict_json import MAX_BYTES
from core.networks.families.own import Own
from simulated.keras_files import branches, layer, sequential, source, text

MODEL = text(branches())


def h5_file(folder: Path, value: Any = None, weights: int = 0) -> bytes:
    """Return an HDF5 file with this ``model_config``, and an array of so many weights."""
    path = folder / "made.h5"
    with h5py.File(path, "w") as file:
        if value is not None:
            file.attrs["model_config"] = value
        file.create_group("model_weights").create_dataset("kernel", data=np.ones(weights, np.float32))
    return path.read_bytes()


def refusal(data: bytes, filename: str = "net.h5") -> str:
    with pytest.raises(UserError) as caught:
        read_architecture(data, filename)
    return str(caught.value)


@pytest.mark.parametrize("value", [MODEL, MODEL.decode(), np.bytes_(MODEL)], ids=["bytes", "text", "fixed length"])
def test_the_description_is_read_however_it_is_stored(tmp_path: Path, value: Any) -> None:
    data = h5_file(tmp_path, value, weights=100_000)
    assert read_architecture(data) == read_architecture(data, "net.hdf5") == read_architecture(MODEL)
    assert Own.from_file(data, "my net.h5").name == "my net"


def test_a_layer_that_is_not_read_is_named_as_in_json(tmp_path: Path) -> None:
    lambda_model = text(sequential(source(4), layer("Lambda", "mine")))
    assert refusal(h5_file(tmp_path, lambda_model)) == refusal(lambda_model, "net.json")


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (None, hdf5.WHY[hdf5_child.NO_ATTRIBUTE]),
        (3.5, hdf5.WHY[hdf5_child.NO_TEXT]),
        ([MODEL, MODEL], hdf5.WHY[hdf5_child.NO_TEXT]),
        (np.arange(4), hdf5.WHY[hdf5_child.NO_TEXT]),
        (b"x" * (MAX_BYTES + 1), hdf5.WHY[hdf5_child.TOO_LARGE]),
        (b"x" * 60_000_000, hdf5.WHY[hdf5_child.TOO_LARGE]),
    ],
    ids=["none", "number", "two", "array", "too large", "huge"],
)
def test_what_is_no_description_is_refused_with_its_reason(tmp_path: Path, value: Any, why: str) -> None:
    assert refusal(h5_file(tmp_path, value)) == why


def test_a_description_that_is_no_json_is_refused_as_text_is(tmp_path: Path) -> None:
    assert "not valid JSON" in refusal(h5_file(tmp_path, b"[1, 2"))
    assert "UTF-8" in refusal(h5_file(tmp_path, np.bytes_(b"\xff\xfe{}")))


def test_a_file_cut_anywhere_is_damaged_and_one_of_another_kind_is_no_hdf5(tmp_path: Path) -> None:
    whole = h5_file(tmp_path, MODEL, weights=1_000)
    for size in (8, 9, 60, 700, len(whole) // 2, len(whole) - 1):
        assert refusal(whole[:size]) == hdf5.DAMAGED
    assert "no HDF5 file" in refusal(whole[:7])
    assert "no HDF5 file" in refusal(MODEL)
    assert "no HDF5 file" in refusal(b"PK\x03\x04 an archive")


def test_flipped_bytes_are_refused_or_change_nothing(tmp_path: Path) -> None:
    whole, generator = h5_file(tmp_path, MODEL), np.random.default_rng(3)
    for _ in range(6):
        flipped = bytearray(whole)
        for place in generator.integers(8, 2_000, 5):
            flipped[place] = generator.integers(256)
        with contextlib.suppress(UserError):  # and nothing else
            assert read_architecture(bytes(flipped)) == read_architecture(MODEL)


def test_a_child_that_hangs_or_lacks_the_library_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data, package = h5_file(tmp_path, MODEL), tmp_path / "first" / "h5py.py"
    package.parent.mkdir()
    monkeypatch.setenv("PYTHONPATH", os.fspath(package.parent))
    package.write_text("raise ImportError")
    assert refusal(data) == hdf5.WHY[hdf5_child.NO_LIBRARY]
    package.write_text("import time; time.sleep(60)")
    monkeypatch.setattr(hdf5, "LIMIT_S", 0.5)
    begin_s = time.monotonic()
    assert refusal(data) == hdf5.DAMAGED
    assert time.monotonic() - begin_s < 20


def test_the_child_works_under_its_limits(tmp_path: Path) -> None:
    (tmp_path / "net.h5").write_bytes(h5_file(tmp_path, MODEL))
    code = (
        "import os, resource, sys; from core.networks.architecture.hdf5_child import main; "
        "status = main(sys.argv[1], 2_000_000); sys.stdout.flush(); "
        "kinds = (resource.RLIMIT_CORE, resource.RLIMIT_CPU, resource.RLIMIT_FSIZE, resource.RLIMIT_AS); "
        "print(*(resource.getrlimit(kind)[1] for kind in kinds), status, file=sys.stderr)"
    )
    done = subprocess.run(
        (sys.executable, "-c", code, str(tmp_path / "net.h5")), capture_output=True, text=True, check=True
    )
    *limits, status = map(int, done.stderr.split())
    assert (done.stdout.encode(), status) == (MODEL, 0)
    most = (0, hdf5_child.MAX_CPU_S, 2_000_000, hdf5_child.MAX_MEMORY_BYTES)
    assert all(0 <= limit <= allowed for limit, allowed in zip(limits, most, strict=True))
