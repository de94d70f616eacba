"""Virtual environments that see this one's packages, in which a training step of Keras is slower by a known time."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from pathlib import Path

PLANTED = """
import importlib.util, sys, time

class Slow:
    def find_spec(self, name, path, target=None):
        if name != "keras.src.backend.tensorflow.trainer":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        execute = spec.loader.exec_module
        spec.loader.exec_module = lambda module: (execute(module), slow(module.TensorFlowTrainer))
        return spec

def slow(trainer):
    make = trainer.make_train_function
    def make_slower(self, force=False):
        make(self, force)
        function = self.train_function
        self.train_function = lambda iterator: (time.sleep({seconds}), function(iterator))[1]
    trainer.make_train_function = make_slower

sys.meta_path.insert(0, Slow())
"""


def environment(folder: Path, slower_ms: float = 0.0, keras: str = "") -> str:
    """Make a virtual environment and return its interpreter.

    Every training step on TensorFlow takes ``slower_ms`` longer there, and packages' metadata give the version
    ``keras`` for Keras, if any.
    """
    subprocess.run((sys.executable, "-m", "venv", "--without-pip", str(folder)), check=True, capture_output=True)
    packages = Path(sysconfig.get_path("purelib", "venv", {"base": str(folder), "platbase": str(folder)}))
    ours = [path for path in sys.path if path.endswith("-packages")]
    (packages / "ours.pth").write_text("\n".join(ours))
    if slower_ms:
        (packages / "sitecustomize.py").write_text(PLANTED.format(seconds=slower_ms / 1000))
    if keras:
        (packages / f"keras-{keras}.dist-info").mkdir()
        (packages / f"keras-{keras}.dist-info" / "METADATA").write_text(f"Name: keras\nVersion: {keras}\n")
    return str(folder / ("Scripts" if sys.platform == "win32" else "bin") / "python")
