"""Reader of the architecture in a legacy HDF5 file of Keras (``model.save("model.h5")``): one attribute of its root.

HDF5's own library parses the file, which is untrusted, so it does that in a process of its own, with limits on its
time, memory and output (:mod:`core.networks.architecture.hdf5_child`), from a temporary copy. No weight is read and no
link is followed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from core.base.numbers import byte_size
from core.networks.architecture.counts import ArchitectureError
from core.networks.architecture.hdf5_child import NO_ATTRIBUTE, NO_LIBRARY, NO_TEXT, TOO_LARGE
from core.networks.architecture.strict_json import MAX_BYTES

SIGNATURE = b"\x89HDF\r\n\x1a\n"
ENDINGS = (".h5", ".hdf5")
LIMIT_S = 20.0
"""Limit of the whole process; importing h5py takes about half a second."""
INSTEAD = "The text of model.to_json() is enough."
DAMAGED = f"The HDF5 file is damaged or cut short, or takes too much time or memory to open. {INSTEAD}"
WHY = {
    NO_LIBRARY: f"HDF5 files are read by h5py, which is not installed here. {INSTEAD}",
    NO_ATTRIBUTE: f"The HDF5 file holds no model_config, but weights alone or another program's data. {INSTEAD}",
    NO_TEXT: f"The model_config in the HDF5 file is no text. {INSTEAD}",
    TOO_LARGE: f"The model_config in the HDF5 file is too large; accepted are up to {byte_size(MAX_BYTES)} of JSON.",
}


def model_config(data: bytes) -> bytes:
    """Return the text of the attribute ``model_config``. Raises ArchitectureError."""
    if not data.startswith(SIGNATURE):
        raise ArchitectureError(f"The file is no HDF5 file, whatever its name says. {INSTEAD}")
    child = Path(__file__).with_name("hdf5_child.py")
    with tempfile.TemporaryDirectory(prefix="breakeven-h5-") as folder:
        source, text = Path(folder, "model.h5"), Path(folder, "model.json")
        source.write_bytes(data)
        with text.open("wb") as output:
            try:
                done = subprocess.run(
                    (sys.executable, "-P", str(child), str(source), str(MAX_BYTES)),
                    stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.DEVNULL, timeout=LIMIT_S,
                    env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
                )  # fmt: skip
            except (OSError, subprocess.SubprocessError):
                raise ArchitectureError(DAMAGED) from None
        if done.returncode != 0:
            raise ArchitectureError(WHY.get(done.returncode, DAMAGED))
        with text.open("rb") as file:
            return file.read(MAX_BYTES + 1)
