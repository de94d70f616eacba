"""Handmade inputs: paths that are no regular files, and files that cost a reader more than their size."""

from __future__ import annotations

import io
import json
import os
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from simulated import keras_files
from simulated.runs import make_run
from simulated.traces import MadeTrace

Shape = Callable[[], tuple[tuple[str, ...], tuple[str, bytes | str]]]


def _fifo(folder: Path) -> str:
    os.mkfifo(folder / "fifo")
    return "fifo"


def _loop(folder: Path) -> str:
    (folder / "loop").symlink_to("loop")
    return "loop"


def _folder(folder: Path) -> str:
    (folder / "folder").mkdir()
    return "folder"


def _closed(folder: Path) -> str:
    """Return a file that this user may not read; root may, so its content must be refused, too."""
    made = folder / "closed"
    made.mkdir()
    (made / "run.json").write_text("x")
    made.chmod(0)
    return "closed/run.json"


def _socket(folder: Path) -> str:
    import socket

    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(folder / "s"))
    return "s"


def _link_to(where: str) -> Callable[[Path], str]:
    def make(folder: Path) -> str:
        (folder / "link.json").symlink_to(where)
        return "link.json"

    return make


def _always(name: str) -> Callable[[Path], str]:
    return lambda _: name


PATHS: tuple[tuple[str, Callable[[Path], str]], ...] = (
    ("long name", _always("x" * 300)),
    ("long path", _always("/".join(["y" * 200] * 30))),
    ("very long", _always("z" * 100_000)),
    ("NUL", _always("a\x00b")),
    ("surrogate", _always("a\udcff.json")),
    ("escape", _always("a\x1b[31mb.json")),
    ("newline", _always("a\nb.json")),
    ("empty", _always("")),
    ("space", _always(" ")),
    ("dot", _always(".")),
    ("missing folder", _always("no/such/run.json")),
    ("below a file", _always("run.json/x")),
    ("folder", _folder),
    ("loop", _loop),
    ("fifo", _fifo),
    ("socket", _socket),
    ("closed folder", _closed),
    ("/dev/zero", _always("/dev/zero")),
    ("/dev/full", _always("/dev/full")),
    ("/dev/null", _always("/dev/null")),
    ("/dev/urandom", _always("/dev/urandom")),
    ("link to /dev/zero", _link_to("/dev/zero")),
    ("link to nothing", _link_to("nothing")),
    ("/proc/self/mem", _always("/proc/self/mem")),
    ("/proc/kmsg", _always("/proc/self/environ")),
    ("/", _always("/")),
    ("//", _always("//")),
    ("URL", _always("http://127.0.0.1:9/run.json")),
    ("option", _always("--")),
    ("tilde", _always("~nobody-of-that-name/run.json")),
)
CARD = ("predict", "--gpu", "A100-80GB-SXM")
MLP = (*CARD, "--preset", "784-128-10")
SWEEP = (
    "sweep", "--targets", "cpu,threads=1", "cpu,threads=2", "--batches", "1,8", "--budget", "10", "--no-store",
    "--no-trace",
)  # fmt: skip
TAKES_PATH: tuple[tuple[str, ...], ...] = (
    ("verdict", "PATH"), ("report", "PATH", "--out", "r.html"), ("report", "run.json", "--out", "PATH"),
    ("trace", "PATH"), (*SWEEP, "--out", "PATH"), ("sweep", "--plan", "PATH", "--no-store"),
    (*SWEEP, "--architecture", "PATH"), (*SWEEP, "--pipeline", "tfdata", "--data", "PATH"), ("batch", "PATH"),
    ("batch", "run.json", "--noise", "PATH"), ("batch", "run.json", "--memory", "PATH"),
    ("batch", "run.json", "--out", "PATH"), ("gpus", "--add", "PATH"), (*MLP, "--host", "PATH"),
    (*CARD, "--against", "PATH"), (*CARD, "--against", "run.json", "--recorded", "PATH"),
    ("diagnose", "PATH", "--no-store"),
)  # fmt: skip
"""Every command with a path; ``run.json`` is a valid run."""


# -- heavy -------------------------------------------------------------------------------------------------------------


