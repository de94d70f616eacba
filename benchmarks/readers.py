"""Time and memory of reading the worst files of accepted size for each reader, with all the work that follows.

    python -m benchmarks.readers [--only run trace] [--match words] [--json out.json]

Every file has its reader's maximum size and the most expensive shape, and is passed to the command that a user would
use, in its own process: import, reading, analysis, printing or drawing. A line shows seconds of CPU time (other
programs do not count), peak resident memory in MB, the size of the file, the exit status and the last line of output.
Over 10 s or 1 GB is marked ✗.
"""

from __future__ import annotations

import argparse
import io
import json
import multiprocessing
import os
import random
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from core.cli.choices import MAX_PLAN_BYTES
from core.rounds.show.imports import MAX_BYTES
from core.rounds.study import MAX_RECORD_BYTES
from simulated import large_traces

MOST_S, MOST_MB = 10.0, 1000.0
GIVEN_UP_S, GIVEN_UP_BYTES = 60, 6 * 10**9
ROOT = Path(__file__).parents[1]
HEAD: dict[str, Any] = {
    "schema_version": 1, "id": "hostile-run", "name": "n", "created_at": "2026-11-01T00:00:00+00:00",
    "label": "recorded", "status": "finished", "target_names": ["cpu", "gpu:0"],
}  # fmt: skip


@dataclass(frozen=True)
class Shape:
    """A shape of file.

    ``make`` writes the file (or folder) at a path; ``command`` follows ``python``, with ``{}`` for the path.
    """

    name: str
    suffix: str
    make: Callable[[Path], None]
    command: tuple[str, ...]


@dataclass(frozen=True)
class Cost:
    shape: str
    file_mb: float
    seconds: float
    peak_mb: float
    status: int
    said: str

    @property
    def holds(self) -> bool:
        return self.seconds <= MOST_S and self.peak_mb <= MOST_MB and self.status in (0, 1, 2)


VERDICT = ("-m", "core", "verdict", "{}")
REPORT = ("-m", "core", "report", "{}", "--out", "{}.html")
TRACE = ("-m", "core", "trace", "{}")
STUDY = """
import sys
from pathlib import Path
from core.cli.files import read_study
from core.studies.registry import kind_of
read_study(kind_of("diagnosis"), Path(sys.argv[1]))
"""
DATA = (
    "-c",
    "import sys; from core.userdata.source import inspect_data; print(inspect_data(sys.argv[1]).words)",
    "{}",
)


def repeated(field: str, item: Callable[[int], str]) -> Callable[[Path], None]:
    """Return a maker of a run whose list ``field`` fills the file with what ``item`` returns for 0, 1, 2, …"""

    def make(path: Path) -> None:
        begin, size, items = json.dumps(HEAD)[:-1] + f', "{field}": [', 0, []
        while size < MAX_BYTES - 3_000:
            items.append(item(len(items)))
            size += len(items[-1]) + 1
        if size > MAX_BYTES - 1_000:
            items.pop()
        path.write_text(f"{begin}{','.join(items)}]}}")

    return make


def one_round(index: int, batch: int, process: int, both: bool = True, pass_index: int = 0) -> str:
    noise = random.Random(index).uniform(0.9, 1.1)
    blocks = [f'{{"target":{t},"process":{process},"steps":1,"step_ms":{noise * (1 + t) * batch:.4g}}}' for t in (0, 1)]
    chosen = ",".join(blocks if both else blocks[:1])
    return f'{{"index":{index},"batch":{batch},"pass_index":{pass_index},"blocks":[{chosen}]}}'


def spans(_: int) -> str:
    span = '{"lane":"l","name":"n","part":"other","start_ms":0,"length_ms":1}'
    step = '{"step_ms":1,"other_ms":1}'
    device = f'{{"device":"CPU","steps":[{step}],"kernels":0,"busy_ms":0,"span_ms":1,"steps_from":"whole trace",'
    device += f'"timeline":[{",".join([span] * 4000)}]}}'
    return f'{{"batch":{_ + 1},"target":0,"device":{device},"profiled_step_ms":1,"unprofiled_step_ms":1}}'


ROUND_OF = '{"index":%d,"batch":1,"noise":{"busiest":[%s]},"blocks":[{"target":0,"process":1,"steps":1,"step_ms":1}]}'
BUSIEST = ",".join(['{"name":"","cpu_pct":0}'] * 8)


