"""Large profiler traces written byte by byte: the shapes that cost a reader most."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

HOST_NAME = b"\x22\x04host"


def varint(value: int) -> bytes:
    parts = bytearray()
    while value >= 0x80:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*parts, value))


def whole(number: int, value: int) -> bytes:
    """Return a field with a whole number."""
    return varint(number << 3) + varint(value)


def field(number: int, data: bytes) -> bytes:
    """Return a field with bytes or a message."""
    return varint(number << 3 | 2) + varint(len(data)) + data


def name_of(number: int, key: int, name: bytes) -> bytes:
    """Return an event's name (4) or a value's (5), as a plane declares it."""
    return field(number, whole(1, key) + field(2, whole(1, key) + field(2, name)))


def event(key: int, start_ps: int, length_ps: int, *stats: bytes) -> bytes:
    return field(4, whole(1, key) + whole(2, start_ps) + whole(3, length_ps) + b"".join(field(4, s) for s in stats))


def stat(key: int, value: int) -> bytes:
    return whole(1, key) + whole(4, value)


def line(number: int, name: bytes, events: bytes) -> bytes:
    return field(3, whole(1, number) + field(2, name) + events)


def plane(name: bytes, body: bytes) -> bytes:
    return field(1, field(2, name) + body)


OP = name_of(4, 1, b"layer/MatMul:MatMul") + name_of(4, 2, b"train") + name_of(5, 1, b"step_num")
OP += name_of(5, 2, b"correlation_id") + name_of(4, 3, b"kernel") + name_of(4, 4, b"cuLaunchKernel")
US = 1_000_000


def write(path: Path, parts: Iterable[bytes]) -> None:
    with path.open("wb") as file:
        file.writelines(parts)
        file.write(HOST_NAME)


def events(count: int, stats: int = 1) -> bytes:
    """Return successive operations, with that many values each."""
    values = (stat(2, 5),) * stats
    return b"".join(event(1, i * US, US // 2, *values) for i in range(count))


def steps(count: int, of: int = 1) -> bytes:
    """Return one thread with annotated steps, some operations in each."""
    length = US // (2 * of)
    body = b"".join(
        event(2, i * US, US - 10, stat(1, i))
        + b"".join(event(1, i * US + 10 + n * length, length - 10, stat(2, i + 1)) for n in range(of))
        for i in range(count)
    )
    return plane(b"/host:CPU", OP + line(1, b"python", body))


def thread(count: int, stats: int = 1) -> bytes:
    """Return one thread with that many operations."""
    return plane(b"/host:CPU", OP + line(1, b"python", events(count, stats)))


def threads(count: int, of: int = 1) -> bytes:
    """Return threads with a few operations each."""
    body = events(of)
    return plane(b"/host:CPU", OP + b"".join(line(i + 1, b"t/%d" % i, body) for i in range(count)))


def gpus(count: int, host: bytes = b"") -> bytes:
    """Return GPUs with a kernel each, beside a thread that launched them."""
    body = event(3, US, US, stat(2, 1))
    planes = (plane(b"/device:GPU:%d" % i, OP + line(1, b"Stream #1", body)) for i in range(count))
    return b"".join(planes) + (host or steps(10))


def gpu_steps(count: int) -> bytes:
    """Return a GPU's own line of steps, a kernel in each."""
    marks = b"".join(event(2, i * US, US - 10) for i in range(count))
    work = b"".join(event(3, i * US, US // 2, stat(2, i + 1)) for i in range(count))
    return plane(b"/device:GPU:0", OP + line(1, b"Steps", marks) + line(2, b"Stream #1", work)) + steps(10)


def streams(count: int) -> bytes:
    body = event(3, US, US, stat(2, 1))
    return plane(b"/device:GPU:0", OP + b"".join(line(i, b"Stream #%d" % i, body) for i in range(count))) + steps(10)


def names(count: int) -> bytes:
    """Return as many names of operations as events."""
    declared = b"".join(name_of(4, i + 1, b"l%d/MatMul:MatMul" % i) for i in range(count))
    body = b"".join(event(i + 1, i * US, US // 2) for i in range(count))
    return plane(b"/host:CPU", declared + line(1, b"python", body))


def long_names(count: int) -> bytes:
    """Return names that a careless pattern scans once for each of their words."""
    declared = b"".join(
        name_of(4, i + 1, b"cuA%d" % i + b"Await" * 400 + b"Synchronize" * 150 + b"!") for i in range(count)
    )
    body = b"".join(event(i + 1, i * US, US // 2) for i in range(count))
    return plane(
        b"/host:CPU", declared + OP.replace(b"\x08\x01", b"\x08\x7f") + line(1, b"python", body + event(127, 0, US))
    )


def stats_of_one_event(count: int) -> bytes:
    return plane(b"/host:CPU", OP + line(1, b"python", event(1, 0, US, *[stat(2, 5)] * count)))


def _of(*parts: Callable[[], bytes]) -> Callable[[Path], None]:
    return lambda path: write(path, (part() for part in parts))


WORST: dict[str, Callable[[Path], None]] = {
    "1.5 million events with 1 value": _of(lambda: thread(1_499_990)),
    "1.5 million events with 6 values": _of(lambda: thread(1_499_990, 6)),
    "5 million events": _of(lambda: thread(5_000_000)),
    "100 million values": _of(lambda: thread(1_000_000, 100)),
    "10,000 steps": _of(lambda: steps(10_000)),
    "1 million steps": _of(lambda: steps(700_000)),
    "1 million steps of a GPU": _of(lambda: gpu_steps(700_000)),
    "16 GPUs beside 10,000 steps": _of(lambda: gpus(16, steps(10_000))),
    "16 GPUs beside 1.4 million operations": _of(lambda: gpus(16, thread(1_400_000))),
    "16 GPUs beside 1,900 threads": _of(lambda: gpus(16, threads(1_900, 700))),
    "10,000 GPUs": _of(lambda: gpus(10_000)),
    "2,000 threads": _of(lambda: threads(2_000, 740)),
    "200,000 threads": _of(lambda: threads(200_000)),
    "200,000 streams": _of(lambda: streams(200_000)),
    "1,900 streams": _of(lambda: streams(1_900)),
    "290,000 names": _of(lambda: names(290_000)),
    "1 million names": _of(lambda: names(1_000_000)),
    "100,000 long names": _of(lambda: long_names(30_000)),
    "50 million values of one event": _of(lambda: stats_of_one_event(50_000_000)),
    "100 million empty fields": _of(lambda: plane(b"/host:CPU", b"\x08\x01" * 100_000_000)),
    "50 million empty events": _of(lambda: plane(b"/host:CPU", line(1, b"python", b"\x22\x00" * 50_000_000))),
    "50 million empty lines": _of(lambda: plane(b"/host:CPU", b"\x1a\x00" * 50_000_000)),
    "50 million empty planes": _of(lambda: b"\x0a\x00" * 50_000_000),
    "500 MB of a plane that is skipped": _of(lambda: plane(b"/host:metadata", b"\x08\x01" * 250_000_000)),
    "1 GB of events with a long text": _of(
        lambda: plane(
            b"/host:CPU", OP + line(1, b"python", event(1, 0, US, whole(1, 2) + field(5, b"x" * 10**6)) * 1000)
        )
    ),
}
