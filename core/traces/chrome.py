"""Reader of the Chrome JSON that PyTorch's profiler writes (``export_chrome_trace``), packed or not, without PyTorch.

Its times are microseconds. The host's events are operations (``cpu_op``), annotations (``user_annotation``, of which
``ProfilerStep#N`` is a step) and driver calls (``cuda_runtime``, ``cuda_driver``); a GPU's are ``kernel``,
``gpu_memcpy`` and ``gpu_memset``, tied to the call that launched them by ``correlation``. Of nested operations only the
outermost one that computes is kept (``aten::linear``, not the ``aten::addmm`` in it): it includes the cost of starting
it. Mere views of a tensor (``aten::view``) are not computation. A compiled graph counts whole, since its fused parts
have no events of their own.

Kernels are read as documented by Kineto's output_json.cpp (in PyTorch 2.9 to 2.13); only traces of the CPU were tried.
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from pydantic_core import from_json

from core.base.files import open_file, size_of
from core.base.numbers import byte_size
from core.base.schema import UserError
from core.traces.columns import MAX_PS, Texts
from core.traces.events import NONE, Events, Line, Trace, TraceError, compact, joined

MAX_FILE_BYTES = 256 * 1024**2
"""Limit of the text, which takes about eight times as much memory when parsed."""
MAX_EVENTS = 1_000_000
MAX_LINES = 2_000
PS_PER_US = 1_000_000
STEP = re.compile(r"ProfilerStep#(\d{1,9})")
LAUNCHES = ("cuda_runtime", "cuda_driver")
ON_DEVICE = ("kernel", "gpu_memcpy", "gpu_memset")
_HOST = ("cpu_op", "user_annotation", *LAUNCHES)
_OPERATION = re.compile(r"[A-Za-z_]\w*::\w+")
_GRAPH = re.compile(r"## Call (CompiledFxGraph \w{1,80}) ##")
_LOOKS = (
    "_conj _local_scalar_dense _reshape_alias _unsafe_view alias as_strided as_strided_ broadcast_tensors broadcast_to "
    "chunk contiguous detach detach_ empty empty_like empty_strided expand expand_as flatten item lift_fresh narrow "
    "numpy_T permute requires_grad_ reshape resize_ resolve_conj resolve_neg result_type select set_ size slice split "
    "split_with_sizes squeeze stride swapaxes t to _to_copy transpose type_as unbind unflatten unsafe_chunk "
    "unsafe_split unsqueeze view view_as"
)
_NO_WORK = frozenset(_LOOKS.split())
"""Operations of ``aten`` that are views, empty tensors, or copy only if they must; such a copy has its own event."""
_BROKEN = "The trace is damaged: it holds events at times that cannot be."


def read(path: Path) -> Trace:
    """Return the trace in a file. Raises TraceError if it cannot be used."""
    try:
        content = from_json(_text(path), cache_strings="all")
    except TraceError:
        raise
    except UserError as error:
        raise TraceError(str(error)) from None
    except ValueError as error:
        raise TraceError(f"{path.name} is no trace: it is not valid JSON ({error}).") from None
    except (OSError, EOFError, zlib.error) as error:
        raise TraceError(f"{path.name} cannot be unpacked: {error}.") from None
    events = content.get("traceEvents") if isinstance(content, dict) else None
    if not isinstance(events, list):
        raise TraceError(f"{path.name} is no trace of PyTorch's profiler: it has no list of traceEvents.")
    if len(events) > MAX_EVENTS:
        raise TraceError(f"The trace holds more than {MAX_EVENTS:,} events; trace fewer steps, or in less detail.")
    return _trace([event for event in events if isinstance(event, dict)])


def _text(path: Path) -> bytes:
    """Return the JSON of a file, unpacked. Raises TraceError if it is too large."""
    too_large = TraceError(
        f"{path.name} is larger than {byte_size(MAX_FILE_BYTES)}; trace fewer steps (a handful is enough)."
    )
    if size_of(path) > MAX_FILE_BYTES:
        raise too_large
    with open_file(path) as file:
        packed = path.suffix.lower() == ".gz"
        text = (gzip.GzipFile(fileobj=file) if packed else file).read(MAX_FILE_BYTES + 1)
    if len(text) > MAX_FILE_BYTES:
        raise too_large
    return text


def _trace(events: list[dict[str, Any]]) -> Trace:
    threads: dict[Any, str] = {}
    lines: dict[tuple[str, str, int], list[dict[str, Any]]] = defaultdict(list)
    for event in events:
        kind, args = event.get("cat"), event.get("args")
        args = args if isinstance(args, dict) else {}
        if event.get("ph") == "M" and event.get("name") == "thread_name":
            threads[str(event.get("tid"))] = str(args.get("name", ""))
        elif event.get("ph") == "X" and kind in ON_DEVICE:
            device, stream = (_number(args.get(key)) for key in ("device", "stream"))
            lines[f"/device:GPU:{device}", f"Stream #{stream}", stream].append(event)
        elif event.get("ph") == "X" and kind in _HOST:
            thread = str(event.get("tid"))
            lines["/host:CPU", thread, _number(thread)].append(event)
        if len(lines) > MAX_LINES:
            raise TraceError(f"The trace holds more than {MAX_LINES:,} threads and streams; trace fewer steps.")
    if not lines:
        raise TraceError("The trace holds no events of the host or of a GPU; record it while steps run.")
    first_us = min(_us(event, "ts") for group in lines.values() for event in group)
    texts = Texts()
    made = tuple(
        Line(plane, threads.get(name, name), number, _events(group, first_us, texts, plane == "/host:CPU"))
        for (plane, name, number), group in lines.items()
    )
    return Trace(made, texts.all())


def _events(group: list[dict[str, Any]], first_us: float, texts: Texts, is_host: bool) -> Events:
    """Return the columns of one line, without operations inside others that compute."""
    order = sorted(group, key=lambda event: (_us(event, "ts"), -_us(event, "dur")))
    rows, until_us = [], -1.0
    for event in order:
        name, begin_us, length_us = str(event.get("name", "")), _us(event, "ts"), _us(event, "dur")
        shown = _computing(name) if is_host and event["cat"] == "cpu_op" else None
        if is_host and event["cat"] == "cpu_op" and begin_us < until_us:
            continue
        if shown is not None:
            until_us = begin_us + length_us
        begin_ps, length_ps = round((begin_us - first_us) * PS_PER_US), round(length_us * PS_PER_US)
        if max(begin_ps, length_ps) > MAX_PS:
            raise TraceError(_BROKEN)
        tie, size, step = _values(event)
        rows.append((begin_ps, length_ps, texts.index((shown or name).encode()), tie, step, size, shown is not None))
    columns = list(zip(*rows, strict=True))
    start, length, named, link, steps, sizes = (np.array(column, dtype=np.int64) for column in columns[:6])
    nothing = np.zeros(len(rows), dtype=np.int32)
    return joined([
        Events(
            start_ps=start,
            duration_ps=length,
            name=named.astype(np.int32),
            link=compact(link),
            step=compact(steps),
            size_bytes=compact(sizes),
            source=compact(nothing),
            sink=compact(nothing),
            call=compact(nothing),
            computes=compact(np.array(columns[6], dtype=np.bool_)),
        )
    ])  # fmt: skip


def _computing(name: str) -> str | None:
    """Return the display name of an operation that computes; None for any other."""
    if (graph := _GRAPH.fullmatch(name)) is not None:
        return graph[1]
    space, _, operation = name.partition("::")
    return name if _OPERATION.fullmatch(name) and not (space == "aten" and operation in _NO_WORK) else None


def _values(event: dict[str, Any]) -> tuple[int, int, int]:
    """Return correlation id, bytes and step number of an event."""
    kind, args = event["cat"], event.get("args")
    args = args if isinstance(args, dict) else {}
    step = STEP.fullmatch(str(event.get("name"))) if kind == "user_annotation" else None
    tied = kind in LAUNCHES or kind in ON_DEVICE
    return (
        _number(args.get("correlation"), NONE) if tied else NONE,
        _number(args.get("bytes"), NONE) if kind == "gpu_memcpy" else NONE,
        int(step[1]) if step else NONE,
    )


def _number(value: Any, otherwise: int = 0) -> int:
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        return otherwise
    return number if abs(number) <= MAX_PS else otherwise


def _us(event: dict[str, Any], key: str) -> float:
    value = event.get(key, 0.0)
    if not isinstance(value, int | float) or not abs(value) < float("inf") or (key == "dur" and value < 0):
        raise TraceError(_BROKEN)
    return float(value)