def traced(field: str, item: str) -> Callable[[Path], None]:
    """Return a maker of a run whose only trace is as large as the file."""
    device = '"device":{"device":"CPU","steps":[%s],"kernels":0,"busy_ms":0,"span_ms":1,"steps_from":"whole trace"%s}'
    step = '{"step_ms":1,"other_ms":1}'

    def make(path: Path) -> None:
        many = ",".join([item] * ((MAX_BYTES - 2_000) // (len(item) + 1)))
        inside = device % ((many, "") if field == "steps" else (step, f',"{field}":[{many}]'))
        cell = f'{{"batch":1,"target":0,{inside},"profiled_step_ms":1,"unprofiled_step_ms":1}}'
        path.write_text(f'{json.dumps(HEAD)[:-1]}, "rounds": [{one_round(0, 1, 0)}], "traces": [{cell}]}}')

    return make


def run_shapes() -> Iterator[Shape]:
    def shape(name: str, make: Callable[[Path], None], *commands: tuple[str, ...]) -> Iterator[Shape]:
        for command in commands or (VERDICT,):
            yield Shape(f"run: {name}, {command[2]}", ".json", make, command)

    both = (VERDICT, REPORT)
    yield from shape("one process per round", repeated("rounds", lambda i: one_round(i, 1 + i % 7, i)), *both)
    yield from shape("5,000 processes", repeated("rounds", lambda i: one_round(i, 1 + i % 7, (i // 7) % 5000)), *both)
    yield from shape(
        "5,000 processes at 1,000 batches",
        repeated("rounds", lambda i: one_round(i, 1 + i % 1000, (i // 1000) % 5000)),
        *both,
    )
    yield from shape(
        "30 processes at 1,000 batches",
        repeated("rounds", lambda i: one_round(i, 1 + i % 1000, (i // 1000) % 30)),
        *both,
    )
    yield from shape("one pass per round", repeated("rounds", lambda i: one_round(i, 1 + i % 7, 0, pass_index=i)))
    yield from shape("neighbours", repeated("rounds", lambda i: ROUND_OF % (i, BUSIEST)))
    yield from shape("no pairs", repeated("rounds", lambda i: one_round(i, 1 + i % 7, i, both=False)), *both)
    yield from shape("one cell", repeated("rounds", lambda i: one_round(i, 8, 0)), *both)
    yield from shape(
        "processes", repeated("processes", lambda i: f'{{"pid":1,"startup_ms":1,"device":"","index":{i},"target":0}}')
    )
    yield from shape("warnings", repeated("warnings", lambda i: f'{{"code":"w{i}","text":""}}'))
    yield from shape("broken rounds", lambda path: _write(path, broken("rounds", "{}")))
    yield from shape("broken numbers", lambda path: _write(path, broken("rounds", "1")))
    yield from shape("cells", repeated("cells", lambda i: f'{{"target":0,"batch":{i + 1},"outcome":"measured"}}'))
    yield from shape("traces", repeated("traces", spans), *both)
    yield from shape("kernels of a trace", traced("top", '{"name":"","count":1,"total_ms":0}'), *both)
    yield from shape("steps of a trace", traced("steps", '{"step_ms":1,"other_ms":1}'), *both)
    yield from shape("latencies", repeated("setups", latencies))
    long = json.dumps(HEAD | {"target_names": ["x" * (MAX_BYTES - 10_000), "b"]})[:-1]
    yield from shape("a long name", lambda path: _write(path, f'{long}, "rounds": [{one_round(0, 1, 0)}]}}'), *both)
    yield from shape("nested", lambda path: _write(path, '{"a":' * (MAX_BYTES // 5)))
    yield from shape("nested lists", lambda path: _write(path, '{"a":' + "[" * (MAX_BYTES - 10)))
    yield from shape("digits", lambda path: _write(path, '{"schema_version": ' + "9" * (MAX_BYTES - 100) + "}"))
    yield from shape(
        "many keys", lambda path: _write(path, "{" + ",".join(f'"{i}":0' for i in range(MAX_BYTES // 12)) + "}")
    )


def latencies(process: int) -> str:
    times = '"build_ms":1,"first_call_ms":1,"warmup_steps":1,"warmup_ms":1,"warmup_steady":true,"steps_per_block":1'
    many = ",".join(["1"] * 999)
    return f'{{"batch":1,"target":0,"process":{process},{times},"latency_ms":[{many}]}}'


def broken(field: str, item: str) -> str:
    """Return a run whose list ``field`` is full of items that it does not accept."""
    return f'{json.dumps(HEAD)[:-1]}, "{field}": [{",".join([item] * ((MAX_BYTES - 500) // (len(item) + 1)))}]}}'


def csv_shapes() -> Iterator[Shape]:
    def shape(name: str, header: str, row: Callable[[int], str], *commands: tuple[str, ...]) -> Iterator[Shape]:
        def make(path: Path) -> None:
            rows: list[str] = []
            size = 0
            while size < MAX_BYTES - len(header) - 200 and len(rows) < 200_000:
                rows.append(row(len(rows)))
                size += len(rows[-1]) + 1
            path.write_text("\n".join([header, *rows]) + "\n")

        for command in commands or (VERDICT, REPORT):
            yield Shape(f"csv: {name}, {command[2]}", ".csv", make, command)

    head = "target,batch,round,process,step_ms"

    def row(i: int, batches: int, processes: int) -> str:
        n, t = i // 2, i % 2
        noise = random.Random(i).uniform(0.9, 1.1)
        return f"{'ab'[t]},{1 + n % batches},{n},{(n // batches) % processes},{noise * (1 + t):.4f}"

    yield from shape("one process per round", head, lambda i: row(i, 1, 10**9))
    yield from shape("one process per round at 7 batches", head, lambda i: row(i, 7, 10**9))
    yield from shape("100 processes at 1,000 batches", head, lambda i: row(i, 1000, 100))
    yield from shape("one process at 1,000 batches", head, lambda i: row(i, 1000, 1))
    yield from shape("one batch per row", head, lambda i: f"a,{1 + i % 65536},{i},0,1")
    yield from shape("one target per row", head, lambda i: f"t{i},1,{i},0,1", VERDICT)
    yield from shape("two rows, one column each byte", head + "," * (MAX_BYTES - 500), lambda _: "a", VERDICT)
    wide = head + "," * 5_000
    yield from shape("wide rows", wide, lambda i: f"a,1,{i},0,1" + "," * 5_000, VERDICT)
    yield from shape("one line", head + "x" * (MAX_BYTES - 500), lambda _: "", VERDICT)
    yield Shape("csv: blank lines, verdict", ".csv", lambda p: _write(p, head + "\n" * (MAX_BYTES - 100)), VERDICT)
    yield Shape(
        "csv: quotes, verdict", ".csv", lambda p: _write(p, head + '\n"' + "a\n" * (MAX_BYTES // 2 - 99)), VERDICT
    )


def npz_bomb(path: Path) -> None:
    """Write half a megabyte that unpacks to a header of 500 MB."""
    header_bytes = 500_000_000
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("x.npy", "w", force_zip64=True) as f:
        f.write(b"\x93NUMPY\x02\x00" + header_bytes.to_bytes(4, "little"))
        for _ in range(header_bytes // 1_000_000):
            f.write(b" " * 1_000_000)


def many_members(path: Path) -> None:
    buffer = io.BytesIO()
    np.save(buffer, np.zeros(1))
    with zipfile.ZipFile(path, "w") as archive:
        for index in range(60_000):
            archive.writestr(f"{index}", b"")


def many_headers(path: Path) -> None:
    """Write a thousand arrays, each with a header of 64 kB nested as deep as it goes."""
    literal = b"{'descr': '<f4', 'fortran_order': False, 'shape': (" + b"1," * 30_000 + b"), }"
    head = b"\x93NUMPY\x01\x00" + len(literal).to_bytes(2, "little") + literal
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for index in range(1_000):
            archive.writestr(f"{index}.npy", head)


def data_shapes() -> Iterator[Shape]:
    yield Shape("data: npz, header of 500 MB", ".npz", npz_bomb, DATA)
    yield Shape("data: npz, 60,000 members", ".npz", many_members, DATA)
    yield Shape("data: npz, 1,000 headers of 64 kB", ".npz", many_headers, DATA)
    magic = b"\x93NUMPY\x02\x00"
    yield Shape(
        "data: npy, header of 500 MB",
        ".npy",
        lambda p: _sparse(p, magic + (500_000_000).to_bytes(4, "little"), 500_000_100),
        DATA,
    )
    nested = b"(" * 60_000
    yield Shape(
        "data: npy, nested header",
        ".npy",
        lambda p: _bytes(p, magic + len(nested).to_bytes(4, "little") + nested),
        DATA,
    )
    yield Shape(
        "data: TFRecord, a length that lies",
        ".tfrecord",
        lambda p: _sparse(p, (2**40).to_bytes(8, "little") + b"1234", 10**9),
        DATA,
    )


def other_shapes() -> Iterator[Shape]:
    plan = ("-m", "core", "sweep", "--no-store", "--plan", "{}")
    most = MAX_PLAN_BYTES - 100
    yield Shape("plan: nested", ".json", lambda p: _write(p, '{"a":' * (most // 5)), plan)
    yield Shape("plan: digits", ".json", lambda p: _write(p, '{"batches":[' + "9" * most + "]}"), plan)
    yield Shape("plan: batches", ".json", lambda p: _write(p, '{"batches":[' + "1," * (most // 2 - 20) + "1]}"), plan)
    cards = ("-m", "core", "gpus", "--add", "{}")
    yield Shape("cards: nested", ".json", lambda p: _write(p, '{"gpus":' + "[" * 499_000), cards)
    yield Shape("cards: many", ".json", lambda p: _write(p, '{"gpus":[' + "{}," * 166_000 + "{}]}"), cards)
    network = ("-m", "core", "sweep", "--no-store", "--budget", "2", "--architecture", "{}")
    yield Shape("keras: layers", ".json", lambda p: _write(p, keras_layers(1_999_000)), network)
    yield Shape("keras: nested", ".json", lambda p: _write(p, "[" * 1_999_000), network)
    yield Shape("keras: 500 MB", ".keras", lambda p: _sparse(p, b"PK\x03\x04", 499_000_000), network)
    study = ("-c", STUDY, "{}")
    yield Shape("study: nested", ".json", lambda p: _write(p, "[" * (MAX_RECORD_BYTES - 10)), study)
    yield Shape(
        "study: numbers", ".json", lambda p: _write(p, '{"a":[' + "1," * (MAX_RECORD_BYTES // 2 - 20) + "1]}"), study
    )


def keras_layers(size: int) -> str:
    layer = '{"class_name":"Dense","config":{"units":1,"name":"d%d"}}'
    many = ",".join(layer % i for i in range(size // (len(layer) + 6)))
    return f'{{"class_name":"Sequential","config":{{"layers":[{many}]}}}}'


def trace_shapes() -> Iterator[Shape]:
    for name, make in large_traces.WORST.items():
        yield Shape(f"trace: {name}", ".xplane.pb", make, TRACE)


def _write(path: Path, text: str) -> None:
    path.write_text(text)


def _bytes(path: Path, data: bytes) -> None:
    path.write_bytes(data)


def _sparse(path: Path, begin: bytes, size: int) -> None:
    with path.open("wb") as file:
        file.write(begin)
        file.truncate(size)


GROUPS = {"run": run_shapes, "csv": csv_shapes, "data": data_shapes, "other": other_shapes, "trace": trace_shapes}


RELAY = """
import json, os, resource, sys
resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[1]),) * 2)
resource.setrlimit(resource.RLIMIT_CPU, (int(sys.argv[2]),) * 2)
pid = os.posix_spawn(sys.executable, [sys.executable, *sys.argv[4:]], os.environ)
_, status, used = os.wait4(pid, 0)
with open(sys.argv[3], "w") as file:
    json.dump([os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime, used.ru_maxrss / 1024], file)
"""
"""Starts the command from a small process: a child's peak memory, as the kernel counts it, begins at its parent's."""


def cost(shape: Shape, folder: Path) -> Cost:
    """Measure what the whole command costs one process."""
    path = folder / f"made{shape.suffix}"
    maker = multiprocessing.get_context("fork").Process(target=shape.make, args=(path,))
    maker.start()  # what it takes is given back
    maker.join()
    used = folder / "used.json"
    limits = (str(GIVEN_UP_BYTES), str(GIVEN_UP_S), str(used))
    command = [part.replace("{}", str(path)) for part in shape.command]
    environment = os.environ | {"BREAKEVEN_DATA_DIR": str(folder), "BREAKEVEN_LOCK_DIR": str(folder)}
    with (folder / "said").open("wb") as output:
        relay = [sys.executable, "-I", "-S", "-c", RELAY, *limits, *command]
        subprocess.run(relay, cwd=ROOT, stdout=output, stderr=output, env=environment, check=True)
    words = (folder / "said").read_text(errors="replace").strip().splitlines() or [""]
    status, seconds, peak_mb = json.loads(used.read_text())
    size = path.stat().st_size / 1e6
    path.unlink()
    return Cost(shape.name, size, seconds, peak_mb, status, words[-1][:150])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=GROUPS, default=list(GROUPS))
    parser.add_argument("--match", default="", help="only shapes whose name holds this")
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    costs = []
    for group in chosen.only:
        for shape in GROUPS[group]():
            if chosen.match not in shape.name:
                continue
            with tempfile.TemporaryDirectory() as folder:
                result = cost(shape, Path(folder))
            costs.append(result)
            mark = "✓" if result.holds else "✗"
            print(
                f"{mark} {result.seconds:6.1f} s {result.peak_mb:7.0f} MB {result.file_mb:7.1f} MB file  "
                f"{result.status:3d}  {result.shape}: {result.said}",
                flush=True,
            )
    if chosen.json:
        chosen.json.write_text(json.dumps([asdict(item) for item in costs], indent=1) + "\n", encoding="utf-8")
    sys.exit(0 if all(item.holds for item in costs) else 1)


if __name__ == "__main__":
    main()
