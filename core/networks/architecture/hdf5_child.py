"""Process that reads one attribute of an untrusted HDF5 file: ``hdf5_child.py FILE MAX_BYTES`` writes it to stdout.

It imports nothing of this program, and its exit status says why there is no text.
"""

from __future__ import annotations

import contextlib
import os
import sys

NO_LIBRARY, NO_ATTRIBUTE, NO_TEXT, TOO_LARGE = range(3, 7)
"""Exit statuses; any other but 0 means that HDF5 could not open the file within the limits."""
ATTRIBUTE = b"model_config"
MAX_CPU_S = 10
MAX_MEMORY_BYTES = 2_000_000_000


def limit(max_bytes: int) -> None:
    """Limit this process's time, memory and output, on systems that can."""
    if os.name != "posix":
        return
    import resource

    for kind, most in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_CPU, MAX_CPU_S),
        (resource.RLIMIT_FSIZE, max_bytes),
        (resource.RLIMIT_AS, MAX_MEMORY_BYTES),
    ):
        with contextlib.suppress(OSError, ValueError):  # the limit is lower already
            resource.setrlimit(kind, (most, most))


def main(path: str, max_bytes: int) -> int:
    """Write the attribute's text to stdout; return the exit status."""
    try:
        import h5py
        import numpy as np
    except ImportError:
        return NO_LIBRARY
    limit(max_bytes)
    root = h5py.h5g.open(h5py.h5f.open(os.fsencode(path), h5py.h5f.ACC_RDONLY), b"/")
    if not h5py.h5a.exists(root, ATTRIBUTE):
        return NO_ATTRIBUTE
    attribute = h5py.h5a.open(root, ATTRIBUTE)
    kind = attribute.get_type()
    if not isinstance(kind, h5py.h5t.TypeStringID) or attribute.get_space().get_simple_extent_npoints() != 1:
        return NO_TEXT
    if not kind.is_variable_str() and kind.get_size() > max_bytes:
        return TOO_LARGE
    value = np.empty(attribute.shape, attribute.dtype)
    attribute.read(value)
    text = value.reshape(-1)[0]
    text = text.encode() if isinstance(text, str) else bytes(text)
    if len(text) > max_bytes:
        return TOO_LARGE
    sys.stdout.buffer.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2])))