def _csv(rows: int, line: Callable[[int], str]) -> Shape:
    head = "target,batch,step_ms,round,process"
    return lambda: (("verdict", "FILE"), ("run.csv", "\n".join([head, *(line(i) for i in range(rows))])))


def _run(change: Callable[[dict[str, Any]], Any], *command: str) -> Shape:
    def make() -> tuple[tuple[str, ...], tuple[str, bytes | str]]:
        data = json.loads(make_run(batches=(1, 8, 64)).to_json())
        change(data)
        return command or ("verdict", "FILE"), ("run.json", json.dumps(data))

    return make


def _many_processes(data: dict[str, Any]) -> None:
    first, rounds, processes = data["rounds"][0], list[Any](), list[Any]()
    for number in range(5_000):
        for target in (0, 1):
            processes.append(data["processes"][0] | {"index": number, "target": target})
        for batch in (1, 8, 64):
            blocks = [block | {"process": number} for block in first["blocks"]]
            rounds.append(first | {"index": len(rounds), "batch": batch, "blocks": blocks})
    data["rounds"], data["processes"] = rounds, processes


def _many_rounds(data: dict[str, Any]) -> None:
    rounds = data["rounds"]
    data["rounds"] = [item | {"index": i} for i, item in enumerate(rounds * (40_000 // len(rounds)))]


def _many_warnings(data: dict[str, Any]) -> None:
    data["warnings"] = [{"code": f"w{i}", "text": "y" * 100} for i in range(100_000)]


def _many_busy(data: dict[str, Any]) -> None:
    for item in data["rounds"]:
        item["noise"]["busiest"] = [{"name": f"p{i}", "cpu_pct": 50.0} for i in range(2_000)]


def _many_batches(data: dict[str, Any]) -> None:
    first = data["rounds"][0]
    data["rounds"] = [first | {"index": i, "batch": 1 + i % 10_000} for i in range(20_000)]


def _long_name(data: dict[str, Any]) -> None:
    data["name"] = "n" * 15_000_000


def _text(size: int, piece: str, name: str = "run.json", *command: str) -> Shape:
    return lambda: (command or ("verdict", "FILE"), (name, piece * size))


def _trace(fill: Callable[[MadeTrace], None]) -> Shape:
    def make() -> tuple[tuple[str, ...], tuple[str, bytes | str]]:
        made = MadeTrace()
        fill(made)
        return ("trace", "FILE"), ("made.xplane.pb", made.data())

    return make


def _steps(made: MadeTrace) -> None:
    line = made.plane("/host:CPU").line("python", thread=1)
    device = made.plane("/device:GPU:0").line("Stream #1(Kernel)")
    for step in range(700_000):
        line.event("train", 10 * step, 9, step_num=step)
        if step % 10 == 0:
            device.event("gemm", 10 * step + 2, 5)


def _devices(made: MadeTrace) -> None:
    python = made.plane("/host:CPU").line("python", thread=1)
    for step in range(10):
        python.event("train", 100 * step, 95, step_num=step)
    for number in range(10_000):
        made.plane(f"/device:GPU:{number}").line("Stream #1(Kernel)").event("gemm", 20, 10)


def _lines(made: MadeTrace) -> None:
    host = made.plane("/host:CPU")
    for number in range(100_000):
        host.line(f"thread {number}", thread=number).event("work", 10, 10)
    host.line("python", thread=100_001).event("train", 0, 100, step_num=1)


def _streams(made: MadeTrace) -> None:
    made.plane("/host:CPU").line("python", thread=1).event("train", 0, 100, step_num=1)
    device = made.plane("/device:GPU:0")
    for number in range(100_000):
        device.line(f"Stream #{number}(Kernel)").event("gemm", 10, 10)


def _nested(made: MadeTrace) -> None:
    host = made.plane("/host:CPU").line("python", thread=1)
    host.event("train", 0, 1_000_000, step_num=1)
    for depth in range(100_000):
        host.event("call", depth, 1_000_000 - 2 * depth)


def _names(made: MadeTrace) -> None:
    made.plane("/host:CPU").line("python", thread=1).event("train", 0, 1_000_000, step_num=1)
    device = made.plane("/device:GPU:0").line("Stream #1(Kernel)")
    for number in range(150_000):
        device.event(f"kernel {number}", 5 * number, 4)


def _overlapping(made: MadeTrace) -> None:
    python = made.plane("/host:CPU").line("python", thread=1)
    for step in range(3_000):
        python.event("train", step, 10_000, step_num=step)
    device = made.plane("/device:GPU:0").line("Stream #1(Kernel)")
    for number in range(50_000):
        device.event("gemm", number * 0.2, 5_000)


def _npy_header(size: int, shape: str = "(8, 12)") -> bytes:
    head = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}".ljust(size).encode() + b"\n"
    return b"\x93NUMPY\x02\x00" + struct.pack("<I", len(head)) + head


def _data(name: str, data: bytes) -> Shape:
    return lambda: ((*SWEEP, "--preset", "12-8-4", "--pipeline", "tfdata", "--data", "FILE"), (name, data))


def _npz(member: Callable[[], bytes], members: int = 1) -> Shape:
    def make() -> tuple[tuple[str, ...], tuple[str, bytes | str]]:
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
            for number in range(members):
                archive.writestr(f"{number or ''}x.npy", member())
        return _data("data.npz", buffer.getvalue())()

    return make


def _model(member: str, data: Callable[[], bytes]) -> Shape:
    def make() -> tuple[tuple[str, ...], tuple[str, bytes | str]]:
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(member, data())
        return (*CARD, "--architecture", "FILE"), ("model.keras", buffer.getvalue())

    return make


def _layers(count: int, **config: Any) -> Shape:
    def make() -> tuple[tuple[str, ...], tuple[str, bytes | str]]:
        layers = [keras_files.source(16, name="l0")]
        layers += [keras_files.layer("Dense", f"l{i}", f"l{i - 1}", **{"units": 8, **config}) for i in range(1, count)]
        return (*CARD, "--architecture", "FILE"), ("model.json", keras_files.text(keras_files.functional(*layers)))

    return make


ARCHITECTURE = (*CARD, "--architecture", "FILE")
ADD = ("gpus", "--add", "FILE")
HOST = (*MLP, "--host", "FILE")
PLAN = ("sweep", "--plan", "FILE", "--no-store")
HEAVY: tuple[tuple[str, Shape], ...] = (
    ("CSV, one process per round", _csv(199_999, lambda i: f"{'ab'[i % 2]},{1 + i % 16},1.5,{i // 2},{i // 2}")),
    ("CSV, one huge process", _csv(999, lambda i: f"{'ab'[i % 2]},{1 + i % 16},1.5,{i // 2},{10**9 * (i == 7)}")),
    ("CSV, 1,000 batch sizes", _csv(20_000, lambda i: f"{'ab'[i % 2]},{1 + i // 2 % 1000},1.5,{i // 2},0")),
    ("CSV, 200,000 rows of one batch", _csv(199_999, lambda i: f"{'ab'[i % 2]},8,{1 + i % 7},{i // 2},{i % 3}")),
    ("CSV, a million lines", _csv(1_000_000, lambda i: f"a,{i},1")),
    ("CSV, one long line", _text(18_000_000, "a", "run.csv")),
    ("CSV, one long quoted cell", _text(1, 'target,batch,step_ms\n"' + "x," * 9_000_000, "run.csv")),
    ("CSV, 100,000 columns", _text(1, ",".join(f"c{i}" for i in range(100_000)) + "\n" + "1," * 100_000, "run.csv")),
    ("CSV, 100,000 targets", _csv(100_000, lambda i: f"t{i},8,1.5,{i},0")),
    ("run, 5,000 processes", _run(_many_processes)),
    ("run, 5,000 processes, report", _run(_many_processes, "report", "FILE", "--out", "r.html")),
    ("run, 5,000 processes, batch", _run(_many_processes, "batch", "FILE")),
    ("run, 40,000 rounds", _run(_many_rounds)),
    ("run, 40,000 rounds, report", _run(_many_rounds, "report", "FILE", "--out", "r.html")),
    ("run, 100,000 warnings", _run(_many_warnings)),
    ("run, 2,000 other processes per round", _run(_many_busy)),
    ("run, 10,000 batches", _run(_many_batches)),
    ("run, 10,000 batches, report", _run(_many_batches, "report", "FILE", "--out", "r.html")),
    ("run, name of 15 MB", _run(_long_name)),
    ("JSON, nested 5 million deep", _text(5_000_000, "[")),
    ("JSON, nested objects", _text(2_000_000, '{"a":')),
    ("JSON, 19 MB of zeros", _text(1, "[" + "0," * 9_500_000 + "0]")),
    ("JSON, 19 MB of empty lists", _text(1, '{"rounds": [' + "[]," * 6_000_000 + "[]]}")),
    ("JSON, a number of 15 million digits", _text(1, '{"schema_version": ' + "9" * 15_000_000 + "}")),
    ("JSON, 100,000 keys", _text(1, json.dumps({f"k{i}": i for i in range(100_000)}))),
    ("JSON, too large", _text(25_000_000, " ")),
    ("plan, nested", _text(300_000, "[", "plan.json", *PLAN)),
    ("plan, 900 kB of batches", _text(1, '{"batches": [' + "1," * 400_000 + "2]}", "plan.json", *PLAN)),
    ("noise study, 60 MB", _text(30_000_000, "[]", "study.json", "batch", "FILE", "--noise", "FILE")),
    ("host study, 30 MB of lists", _text(1, '{"rounds": [' + "[]," * 10**7 + "[]]}", "study.json", *HOST)),
    ("trace, 700,000 steps", _trace(_steps)),
    ("trace, 10,000 GPUs", _trace(_devices)),
    ("trace, 100,000 threads", _trace(_lines)),
    ("trace, 100,000 streams", _trace(_streams)),
    ("trace, 100,000 calls inside each other", _trace(_nested)),
    ("trace, 150,000 names", _trace(_names)),
    ("trace, steps and kernels that overlap", _trace(_overlapping)),
    ("trace, no protobuf", _text(50_000_000, "\x08", "made.xplane.pb", "trace", "FILE")),
    ("npy, header of 500 MB named", _data("data.npy", b"\x93NUMPY\x02\x00" + struct.pack("<I", 500_000_000) + b"{")),
    ("npy, header of 50 MB", _data("data.npy", _npy_header(50_000_000))),
    ("npy, 10^18 samples", _data("data.npy", _npy_header(200, "(1000000000000000000, 12)"))),
    ("npy, 10^4 axes", _data("data.npy", _npy_header(40_000, "(" + "1," * 10_000 + ")"))),
    ("npy, header of brackets", _data("data.npy", b"\x93NUMPY\x01\x00" + struct.pack("<H", 60_000) + b"(" * 60_000)),
    ("npz, header bomb", _npz(lambda: _npy_header(500_000_000))),
    ("npz, 20,000 members", _npz(lambda: _npy_header(100), members=20_000)),
    ("npz, 2 GB of zeros", _npz(lambda: _npy_header(100, "(500000, 12)") + bytes(2 * 10**8))),
    ("TFRecord, a record of 2^60 bytes", _data("data.tfrecord", struct.pack("<Q", 2**60) + bytes(20))),
    ("TFRecord, 19 MB of empty records", _data("data.tfrecord", bytes(19_000_000))),
    ("architecture, 5,000 layers", _layers(5_000)),
    ("architecture, huge layers", _layers(20, units=10**9)),
    ("architecture, nested", _text(900_000, "[", "model.json", *ARCHITECTURE)),
    (".keras, bomb", _model("config.json", lambda: b" " * 800_000_000)),
    (".keras, nested bomb", _model("config.json", lambda: b"[" * 50_000_000)),
    (".keras, other member", _model("../../config.json", lambda: b"{}")),
    ("cards, 450 kB nested", _text(450_000, "[", "cards.json", *ADD)),
    ("cards, a long name", _text(1, f'{{"gpus": [{{"name": "{"n" * 400_000}"}}]}}', "cards.json", *ADD)),
)  # fmt: skip
