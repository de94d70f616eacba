"""Messages of the profiler about its own work: errors, lost events. The texts are those of XLA's CUPTI tracer.

``CuptiTracer::ErrorIfAny`` (xla/backends/profiler/gpu/cupti_tracer.cc) has three errors;
``CuptiTraceCollectorImpl::ReportNumEventsIfDropped`` (cupti_collector.cc) reports the number of dropped events. Each
text names the host, which is removed for privacy.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from core.numbers import counted

MAX_MESSAGES, MAX_MESSAGE_CHARS = 16, 500
_DROPPED = re.compile(r"(\d{1,15}) events dropped because")
NOT_PERMITTED, NOT_LOADED, NO_GPU = "Insufficient privilege", "Failed to load libcupti", "No GPU detected"
_PERMIT = (
    "run as root, start a container with --cap-add=SYS_ADMIN, or have the driver loaded with "
    "NVreg_RestrictProfilingToAdminUsers=0"
)
_INSTALL = "install it with “pip install -r requirements-gpu.txt”, or put the folder of libcupti.so on LD_LIBRARY_PATH"


def messages(given: Iterable[bytes], hosts: Iterable[bytes]) -> tuple[str, ...]:
    """Return each message once, without the names of the machines."""
    found: dict[str, None] = {}
    names = [host.decode(errors="replace") for host in hosts if host]
    for data in given:
        text = data[: 4 * MAX_MESSAGE_CHARS].decode(errors="replace")
        for name in names:
            text = text.removeprefix(f"{name}: ").replace(f" on {name}:", ":")
        found[" ".join(text.split())[:MAX_MESSAGE_CHARS]] = None
    return tuple(text for text in found if text)[:MAX_MESSAGES]


def dropped_events(warnings: Iterable[str]) -> int:
    """Return the number of GPU events the profiler reports as lost."""
    return sum(int(number) for text in warnings for number in _DROPPED.findall(text))


def no_kernels(device: str, errors: Iterable[str], dropped: int) -> str:
    """Explain why a trace of steps on a GPU may have none of its kernels, and what to do."""
    said = " ".join(errors)
    if dropped:
        return f"The profiler lost {counted(dropped, 'event')}, and no kernel of {device} is left; trace fewer steps."
    if NOT_PERMITTED in said:
        return f"NVIDIA's driver lets only administrators trace {device}: {_PERMIT}."
    if NOT_LOADED in said:
        return f"NVIDIA's CUPTI library was not found, without which {device} cannot be traced: {_INSTALL}."
    if NO_GPU in said:
        return f"The profiler saw no GPU, so {device} cannot be traced: see what “python -m core devices” says of it."
    also = f" The profiler says: {said}" if said else ""
    return (
        f"The trace has no kernel of {device}, most likely because NVIDIA's CUPTI library is missing ({_INSTALL}) or "
        f"not permitted ({_PERMIT}).{also}"
    )
