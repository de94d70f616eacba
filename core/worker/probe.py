"""What a framework sees of this machine's devices, asked in a process of its own."""

from __future__ import annotations

from core.schema import Frozen
from core.spec import Target
from core.worker.process import ProcessWorker
from core.worker.protocol import WorkerError

PROBE_TARGET = "gpu:0"


class DeviceProbe(Frozen):
    """TensorFlow's answer; ``said`` is its reason where there is no GPU."""

    gpu_found: bool
    device_name: str = ""
    said: str = ""


def probe_devices(deadline_s: float) -> DeviceProbe:
    """Ask TensorFlow, in a short-lived worker process, what it makes of ``gpu:0``."""
    worker = ProcessWorker(Target(device=PROBE_TARGET))
    try:
        worker.wait_ready(deadline_s)
        return DeviceProbe(gpu_found=True, device_name=worker.ready.device_name)
    except WorkerError as error:
        return DeviceProbe(gpu_found=False, said=error.reason)
    finally:
        worker.close()
