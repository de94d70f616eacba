"""Time and memory of reading profiler traces: synthetic ones of a given size, and growth with a trace's parts.

    python -m benchmarks.trace_reader [--megabytes 25 100] [--no-growth] [--json out.json]

Growth: events, threads, steps and GPUs are doubled twice, up to the accepted number, with all else unchanged; beside
the seconds of CPU time stands their ratio to the previous line, which is at most 2 if the work is linear. Each trace of
a size has one GPU and one host thread, and events with realistic values (about 75 bytes per event; a recorded one had
130). It is read and analysed in its own process, whose peak resident memory includes the interpreter and numpy (printed
separately, before reading).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from core.traces.xplane import message
from simulated import large_traces
from simulated.traces import MadeTrace

STEP_KERNELS = 1_000
DETAILS: dict[str, int | str] = dict.fromkeys(("occupancy_pct", "kernel_details", "group_id", "scope_range_id"), 2**50)
ALLOCATION: dict[str, int | str] = {
    **dict.fromkeys(("bytes_reserved", "bytes_allocated", "bytes_available", "peak_bytes_in_use", "addr"), 2**45),
    **dict.fromkeys(("requested_bytes", "allocation_bytes", "id", "data_type"), 1_000),
    "allocator_name": "gpu_host_bfc",
    "tf_op": "__inference_train_step_1",
}
CHILD = """
import json, resource, sys, time
from pathlib import Path
from core.traces.report import report
from core.traces.xplane import read

def peak_mb():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

before_mb, began = peak_mb(), time.process_time()
trace = read(Path(sys.argv[1]))
read_s, read_mb = time.process_time() - began, peak_mb()
answer = report(trace)
total_s = time.process_time() - began
events = sum(len(line.events) for line in trace.lines)
numbers = {"events": events, "steps": len(answer.devices[0].steps), "kernels": answer.devices[0].kernels}
memory = {"before_mb": before_mb, "read_mb": read_mb, "peak_mb": peak_mb()}
print(json.dumps(numbers | memory | {"read_s": read_s, "report_s": total_s - read_s}))
"""

GROWTH: dict[str, tuple[Callable[[int], bytes], tuple[int, ...]]] = {
    "events": (large_traces.thread, (370_000, 740_000, 1_480_000)),
    "threads of 500 operations": (lambda n: large_traces.threads(n, of=500), (490, 980, 1_960)),
    "steps of 100 operations": (lambda n: large_traces.steps(n, of=100), (2_500, 5_000, 10_000)),
    "GPUs beside 200,000 operations": (lambda n: large_traces.gpus(n, large_traces.thread(200_000)), (4, 8, 16)),
}


def one_step() -> MadeTrace:
    """Return a host step that launches kernels, each inside an operation, with the kernels themselves."""
    made = MadeTrace()
    python, stream = made.plane("/host:CPU").line("python"), made.plane("/device:GPU:0").line("Stream #1(Kernel)")
    python.event("train", 0, 10 * STEP_KERNELS, step_num=1)
    for index in range(STEP_KERNELS):
        name = f"layer_{index % 50}/MatMul:MatMul"
        python.event(name, 10 * index, 9, shape="(float[32,784];float[784,128])", is_eager=0, **DETAILS)
        python.event(
            "cuLaunchKernel", 10 * index + 2, 4, correlation_id=index + 1, device_id=0, context_id="$$1", **DETAILS
        )
        python.event(
            "ExecutorState::Process", 10 * index + 9, 0.5, id=2**63 + index, iter_num=0, _ct=2, _c=2**62 + index
        )
        python.event("MemoryAllocation", 10 * index + 1, 0, **ALLOCATION)
        kernel = f"kernel_{index % 50}<float, 128, 64>"
        stream.event(kernel, 10 * index + 5, 8, correlation_id=index + 1, tf_op=name, context_id="$$1", **DETAILS)
    return made


def write_trace(path: Path, size_bytes: int) -> None:
    """Repeat one step's events, later each time, until the file has about this size."""
    made = one_step()
    data = made.data()
    repeats = max(1, size_bytes // len(data))
    space = message("XSpace").FromString(data)
    for plane in space.planes:
        for line in plane.lines:
            first, line_of_copies = list(line.events), message("XLine")()
            for repeat in range(1, repeats):
                copies = message("XLine")(events=first)
                for event in copies.events:
                    event.offset_ps += repeat * 10 * STEP_KERNELS * 1_000_000
                    for stat in event.stats:
                        if plane.stat_metadata[stat.metadata_id].name == b"correlation_id":
                            stat.int64_value += repeat * STEP_KERNELS
                line_of_copies.MergeFrom(copies)
            line.MergeFrom(line_of_copies)
    path.write_bytes(space.SerializeToString())


def measured(path: Path) -> dict[str, float]:
    """Return what reading and analysis cost in a process of its own."""
    done = subprocess.run([sys.executable, "-c", CHILD, str(path)], check=True, capture_output=True, text=True)
    costs: dict[str, float] = json.loads(done.stdout)
    return {"file_mb": path.stat().st_size / 1e6} | costs


def growth(what: str) -> list[dict[str, float | str]]:
    """Return a line per size of one part of a trace, with the ratio to the previous one; the better of two runs."""
    make, sizes = GROWTH[what]
    results: list[dict[str, float | str]] = []
    before_s = float("nan")
    for size in sizes:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "made.xplane.pb"
            large_traces.write(path, [make(size)])
            costs = min(
                (measured(path) for _ in range(2)), key=lambda run_costs: run_costs["read_s"] + run_costs["report_s"]
            )
        total_s = costs["read_s"] + costs["report_s"]
        print(
            f"{what} {size:,}: {total_s:.2f} s, {costs['peak_mb']:,.0f} MB, ratio {total_s / before_s:.2f}", flush=True
        )
        results.append({"what": what, "size": size, "ratio": total_s / before_s} | costs)
        before_s = total_s
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, nargs="*", default=[25, 100])
    parser.add_argument("--no-growth", action="store_true")
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    results = []
    for megabytes in chosen.megabytes:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "made.xplane.pb"
            # written by its own process, so that its memory does not count for the next one
            code = f"from benchmarks.trace_reader import *; write_trace(Path({str(path)!r}), {megabytes * 1_000_000})"
            subprocess.run([sys.executable, "-c", code], check=True)
            result = measured(path)
        results.append(result)
        print("  ".join(f"{name} {value:,.1f}" for name, value in result.items()), flush=True)
    for what in () if chosen.no_growth else GROWTH:
        results += growth(what)
    if chosen.json:
        chosen.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
