"""Questions to Keras and TensorFlow in a process of their own, since no other test may find them in pytest's."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from core.spec import Target
from core.worker.process import worker_environment

ROOT = Path(__file__).parents[2]


def answered(*command: str, question: Any = None, target: Target | None = None) -> Any:
    """The JSON in the last line that Python prints when run with ``command``; it reads ``question`` as JSON. Its
    environment is that of a worker of the target, one of the CPU unless it is given.
    """
    done = subprocess.run(
        [sys.executable, *command], input=json.dumps(question), capture_output=True, text=True, cwd=ROOT,
        env=worker_environment(target or Target()), timeout=280,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])
