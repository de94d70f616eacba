"""Questions to Keras and TensorFlow in a separate process, since no other test may find them imported in pytest's."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from core.worker.process import worker_environment
from core.workload.spec import Target

ROOT = Path(__file__).parents[2]


def answered(*command: str, question: Any = None, target: Target | None = None) -> Any:
    """Return the JSON in the last line of Python run with ``command``, which reads ``question`` as JSON.

    Its environment is that of a worker of ``target`` (default: the CPU).
    """
    done = subprocess.run(
        [sys.executable, *command], input=json.dumps(question), capture_output=True, text=True, cwd=ROOT,
        env=worker_environment(target or Target()), timeout=280,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])
